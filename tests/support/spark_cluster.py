"""A standalone Spark cluster from the classes that PySpark brings: one master, some workers, each a process."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
from pathlib import Path
from types import TracebackType

import psutil
import pyspark

from moldau.spark.java import find_java_home
from tests.support.process import die_with_parent
from tests.support.waiting import wait_until

START_SECONDS = 120.0
MASTER_ADDRESS = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = "Successfully registered with master"


class StandaloneCluster:
    """`with StandaloneCluster(folder) as cluster: session(master=cluster.address)`."""

    def __init__(self, folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> None:
        self.folder = folder
        self.address = ""
        self._workers = workers
        self._cores = cores
        self._memory = memory
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> StandaloneCluster:
        self.folder.mkdir(parents=True, exist_ok=True)
        try:
            self._start("master", "master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
            found = wait_until(lambda: MASTER_ADDRESS.search(self.log("master")), "Spark's master", START_SECONDS)
            self.address = found.group(1)
            for number in range(self._workers):
                self.start_worker(number)
            for number in range(self._workers):
                self._wait_for_worker(number)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start_worker(self, number: int) -> None:
        """Each on a host of its own, or so Spark believes: it never gives a task's second attempt to the same host."""
        name, host = f"worker-{number}", f"127.0.0.{number + 1}"
        place = ("--host", host, "--port", "0", "--webui-port", "0", "--work-dir", str(self.folder / name))
        size = ("--cores", str(self._cores), "--memory", self._memory)
        self._start(name, "worker.Worker", *place, *size, self.address)

    def _wait_for_worker(self, number: int) -> None:
        name = f"worker-{number}"
        wait_until(lambda: REGISTERED in self.log(name), f"{name} of Spark\n{self.log(name)}", START_SECONDS)

    def _start(self, name: str, class_name: str, *arguments: str) -> None:
        home = Path(pyspark.__file__).parent
        temporary = self.folder / "temporary"
        temporary.mkdir(exist_ok=True)
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java_home(os.environ)),
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "TMPDIR": str(temporary),
            "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={temporary}",  # for executors too, which are killed
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{class_name}", *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, taken from a library loaded before
            )

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def executors(self) -> list[psutil.Process]:
        """The running executors, children of the workers."""
        return [
            child
            for name, process in self._processes.items()
            if name.startswith("worker") and process.poll() is None
            for child in psutil.Process(process.pid).children(recursive=True)
            if "CoarseGrainedExecutorBackend" in command_of(child)
        ]

    def stop(self) -> None:
        """End every process, executors and their Python workers included."""
        for process in self._processes.values():
            family: list[psutil.Process] = []
            if process.poll() is None:
                family = psutil.Process(process.pid).children(recursive=True)
            process.kill()
            process.wait()
            for member in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    member.kill()
            psutil.wait_procs(family, timeout=START_SECONDS)
        self._processes.clear()


def command_of(process: psutil.Process) -> str:
    """Nothing for one that has just ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""
