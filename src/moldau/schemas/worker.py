"""The process in which schemas are read and compared: `python -m moldau.schemas.worker`.

    request   4 bytes length, JSON: {"do": "parse" | "format" | "compare" | …, …}
    answer    4 bytes length, JSON: {"done": …} or {"refused": "why"}

It has a bound on memory; the bound on time is the asker's, who ends the process.
"""

from __future__ import annotations

import base64
import json
import os
import resource
import struct
import sys
from typing import IO, Any, Final

from moldau.schemas.kinds import parse
from moldau.schemas.levels import Earlier, problems
from moldau.schemas.model import SchemaError, check_unicode
from moldau.schemas.tags import Entity, retagged, tagged, top_fields

LENGTH: Final = struct.Struct(">I")
MEMORY_BYTES: Final = 3 << 30
DEEPEST_CALLS: Final = 3000


def main() -> None:
    sys.setrecursionlimit(DEEPEST_CALLS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not get between the answers
    while (request := read_frame(requests)) is not None:
        answers.write(framed(answer(json.loads(request))))
        answers.flush()


def answer(request: dict[str, Any]) -> bytes:
    try:
        done = {"done": DO[request["do"]](request)}
    except SchemaError as error:
        done = {"refused": str(error)}
    except (RecursionError, MemoryError):
        done = {"refused": "the schema is too deep or too large"}
    return json.dumps(done).encode()


def do_parse(request: dict[str, Any]) -> dict[str, str]:
    found = parse(request["kind"], request["text"], request["referred"], check=request["check"])
    if request["check"]:
        check_unicode(found.canonical)
    return {"canonical": found.canonical, "normalized": found.normalized}


def do_format(request: dict[str, Any]) -> str:
    return parse(request["kind"], request["text"], request["referred"], check=False).formatted(request["form"])


def do_compare(request: dict[str, Any]) -> list[str]:
    kind = request["kind"]
    new = parse(kind, request["text"], request["referred"], check=False)
    earlier = (
        Earlier(each["version"], each["kind"], parse(each["kind"], each["text"], each["referred"], check=False))
        for each in request["earlier"]
    )
    return problems(request["level"], kind, new, earlier, lenient=request["lenient"])


def do_tagged(request: dict[str, Any]) -> list[list[Any]]:
    found = tagged(request["kind"], request["text"], request["referred"])
    return [[*entity, tags] for entity, tags in found.items()]


def do_retagged(request: dict[str, Any]) -> str:
    wishes = ({Entity(path, kind): tags for path, kind, tags in request[each]} for each in ("more", "fewer"))
    return retagged(request["kind"], request["text"], request["referred"], *wishes)


def do_fields(request: dict[str, Any]) -> list[str]:
    return top_fields(request["kind"], request["text"], request["referred"])


def do_check(request: dict[str, Any]) -> list[str] | None:
    from moldau.schemas.json_validation import problem, validator_of

    try:
        found = problem(validator_of(request["text"], tuple(request["referred"].items())), request["value"])
    except SchemaError:
        raise
    except ValueError as error:
        raise SchemaError(str(error)) from None
    return None if found is None else list(found)


def do_descriptors(request: dict[str, Any]) -> list[str]:
    from moldau.schemas.protobuf import parse_protobuf

    schema = parse_protobuf(request["text"], request["referred"])
    return [base64.b64encode(file.SerializeToString()).decode() for file in (*schema.others, schema.file)]


DO: Final = {
    "check": do_check,
    "descriptors": do_descriptors,
    "parse": do_parse,
    "format": do_format,
    "compare": do_compare,
    "tagged": do_tagged,
    "retagged": do_retagged,
    "fields": do_fields,
}


def framed(content: bytes) -> bytes:
    return LENGTH.pack(len(content)) + content


def read_frame(stream: IO[bytes]) -> bytes | None:
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    return stream.read(LENGTH.unpack(head)[0])


if __name__ == "__main__":
    main()
