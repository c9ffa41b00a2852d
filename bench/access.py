"""What a question to the authorizer costs, in microseconds: `python -m bench.access`.

10,000 rules for 500 users, a third of them about prefixes of twenty lengths. The goal is under 3 µs for each question,
and nothing that can be measured where there is no authorizer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter
from types import MappingProxyType
from uuid import UUID

from moldau.metadata.image import AclImage, ClusterImage
from moldau.security.authorizer import AllowAll, Authorizer
from moldau.security.context import ClientIdentity, RequestContext
from moldau.security.standard import StandardAuthorizer
from moldau.types.acls import Acl, Operation, Pattern, Permission, Resource

RULES = 10_000
USERS = 500
QUESTIONS = 200_000


def rule(number: int) -> Acl:
    pattern = Pattern.PREFIXED if number % 3 == 0 else Pattern.LITERAL
    name = f"topic-{number}-{'x' * (number % 20)}"
    return Acl(Resource.TOPIC, pattern, name, f"User:u{number % USERS}", "*", Operation.READ, Permission.ALLOW)


def with_rules() -> StandardAuthorizer:
    found = StandardAuthorizer(["User:admin"])
    acls = {UUID(int=number): AclImage(rule(number), 0) for number in range(RULES)}
    found.load(ClusterImage(acls=MappingProxyType(acls)))
    return found


def microseconds(ask: Callable[[str], object], names: list[str]) -> float:
    begun = perf_counter()
    for number in range(QUESTIONS):
        ask(names[number % len(names)])
    return (perf_counter() - begun) / QUESTIONS * 1e6


def main() -> None:
    logging.disable(logging.INFO)  # refusals are lines of the audit log, whose writing is not what is measured
    context = RequestContext(ClientIdentity("User:u7", "CLIENTS", "10.0.0.1"), "bench", 1, 17, 1)

    def asking(authorizer: Authorizer) -> Callable[[str], object]:
        return lambda name: authorizer.allows(context, Operation.READ, Resource.TOPIC, name)

    guarded = asking(with_rules())
    one, thousand = ["topic-7-xxxxxxx"], [rule(7 + USERS * number).name for number in range(1000)]
    fresh = [f"topic-{number}" for number in range(QUESTIONS)]
    for label, ask, names in (
        ("no authorizer", asking(AllowAll()), one),
        ("the same topic again and again", guarded, one),
        ("a thousand topics in turn", guarded, thousand),
        ("another topic each time", guarded, fresh),
    ):
        print(f"{label:35} {microseconds(ask, names):6.2f} µs")


if __name__ == "__main__":
    main()
