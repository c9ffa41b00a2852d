"""kafka-acls on a broker with an authorizer."""

from __future__ import annotations

from tests.cli.kafka_tools.scenario import Step, scenario

GUARDED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


def acls(arguments: str, *, servers: bool = True, stdin: str = "") -> Step:
    return Step("kafka-acls", arguments, servers=servers, in_order=False, stdin=stdin)


scenario(
    "acls",
    acls("--list"),
    acls("--add --allow-principal User:Franz --allow-principal User:Hemingway --operation Read --operation Write "
         "--topic clueful_secrets"),
    acls("--list --topic clueful_secrets"),
    acls("--add --deny-principal User:Clueless --deny-host 10.0.0.7 --operation All --topic clueful "
         "--resource-pattern-type prefixed"),
    acls("--list --topic clueful_secrets --resource-pattern-type match"),
    acls("--list --topic clueful_secrets --resource-pattern-type any"),
    acls("--add --allow-principal User:maker --producer --topic orders --transactional-id tx --idempotent"),
    acls("--add --allow-principal User:reader --allow-host 127.0.0.1 --consumer --topic orders --group g"),
    acls("--add --allow-principal User:both --producer --consumer --topic orders --group g"),
    acls("--add --allow-principal 'User:*' --operation Describe --cluster"),
    acls("--add --allow-principal User:t --operation DescribeTokens --user-principal User:x --delegation-token d"),
    acls("--list --principal User:reader"),
    acls("--list --cluster"),
    acls("--list --group g"),
    acls("--remove --topic orders --force"),
    acls("--remove --topic nothing --force"),
    acls("--list"),
    settings=GUARDED,
)  # fmt: skip
