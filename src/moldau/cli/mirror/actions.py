"""What the verbs of `moldau mirror` do."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.cli.output import (
    FAILED,
    NOT_FOUND,
    UNHEALTHY,
    WRONG_USAGE,
    Column,
    CommandError,
    Format,
    Table,
    note,
    show,
    size_text,
    warn,
)
from moldau.config import properties, providers
from moldau.config.definition import ConfigError
from moldau.mirror.settings import Flow, MirrorSettings, MirrorSettingsError, read_settings

if TYPE_CHECKING:
    from moldau.mirror.running import Mirror
    from moldau.mirror.serving import Window
    from moldau.mirror.watching import FlowStanding


def settings_of(config: Path, clusters: list[str] | None = None) -> MirrorSettings:
    try:
        found = read_settings(providers.resolved(properties.read(config), os.environ), clusters)
    except (OSError, properties.PropertiesError, providers.ProviderError) as error:
        raise CommandError(f"{config}: {error}", exit_code=WRONG_USAGE) from None
    except MirrorSettingsError as error:
        raise CommandError(f"{config}: {' | '.join(error.problems)}", exit_code=WRONG_USAGE) from None
    for warning in found.warnings:
        warn(f"{config}: {warning}")
    return found


def looping(settings: MirrorSettings) -> tuple[Flow, ...]:
    return tuple(flow for flow in settings.known if flow.enabled)


def chosen(settings: MirrorSettings, name: str | None) -> tuple[Flow, ...]:
    if name is None:
        return settings.copying
    try:
        return (settings.flow(name),)
    except MirrorSettingsError as error:
        raise CommandError(str(error), exit_code=NOT_FOUND) from None


def start(
    config: Path, clusters: list[str] | None, *, progress: bool, until_current: bool, listen: str | None, output: Format
) -> None:
    from moldau.mirror.running import Mirror

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings = settings_of(config, clusters)
    mirror = Mirror(settings)
    window = None if listen is None else window_of(mirror, settings, listen)
    ended = threading.Event()
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    goals = goal_of(settings) if until_current else {}
    mirror.start()
    try:
        where = "" if window is None else f" at {window.open()}"
        print(f"ready: {', '.join(flow.name for flow in settings.copying)}{where}", flush=True)
        while not ended.wait(1.0 if progress else 0.2):
            if progress:
                tell(mirror, output)
            if until_current and reached(mirror, goals):
                break
    except OSError as error:
        raise CommandError(str(error), exit_code=FAILED) from None
    finally:
        mirror.stop()
        if window is not None:
            window.close()
        for number, handler in before.items():
            signal.signal(number, handler)
    if progress or until_current:
        tell(mirror, output)


def window_of(mirror: Mirror, settings: MirrorSettings, listen: str) -> Window:
    try:
        from moldau.mirror.serving import Window

        return Window(mirror, settings.properties, listen, time.time)
    except ImportError as error:
        raise CommandError(f"{error}: pip install 'moldau[services]'", exit_code=FAILED) from None
    except ConfigError as error:
        raise CommandError(str(error), exit_code=WRONG_USAGE) from None


def goal_of(settings: MirrorSettings) -> dict[str, dict[tuple[str, int], int]]:
    """Where the sources end now."""
    from moldau.client.cluster import Cluster
    from moldau.client.settings import ClientSettings
    from moldau.client.states import COMMITTED, LATEST, offsets_at
    from moldau.types.ids import TopicPartition

    goals: dict[str, dict[tuple[str, int], int]] = {}
    for flow in settings.copying:
        with Cluster(ClientSettings.from_properties(flow.reading)) as source:
            places = [
                TopicPartition(topic.name or "", part.partition_index)
                for topic in source.metadata(None).topics
                if flow.copies(topic.name or "")
                for part in topic.partitions
            ]
            ends = offsets_at(source, places, LATEST, COMMITTED)
            goals[flow.name] = {(place.topic, place.partition): end for place, end in ends.items()}
    return goals


def reached(mirror: Mirror, goals: dict[str, dict[tuple[str, int], int]]) -> bool:
    for flow in mirror.flows:
        for place, goal in goals.get(flow.flow.name, {}).items():
            if place[0] in flow.shared.problems:
                continue
            found = flow.shared.partitions.get(place)  # type: ignore[call-overload]
            if found is None or (found.position < goal and found.state != "FAILED"):
                return False
    return True


def tell(mirror: Mirror, output: Format) -> None:
    for each in mirror.as_json():
        if output.for_programs:
            print(json.dumps(each), flush=True)
        else:
            trouble = f", {each['error'] or 'topics left out'}" if each["error"] or each["problems"] else ""
            print(
                f"{each['flow']}  {each['state']}  {each['records']} records, {size_text(each['bytes'])}, "
                f"lag {each['lag']}, {each['transactions']} transactions{trouble}",
                file=sys.stderr, flush=True,
            )  # fmt: skip


def check(config: Path, clusters: list[str] | None, output: Format) -> None:
    from moldau.client.cluster import Cluster
    from moldau.client.settings import ClientSettings
    from moldau.mirror import topics

    settings = settings_of(config, clusters)
    document: list[dict[str, Any]] = []
    table = Table([Column("flow"), Column("topic"), Column("remote"), Column("partitions", right=True), Column("note")])
    for flow in settings.copying:
        with (
            Cluster(ClientSettings.from_properties(flow.reading)) as source,
            Cluster(ClientSettings.from_properties(flow.writing)) as target,
        ):
            found = topics.survey(flow, source, target, leads=False, loops=looping(settings))
        document.append(
            {
                "flow": flow.name,
                "topics": {name: pair.remote for name, pair in sorted(found.pairs.items())},
                "problems": dict(found.problems),
            }
        )
        for name, pair in sorted(found.pairs.items()):
            table.add(flow.name, name, pair.remote, pair.partitions, "")
        for name, why in sorted(found.problems.items()):
            table.add(flow.name, name, flow.remote(name), None, why)
    show(output, document, lambda: [table], "no topic of the sources is chosen")


def status(config: Path, name: str | None, output: Format) -> None:
    from moldau.mirror.watching import standing

    settings = settings_of(config)
    found = [standing(flow, looping(settings)) for flow in chosen(settings, name)]
    show(output, [each.as_json() for each in found], lambda: status_tables(found), "no topic of the sources is chosen")
    if any(each.problems or any(part.state in ("CUT", "OTHER") for part in each.partitions) for each in found):
        raise CommandError("not everything is copied", exit_code=UNHEALTHY)


def status_tables(found: list[FlowStanding]) -> list[Table]:
    table = Table(
        [
            Column("flow"), Column("topic"), Column("partition", right=True), Column("remote"),
            Column("position", right=True), Column("end", right=True), Column("lag", right=True), Column("state"),
        ]
    )  # fmt: skip
    for each in found:
        for part in each.partitions:
            table.add(each.flow, part.topic, part.partition, part.remote, part.position, part.end, part.lag, part.state)
        for topic, why in each.problems.items():
            note(f"{each.flow}: {topic}: {why}")
    return [table]


def reset(config: Path, name: str, wanted: list[str], *, yes: bool) -> None:
    from moldau.cli.output import confirm
    from moldau.client.cluster import Cluster
    from moldau.client.settings import ClientSettings
    from moldau.mirror.watching import positions, store

    settings = settings_of(config)
    (flow,) = chosen(settings, name)
    with Cluster(ClientSettings.from_properties(flow.writing)) as target:
        found = sorted(place for place in positions(flow, target) if not wanted or place.topic in wanted)
    if not found:
        raise CommandError(f"{flow.name} has no positions of {', '.join(wanted) or 'any topic'}", exit_code=NOT_FOUND)
    confirm(f"Copy {len(found)} partitions again from their beginning, behind what is there?", yes)
    store(flow, found)
    print(f"{flow.name}: {len(found)} positions taken away")


def go_back(config: Path, name: str, *, yes: bool, output: Format) -> None:
    from moldau.cli.output import confirm
    from moldau.mirror.returning import CannotReturn, returns
    from moldau.mirror.watching import store

    settings = settings_of(config)
    (back,) = chosen(settings, name)
    forth = next(each for each in settings.known if (each.source, each.target) == (back.target, back.source))
    if not back.policy.keeps_names:
        raise CommandError("copies have names of their own: nothing needs to be done", exit_code=WRONG_USAGE)
    try:
        found = returns(back, forth)
    except CannotReturn as problem:
        raise CommandError(str(problem), exit_code=FAILED) from None
    if not found:
        raise CommandError(f"{forth.name} has copied nothing that {back.name} would copy back", exit_code=NOT_FOUND)
    table = Table(
        [
            Column("topic"), Column("partition", right=True), Column("begins at", right=True),
            Column("own offsets", right=True), Column("never copied", right=True),
        ]
    )  # fmt: skip
    for each in found:
        place = each.position.place
        table.add(place.topic, place.partition, each.position.next_offset, each.own, each.left_behind)
    left = sum(each.left_behind for each in found)
    if left:
        warn(f"{left} records of {back.target} were never copied to {back.source}, and stay where they are")
    confirm(f"Let {back.name} begin behind the copies?", yes)
    store(back, [each.position for each in found])
    document = [
        {
            "topic": each.position.place.topic,
            "partition": each.position.place.partition,
            "position": each.position.next_offset,
            "own": each.own,
            "left_behind": each.left_behind,
        }
        for each in found
    ]
    show(output, document, lambda: [table])
