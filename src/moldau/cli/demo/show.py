"""Runs the demo: broker, generator and job as processes, the kill in the middle, and the end in good order."""

import contextlib
import json
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from rich.console import Console

from moldau.cli.demo import report, story
from moldau.cli.demo.clients import quiet
from moldau.cli.demo.events import AFTERWARDS_SECONDS
from moldau.cli.demo.expected import compute
from moldau.cli.demo.observed import inputs, outputs
from moldau.cli.demo.processes import Program
from moldau.cli.demo.scene import Scene
from moldau.cli.demo.view import View
from moldau.cli.embedded import EmbeddedBroker
from moldau.spark.writing.identity import GROUP_PREFIX as SINK_GROUP_PREFIX

LOOK_SECONDS = 0.1
CALL_SECONDS = 30
ANSWER_SECONDS = 10
END_SECONDS = 120
GIVE_UP_SECONDS = 1800
KILL_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Plan:
    """How the demo shall run."""

    events: int
    seconds: float
    story_minutes: int
    seed: int
    output: Path
    bootstrap: str | None = None
    master: str | None = None
    settings: dict[str, str] = field(default_factory=dict)
    kill: bool = True


class DemoFailed(RuntimeError):
    """Something ended that should not have; the text says what."""


def run(console: Console, plan: Plan) -> bool:
    """Show everything; says whether the results are exact."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="moldau-demo-")))
        bootstrap = plan.bootstrap or stack.enter_context(_embedded(folder)).address
        prefix = "" if plan.bootstrap is None else f"moldau-demo-{uuid.uuid4().hex[:8]}-"
        topics = stack.enter_context(_topics(bootstrap, prefix))
        scene = Scene(plan.events, time.monotonic)
        performance = _Performance(plan, folder, bootstrap, prefix, topics, scene)
        with View(console, scene) as view:
            place = "an existing cluster" if plan.bootstrap else "a broker in a process of its own"
            view.say(f"{bootstrap}: {place}; {len(topics)} topics with {story.PARTITIONS} partitions")
            stack.callback(performance.end)
            performance.play(view)
            view.say("Recomputing every result in plain Python, from the input topics")
            expected = compute(inputs(bootstrap, topics), {row.device: row for row in story.device_table()})
            found = outputs(bootstrap, topics, folder / "results")
        return report.show(console, plan.output, scene, expected, found)


def own_temporary_files(folder: Path) -> dict[str, str]:
    """Spark has no time to remove its own when it is killed: they go with the demo's folder."""
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    return {"TMPDIR": str(temporary)}


@contextlib.contextmanager
def _embedded(folder: Path) -> Iterator[EmbeddedBroker]:
    home = folder / "broker"
    home.mkdir()
    with EmbeddedBroker(home) as broker:
        yield broker
        broker.stop()


@contextlib.contextmanager
def _topics(bootstrap: str, prefix: str) -> Iterator[dict[str, str]]:
    """Topics of the demo's own; on somebody else's cluster with a prefix that nobody has, and removed afterwards."""
    names = {name: prefix + name for name in (*story.INPUT_TOPICS, story.DEVICES, *story.OUTPUT_TOPICS)}
    admin = AdminClient(quiet(bootstrap))
    try:
        admin.list_topics(timeout=ANSWER_SECONDS)
    except KafkaException as problem:
        raise DemoFailed(f"no cluster answers at {bootstrap}: {problem.args[0].str()}") from None
    # Event times are not arrival times: what retention by time would remove is part of the show.
    wanted = [NewTopic(name, num_partitions=story.PARTITIONS, config={"retention.ms": "-1"}) for name in names.values()]
    for outcome in admin.create_topics(wanted).values():
        outcome.result(timeout=CALL_SECONDS)
    try:
        yield names
    finally:
        if prefix:
            for outcome in admin.delete_topics(list(names.values())).values():
                outcome.result(timeout=CALL_SECONDS)
            _delete_groups(admin, (prefix, SINK_GROUP_PREFIX + prefix))


def _delete_groups(admin: AdminClient, prefixes: tuple[str, ...]) -> None:
    listed = admin.list_consumer_groups(request_timeout=CALL_SECONDS).result().valid
    ours = [group.group_id for group in listed if group.group_id.startswith(prefixes)]
    if ours:
        for outcome in admin.delete_consumer_groups(ours, request_timeout=CALL_SECONDS).values():
            outcome.result()


