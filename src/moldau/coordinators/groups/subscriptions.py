"""Which topics a group is subscribed to, and whether they have changed.

Regular expressions are RE2: no expression that a client sends can take more than linear time, as Python's own could.
Matching many topics still takes a while (some 10 µs each), so it is done piece by piece, outside of any request.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from itertools import islice
from typing import Final, Protocol

import re2

from moldau.metadata.image import ClusterImage
from moldau.types.errors import ErrorCode, KafkaError

#: So many names are compared in one turn of the loop: some milliseconds.
MATCHES_PER_TURN = 400

#: What RE2 says, in the words of Apache Kafka's.
_COMPLAINTS = (
    ("missing )", "missing closing )"),
    ("missing ]", "missing closing ]"),
    ("bad repetition operator", "invalid nested repetition operator"),
    ("trailing \\", "trailing backslash at end of expression"),
    ("invalid named capture group", "invalid named capture"),
    ("duplicate capture group name", "duplicate capture group name"),
    ("no argument for repetition operator", "missing argument to repetition operator"),
    ("invalid repetition size", "invalid repeat count"),
    ("invalid perl operator", "invalid or unsupported Perl syntax"),
    ("invalid character class range", "invalid character class range"),
    ("invalid escape sequence", "invalid escape sequence"),
    ("unexpected )", "regexp/syntax: internal error"),
)


def compile_regex(regex: str) -> re2._Regexp:
    """Raises INVALID_REGULAR_EXPRESSION."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        said = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        complaint = next((ours for theirs, ours in _COMPLAINTS if said.startswith(theirs)), said)
        raise KafkaError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {complaint}.",
        ) from None


class Sight(Protocol):
    """Which topics a client may know of. An expression never finds others."""

    @property
    def version(self) -> int:
        """Another one once `sees` may answer otherwise than before."""
        ...

    def sees(self, topic: str) -> bool: ...


class FullSight:
    version = 0

    def sees(self, topic: str) -> bool:
        return True


FULL_SIGHT: Final = FullSight()


class Resolution:
    """The topics that match some expressions and may be seen, found in several turns."""

    def __init__(self, regexes: Iterable[str], image: ClusterImage, sight: Sight = FULL_SIGHT) -> None:
        self.image = image
        self.sight_version = sight.version
        self._sight = sight
        self._patterns = {regex: compile_regex(regex) for regex in regexes}
        self._names = iter(tuple(image.topics))
        self.found: dict[str, set[str]] = {regex: set() for regex in self._patterns}

    @property
    def regexes(self) -> Iterable[str]:
        return self._patterns

    def advance(self) -> bool:
        """Looks at some more topics; False once all were seen."""
        if not self._patterns:
            return False
        names = list(islice(self._names, max(1, MATCHES_PER_TURN // len(self._patterns))))
        for regex, pattern in self._patterns.items():
            self.found[regex].update(
                name for name in names if pattern.fullmatch(name) is not None and self._sight.sees(name)
            )
        return bool(names)


def hash_of(topics: Iterable[str], image: ClusterImage) -> int:
    """Differs if a topic appears, goes, is created anew or grows; 0 if none of them exists."""
    known: Mapping[str, object] = image.topics
    existing = sorted(topic for topic in topics if topic in known)
    if not existing:
        return 0
    digest = blake2b(digest_size=8)
    for name in existing:
        topic = image.topics[name]
        digest.update(b"%s\0%s%d\0" % (name.encode(), topic.id.bytes, len(topic.partitions)))
    return int.from_bytes(digest.digest(), "big", signed=True)
