"""AlterClientQuotas and DescribeClientQuotas: what is kept, found and refused."""

from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.session import Session

EXACT, DEFAULT, ANY = 0, 1, 2


def entry(ops: list[dict[str, Any]], **names: str | None) -> dict[str, Any]:
    entity = [{"entity_type": kind.replace("_", "-"), "entity_name": name} for kind, name in names.items()]
    return {"entity": entity, "ops": ops}


def limit(key: str, value: float) -> dict[str, Any]:
    return {"key": key, "value": value, "remove": False}


def removal(key: str) -> dict[str, Any]:
    return {"key": key, "value": 0.0, "remove": True}


def component(kind: str, how: int, match: str | None = None) -> dict[str, Any]:
    return {"entity_type": kind, "match_type": how, "match": match}


def found(s: Session, step: str, *components: dict[str, Any], strict: bool = True) -> None:
    s.ask(step, "describe_client_quotas", {"components": list(components), "strict": strict}, edit=in_order)


def by_outcome(answer: Any) -> Any:
    return {**answer, "entries": sorted(answer["entries"], key=lambda entry: str(entry["error_code"]))}


def in_order(answer: Any) -> Any:
    return {**answer, "entries": sorted(answer["entries"] or [], key=lambda entry: str(entry["values"]))}


def kept(s: Session, *entries: dict[str, Any]) -> None:
    answer = s.send("alter_client_quotas", {"entries": list(entries), "validate_only": False})
    assert all(each["error_code"] == "NONE" for each in answer["entries"]), answer

    def is_seen() -> bool:
        wanted = [
            component(each["entity_type"], EXACT if each["entity_name"] else DEFAULT, each["entity_name"])
            for each in entries[-1]["entity"]
        ]
        return bool(s.send("describe_client_quotas", {"components": wanted, "strict": True})["entries"])

    s.until(is_seen, "quotas")


@scenario("alter_client_quotas")
def alter_client_quotas(s: Session, version: int) -> None:
    user = s.topic_name("a")

    def ask(step: str, *entries: dict[str, Any], validate_only: bool = False) -> None:
        request = {"entries": list(entries), "validate_only": validate_only}
        s.ask(step, "alter_client_quotas", request, edit=by_outcome)

    rate = limit("producer_byte_rate", 1000.0)
    ask("one", entry([rate], user=user))
    ask("both", entry([rate, limit("consumer_byte_rate", 2000.0)], user=user, client_id="c"))
    ask("removed, though not there", entry([removal("request_percentage")], user=user))
    ask("removed", entry([removal("producer_byte_rate")], user=user))
    ask("only checked", entry([rate], user=user), validate_only=True)
    ask("an address", entry([limit("connection_creation_rate", 10.0)], ip="10.20.30.40"))
    ask("an address removed", entry([removal("connection_creation_rate")], ip="10.20.30.40"))
    ask("a fraction of a percent", entry([limit("request_percentage", 0.5)], user=user))
    ask("a fraction of a byte", entry([limit("producer_byte_rate", 0.5)], user=user))
    ask("nothing", entry([limit("producer_byte_rate", 0.0)], user=user))
    ask("less than nothing", entry([limit("producer_byte_rate", -1.0)], user=user))
    ask("too much", entry([limit("producer_byte_rate", 1e19)], user=user))
    ask("too many connections", entry([limit("connection_creation_rate", 1e10)], ip="10.20.30.40"))
    ask("an unknown key", entry([limit("no_such_rate", 1.0)], user=user))
    ask("a key of addresses for a user", entry([limit("connection_creation_rate", 1.0)], user=user))
    ask("a key of users for an address", entry([rate], ip="10.20.30.40"))
    ask("an address and a user", entry([rate], ip="10.20.30.40", user=user))
    ask("no address", entry([limit("connection_creation_rate", 1.0)], ip="1.2.3.4.5"))
    ask("an empty name", entry([rate], user=""))
    ask("an unknown type", entry([rate], planet="earth"))
    ask("no entity", entry([rate]))
    ask("no entry")
    ask("good and bad", entry([rate], user=user), entry([rate], user=""))


@scenario("describe_client_quotas")
def describe_client_quotas(s: Session, version: int) -> None:
    user, other = s.topic_name("a"), s.topic_name("b")
    kept(
        s,
        entry([limit("producer_byte_rate", 1000.0), limit("request_percentage", 12.5)], user=user),
        entry([limit("consumer_byte_rate", 2000.0)], user=user, client_id="c"),
        entry([limit("consumer_byte_rate", 3000.0)], user=user, client_id=None),
        entry([limit("consumer_byte_rate", 4000.0)], user=other),
    )
    found(s, "a user", component("user", EXACT, user))
    found(s, "a user and more", component("user", EXACT, user), strict=False)
    found(s, "a user and a client", component("user", EXACT, user), component("client-id", EXACT, "c"))
    found(s, "a user and the default", component("user", EXACT, user), component("client-id", DEFAULT))
    found(s, "a user and any client", component("user", EXACT, user), component("client-id", ANY))
    found(s, "nobody", component("user", EXACT, s.topic_name("nobody")))
    found(s, "an address", component("ip", EXACT, "1.2.3.4"))
    found(s, "an exact match of nothing", component("user", EXACT))
    found(s, "a default with a name", component("user", DEFAULT, "x"))
    found(s, "any with a name", component("user", ANY, "x"))
    found(s, "an unknown way to match", component("user", 7))
    found(s, "an unknown type", component("planet", EXACT, "earth"))
    found(s, "no type", component("", EXACT, "x"))
    found(s, "a type twice", component("user", EXACT, "x"), component("user", ANY))
    found(s, "an address and a user", component("user", EXACT, "x"), component("ip", ANY))