class _Performance:
    def __init__(
        self, plan: Plan, folder: Path, bootstrap: str, prefix: str, topics: dict[str, str], scene: Scene
    ) -> None:
        self._plan = plan
        self._prefix = prefix
        self._folder = folder
        self._bootstrap = bootstrap
        self._topics = topics
        self._scene = scene
        self._over = threading.Event()
        self._programs: list[Program] = []
        self._alarms = threading.Thread(target=self._follow_alarms, daemon=True)

    def play(self, view: View) -> None:
        """From the first event to the last result."""
        generator = self._start_generator()
        view.say(f"Generator: {self._plan.events:,} sensor readings and web logs in {self._plan.seconds:.0f} s")
        self._alarms.start()
        job = self._start_job()
        view.say("Spark starts, with three queries; events are written meanwhile")
        self._wait(view, generator, job, lambda: self._scene.ready and self._scene.every_query_works)
        if self._plan.kill:
            half = self._plan.events * KILL_SHARE
            self._wait(view, generator, job, lambda: self._scene.generated >= half and self._in_flight() is not None)
            job = self._kill_and_restart(view, job)
        generator.tell("go on")
        self._wait(view, generator, job, lambda: self._scene.complete and self._scene.ready)
        view.say(f"All {self._scene.generated:,} events are written; the queries process the rest")
        job.tell("finish")
        self._wait(view, generator, job, lambda: self._scene.finished)
        if (code := job.wait(END_SECONDS)) != 0:
            raise DemoFailed(f"the Spark job ended with {code}:\n{job.last_words()}")
        generator.wait(END_SECONDS)

    def _kill_and_restart(self, view: View, job: Program) -> Program:
        processes = job.kill()
        self._scene.killed()
        query, batch = self._in_flight() or ("clean", 0)
        view.say(
            f"[bold red]SIGKILL[/] to the Spark job in the middle of batch {batch} of query {query}: driver, JVM and "
            f"Python workers, {processes} processes"
        )
        again = self._start_job()
        view.say("The same job starts again, from its checkpoints")
        return again

    def _in_flight(self) -> tuple[str, int] | None:
        """A batch whose offsets are planned and not yet committed, from the checkpoints."""
        for query in ("clean", "alarms"):
            planned, done = (self._last_batch(query, log) for log in ("offsets", "commits"))
            if planned > done:
                return query, planned
        return None

    def _last_batch(self, query: str, log: str) -> int:
        files = (self._folder / "checkpoints" / query / log).glob("[0-9]*")
        return max((int(path.name) for path in files if path.name.isdigit()), default=-1)

    def _wait(self, view: View, generator: Program, job: Program, done: Any) -> None:
        pause = threading.Event()
        while not done():
            view.tick()
            pause.wait(LOOK_SECONDS)
            if self._scene.failure is not None:
                raise DemoFailed(self._scene.failure)
            if job.ended is not None and not self._scene.finished:
                raise DemoFailed(f"the Spark job ended by itself with {job.ended}:\n{job.last_words()}")
            if generator.ended:
                raise DemoFailed(f"the generator ended with {generator.ended}:\n{generator.last_words()}")
            if self._scene.seconds > GIVE_UP_SECONDS:
                raise DemoFailed(f"not done after {GIVE_UP_SECONDS} s:\n{job.last_words()}")

    def _start_generator(self) -> Program:
        table_written = threading.Event()

        def hear(message: dict[str, Any]) -> None:
            if message["kind"] == "table":
                table_written.set()
            else:
                self._scene.from_generator(message)

        story_seconds = self._plan.story_minutes * 60
        task = {
            "bootstrap": self._bootstrap,
            "topics": self._topics,
            "seed": self._plan.seed,
            "count": self._plan.events,
            "seconds": self._plan.seconds,
            "story_seconds": story_seconds,
            # Everything has happened already: brokers refuse records from the future.
            "start": time.time() // 60 * 60 - story_seconds - AFTERWARDS_SECONDS,
        }
        program = self._start("generator", task, hear)
        while not table_written.wait(LOOK_SECONDS):
            if program.ended is not None:
                raise DemoFailed(f"the generator ended with {program.ended}:\n{program.last_words()}")
        return program

    def _start_job(self) -> Program:
        task = {
            "bootstrap": self._bootstrap,
            "prefix": self._prefix,
            "topics": self._topics,
            "folder": str(self._folder),
            "results": str(self._folder / "results"),
            "master": self._plan.master,
            "settings": self._plan.settings,
        }
        return self._start("job", task, self._scene.from_job)

    def _start(self, name: str, task: dict[str, Any], hear: Any) -> Program:
        program = Program(
            f"moldau.cli.demo.{name}",
            [json.dumps(task)],
            self._folder / f"{name}.log",
            hear,
            own_temporary_files(self._folder),
        )
        self._programs.append(program)
        return program

    def _follow_alarms(self) -> None:
        settings = {"group.id": f"{self._prefix}view", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = Consumer(quiet(self._bootstrap) | settings | {"isolation.level": "read_committed"})
        consumer.subscribe([self._topics[story.ALARMS]])
        while not self._over.is_set():
            message = consumer.poll(LOOK_SECONDS)
            if message is not None and message.error() is None:
                self._scene.alarm(json.loads(message.value() or b"{}"))
        consumer.close()

    def end(self) -> None:
        """Leave nothing running, whatever happened."""
        self._over.set()
        for program in self._programs:
            program.kill()
        if self._alarms.is_alive():
            self._alarms.join(CALL_SECONDS)
