"""Two live clusters: clients use the nearer one, and see in it what was written to either.

Both mirror to each other. `us` has its own topic `visits` and the copy `eu.visits`; names keep
records from going round.

    python examples/mirroring/both_ways.py
"""

from __future__ import annotations

from mirroring.common import Broker, mirror, read, wait, write


def run(us_visits: list[str], eu_visits: list[str]) -> dict[str, list[str]]:
    """What a reader of each side sees, and which topics there are in the end."""
    with Broker() as us, Broker() as eu:
        for broker, visits in ((us, us_visits), (eu, eu_visits)):
            broker.topic("visits")
            write(broker, "visits", visits)
        count = len(us_visits) + len(eu_visits)
        with mirror({"us": us, "eu": eu}, us_to_eu__enabled="true", eu_to_us__enabled="true", topics=".*visits"):
            wait(lambda: "eu.visits" in topics(us) and "us.visits" in topics(eu), "copies are made")
            seen = {
                "us": read(us, "statistics", ["visits", "eu.visits"], count),
                "eu": read(eu, "statistics", ["visits", "us.visits"], count),
            }
        seen["topics of us"] = [name for name in topics(us) if name.endswith("visits")]
    return seen


def topics(broker: Broker) -> list[str]:
    with broker.admin() as admin:
        return admin.list_topics()


if __name__ == "__main__":
    for side, found in run(["home", "shop"], ["home", "imprint", "contact"]).items():
        print(side, found)
