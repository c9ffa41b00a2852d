"""What differs between two runs of the same command, taken out: addresses, folders, ids, times, Java's stack traces."""

from __future__ import annotations

import re
from typing import Any

from tests.cli.kafka_tools.scenario import Place, Step

LOG_DIRS = re.compile(r'"log_dirs":\[([^\]]*)\]')
FOLDER = re.compile(r'"(?!any")[^"]*"')
FOLDERS_NAME = '"{folder}"'
UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
TOPIC_ID = re.compile(r"(TopicId: )[\w-]{22}")
MEMBER_ID = re.compile(r"(?<![\w/+-])[\w/+-]{22}(?=\s+/)")
CLUSTER_ID = re.compile(r"(Cluster ?I[dD]:\s+)[\w-]{22}")
TIMES = re.compile(r"\b1[5-9]\d{11}\b")
GROUP_NUMBER = re.compile(r"(console-consumer-|perf-consumer-)\d+")
FIGURE = re.compile(r"-?\d+(?:\.\d+)?(?:E-?\d+)?")
TRACE = re.compile(r"^\s+at |^Caused by: |^\s*\.\.\. \d+ more|^\s*Suppressed: ")
EXCEPTION = re.compile(r"^(?:java|org|com|joptsimple|kafka)\.[\w.$]+(?:Exception|Error)\b")
IN_MAIN = re.compile(r'^Exception in thread "main" [\w.$]+: ')
CAUSE = re.compile(r"^java\.util\.concurrent\.ExecutionException: (.*)")
USAGE = re.compile(r"^Option( \(\* = required\))?\s+Description")
# Lists that Java prints from hash sets and maps.
IN_ANY_ORDER = (
    re.compile(r"(Configs: )(.*)()"),
    re.compile(r'("\[)(\[.*?\])(\]")'),
    re.compile(r"(takes .*these options: )(.*)()"),
    re.compile(r"(takes the following options: )(.*)()"),
    re.compile(r"(Valid (?:states|types) are: )(.*)()"),
    re.compile(r"(following scenarios: \[)(.*)(\])"),
    re.compile(r"(consumer groups \()(.*)(\) was)"),
    re.compile(r"(Detected group ids: )(.*)()"),
    re.compile(r"(topic-level throttles on topics )(.*)()"),
)
# Said by Kafka's tools, or by its logging, of the tools themselves.
UNSAID = ("The consumer rebalance protocol (KIP-848)", "WARN New offset")


def normalised(step: Step, place: Place, code: int, stdout: str, stderr: str) -> dict[str, Any]:
    out = [clean(line, place, step) for line in without_traces(stdout)]
    lines = error_lines(stderr) or (bare_exception(stderr) if code else [])
    errors = [clean(line, place, step) for line in lines] if step.errors else []
    return {
        "command": step.name,
        "exit": code,
        "stdout": out if step.in_order else sorted(without_first_blank(step, out)),
        "stderr": errors if step.in_order else sorted(errors),
    }


def without_first_blank(step: Step, lines: list[str]) -> list[str]:
    """kafka-acls puts a blank before the first of its rules, whichever that is."""
    return [line.removeprefix(" ") for line in lines] if step.tool == "kafka-acls" else lines


def without_traces(stdout: str) -> list[str]:
    """Some of Kafka's tools print an error as one line and then with its trace, which an empty line ends."""
    lines = stdout.splitlines()
    if not any(line.startswith("Error: ") for line in lines):
        return lines
    kept = [line for line in lines if not TRACE.match(line) and not EXCEPTION.match(line)]
    return kept[:-1] if kept and not kept[-1] else kept


def sorted_inside(found: re.Match[str]) -> str:
    return found[1] + ", ".join(sorted(re.split(r", ?", found[2]))) + found[3]


def clean(line: str, place: Place, step: Step) -> str:
    for found, shown in ((place.address, "{servers}"), (str(place.data), "{data}"), (str(place.files), "{files}")):
        line = line.replace(found, shown)
    if "{servers}" in line:
        line = re.sub(r" {2,}", "  ", line)
    for hashed in IN_ANY_ORDER:
        line = hashed.sub(sorted_inside, line)
    line = LOG_DIRS.sub(lambda found: f'"log_dirs":[{FOLDER.sub(FOLDERS_NAME, found[1])}]', line)
    line = UUID.sub("{uuid}", line)
    line = TOPIC_ID.sub(r"\1{id}", line)
    line = CLUSTER_ID.sub(r"\1{id}", line)
    line = MEMBER_ID.sub("{member}", line)
    line = TIMES.sub("{time}", line)
    line = GROUP_NUMBER.sub(r"\1{n}", line)
    if step.figures:
        line = re.sub(r" +", " ", FIGURE.sub("{n}", line))
    return line


def bare_exception(stderr: str) -> list[str]:
    """The message of a stack trace that nothing else was said about."""
    found = next((line for line in stderr.splitlines() if EXCEPTION.match(line)), None)
    return [] if found is None else [found.partition(": ")[2]]


def error_lines(stderr: str) -> list[str]:
    """Without usage texts and traces; what argparse4j breaks into justified lines is one line again."""
    kept: list[str] = []
    lines = stderr.splitlines()
    for number, line in enumerate(lines):
        if USAGE.match(line):
            break
        if line.startswith("usage: "):
            # Lines are broken within the dashes of a flag, too.
            rest = re.sub(r"-- (?=[a-z])", "--", " ".join(" ".join(lines[number:]).split()))
            tail = re.search(r"\S+: error: .*", rest)
            return [*kept, tail[0]] if tail else kept
        cause = CAUSE.match(line)
        if cause and kept and kept[-1].startswith("Error while executing config command"):
            kept[-1] += f": {cause[1]}"
        elif not TRACE.match(line) and not EXCEPTION.match(line) and not line.startswith(UNSAID) and line.strip():
            kept.append(IN_MAIN.sub("", line))
    return kept
