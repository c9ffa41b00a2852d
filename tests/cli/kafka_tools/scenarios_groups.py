"""Groups and transactions."""

from __future__ import annotations

from tests.cli.kafka_tools.scenario import Step, scenario
from tests.cli.kafka_tools.state import groups, transactions


def group(arguments: str, *, in_order: bool = True, servers: bool = True, errors: bool = True) -> Step:
    return Step("kafka-consumer-groups", arguments, in_order=in_order, servers=servers, errors=errors)


def txn(arguments: str, *, figures: bool = False) -> Step:
    return Step("kafka-transactions", arguments, figures=figures)


scenario(
    "groups",
    group("--list", in_order=False),
    group("--list --state", in_order=False),
    group("--list --type --state empty", in_order=False),
    group("--list --type consumer"),
    group("--list --state stable", in_order=False),
    group("--describe --group done"),
    group("--describe --group classic"),
    group("--describe --group modern --offsets"),
    group("--describe --group modern --verbose"),
    group("--describe --group classic --members"),
    group("--describe --group classic --members --verbose"),
    group("--describe --group modern --members --verbose"),
    group("--describe --group static --members"),
    group("--describe --group done --members"),
    group("--describe --group classic --state"),
    group("--describe --group modern --state --verbose"),
    group("--describe --group done --state"),
    group("--describe --all-groups --state"),
    group("--describe --group missing"),
    group("--reset-offsets --group classic --all-topics --to-earliest --dry-run"),
    group("--delete --group classic"),
    group("--delete-offsets --group classic --topic filled"),
    held=groups,
)

scenario(
    "groups-reset",
    group("--reset-offsets --group done --topic filled --to-earliest"),
    group("--reset-offsets --group done --topic filled --to-earliest --execute"),
    group("--describe --group done"),
    group("--reset-offsets --group done --topic filled:0 --to-offset 4 --execute"),
    group("--reset-offsets --group done --all-topics --shift-by -2 --dry-run"),
    group("--reset-offsets --group done --all-topics --shift-by 100 --dry-run"),
    group("--reset-offsets --group done --topic filled --to-latest --execute --export"),
    group("--reset-offsets --group done --topic filled --to-current --dry-run"),
    group("--reset-offsets --group done --topic filled --to-datetime 2020-09-13T12:26:40.002 --dry-run"),
    group("--reset-offsets --group done --topic filled --to-datetime 2020-09-13T14:26:40.001+02:00 --dry-run"),
    group("--reset-offsets --group done --topic other --to-datetime 2020-09-13T12:26:40.002 --dry-run", in_order=False),
    group("--reset-offsets --group done --topic filled --by-duration P1D --dry-run"),
    group("--reset-offsets --group done --from-file {files}/plan.csv --dry-run"),
    group("--reset-offsets --group done --from-file {files}/groups.csv --dry-run"),
    group("--reset-offsets --group new --topic filled --topic other:0 --to-latest --execute", in_order=False),
    group("--describe --group new", in_order=False),
    group("--delete-offsets --group new --topic filled"),
    group("--delete-offsets --group new --topic filled --topic missing", in_order=False),
    group("--delete-offsets --group missing --topic filled"),
    group("--delete --group old"),
    group("--delete --group old --group new", in_order=False),
    group("--delete --group missing"),
    held=groups,
    files={"plan.csv": "filled,0,1\n", "groups.csv": "done,filled,0,2\nold,filled,0,3\n"},
)

scenario(
    "groups-refused",
    group("", servers=False),
    group("--list", servers=False),
    group("--bogus"),
    group("--list --describe --group done"),
    group("--describe"),
    group("--describe --group done --members --state"),
    group("--describe --group done --state stable"),
    group("--list --group done"),
    group("--list --type bogus"),
    group("--members"),
    group("--delete"),
    group("--delete --group done --topic filled"),
    group("--delete-offsets --group done"),
    group("--reset-offsets --group done --to-earliest --dry-run"),
    group("--reset-offsets --group done --topic filled --dry-run --execute"),
    group("--reset-offsets --topic filled --to-earliest --dry-run"),
    group("--reset-offsets --group done --topic filled --to-earliest --to-latest --dry-run"),
    group("--reset-offsets --group done --topic missing --to-earliest --dry-run"),
    group("--reset-offsets --group done --topic filled:9 --to-earliest --dry-run"),
    group("--reset-offsets --group done --topic filled:x --to-earliest --dry-run"),
    group("--reset-offsets --group done --topic filled --to-offset x --dry-run"),
    group("--reset-offsets --group done --topic filled --to-datetime yesterday --dry-run"),
    group("--reset-offsets --group done --topic filled --by-duration 1h --dry-run"),
    group("--reset-offsets --group done --topic other --shift-by 1 --dry-run", errors=False),
    group("--validate-regex 'a.*'", servers=False),
    held=groups,
)

scenario(
    "transactions",
    txn("list"),
    txn("list --transactional-id-pattern 'o.*'"),
    txn("list --duration-filter 600000"),
    txn("describe --transactional-id open", figures=True),
    txn("describe --transactional-id ended", figures=True),
    txn("describe --transactional-id missing"),
    txn("describe-producers --topic filled --partition 0"),
    txn("describe-producers --topic filled --partition 0 --broker-id 1"),
    txn("find-hanging --topic filled"),
    txn("find-hanging --broker-id 1 --max-transaction-timeout 5"),
    txn("find-hanging"),
    txn("find-hanging --partition 0 --broker-id 1"),
    txn("abort --topic filled --partition 0 --start-offset 3"),
    txn("abort --topic filled --partition 0"),
    txn("abort --topic filled --partition 0 --producer-id 5"),
    txn("abort --topic filled"),
    txn("abort --topic filled --partition 0 --start-offset 4"),
    txn("describe-producers --topic filled --partition 0"),
    txn("forceTerminateTransaction --transactionalId open"),
    txn("list", figures=False),
    txn(""),
    txn("bogus"),
    txn("list --bogus"),
    txn("list --duration-filter x"),
    Step("kafka-transactions", "list", servers=False),
    held=transactions,
)
