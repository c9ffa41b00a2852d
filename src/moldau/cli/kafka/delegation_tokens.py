"""kafka-delegation-tokens: makes, renews, ends and lists tokens that stand for a user for a while."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from moldau.cli.calls import tokens
from moldau.cli.kafka.connecting import SERVERS, connect_with, file_properties
from moldau.cli.kafka.failures import java_refusals
from moldau.cli.kafka.options import Options, Parser, ToolError, flag, optional_value, value

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

ACTIONS: Final = ("create", "renew", "expire", "describe")
ROW: Final = "\n{:<15} {:<30} {:<15} {:<15} {:<25} {:<15} {:<15} {:<15}"
HEADINGS: Final = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
PARSER: Final = Parser(
    "This tool helps to create, renew, expire, or describe delegation tokens.",
    value("bootstrap-server", "String", "REQUIRED: server(s) to use for bootstrapping."),
    value("command-config", "String", "REQUIRED: a properties file with settings of the client: who it is."),
    flag("create", "Create a new delegation token. Use --renewer-principal to name who may renew it."),
    flag("renew", "Renew a delegation token. Use --renew-time-period to say for how long."),
    flag("expire", "Expire a delegation token. Use --expiry-time-period to say when."),
    flag("describe", "Describe the delegation tokens of --owner-principal; all that the user may see without it."),
    optional_value("owner-principal", "String", "Whose token it is, as principalType:name."),
    optional_value("renewer-principal", "String", "Who may renew it, as principalType:name."),
    optional_value(
        "max-life-time-period", "Long", "The longest life of the token in milliseconds; -1: as the broker.", kind=int
    ),
    optional_value("renew-time-period", "Long", "For how many milliseconds; -1: as the broker.", kind=int),
    optional_value("expiry-time-period", "Long", "When it ends, in milliseconds from now; -1: at once.", kind=int),
    optional_value("hmac", "String", "The secret of the token."),
)


def main(arguments: Sequence[str]) -> int:
    options = PARSER.parse(arguments)
    check(options)
    cluster = connect_with(file_properties(options, "command-config") | {SERVERS: options.given("bootstrap-server")})
    if options.has("create"):
        create(cluster, options)
    elif options.has("renew"):
        renew(cluster, options)
    elif options.has("expire"):
        expire(cluster, options)
    else:
        describe(cluster, options)
    return 0


def check(options: Options) -> None:
    if sum(map(options.has, ACTIONS)) != 1:
        raise PARSER.wrong("Command must include exactly one action: --create, --renew, --expire or --describe")
    PARSER.require(options, "bootstrap-server", "command-config")
    needed = {
        "create": ("max-life-time-period",),
        "renew": ("hmac", "renew-time-period"),
        "expire": ("hmac", "expiry-time-period"),
    }
    for action, names in needed.items():
        if options.has(action):
            PARSER.require(options, *names)
    PARSER.refuse_together(options, "create", ("hmac", "renew-time-period", "expiry-time-period"))
    PARSER.refuse_together(
        options, "renew", ("renewer-principal", "max-life-time-period", "expiry-time-period", "owner-principal")
    )
    PARSER.refuse_together(options, "expire", ("max-life-time-period", "renew-time-period", "owner-principal"))
    PARSER.refuse_together(
        options, "describe", ("renew-time-period", "max-life-time-period", "hmac", "expiry-time-period")
    )


# -- what is done -----------------------------------------------------------------------------------------------------


def create(cluster: Connection, options: Options) -> None:
    renewers, longest_ms = principals(options, "renewer-principal"), milliseconds(options, "max-life-time-period")
    print(f"Calling create token operation with renewers :{listed(renewers)} , max-life-time-period :{longest_ms}")
    owners = principals(options, "owner-principal")
    with java_refusals():
        made = tokens.create(cluster, renewers, longest_ms, owners[0] if owners else None)
    print(f"Created delegation token with tokenId : {made.token_id}")
    print_tokens([made])


def renew(cluster: Connection, options: Options) -> None:
    secret, period_ms = hmac_of(options), milliseconds(options, "renew-time-period")
    print(f"Calling renew token operation with hmac :{options.given('hmac')} , renew-time-period :{period_ms}")
    with java_refusals():
        expires_ms = tokens.renew(cluster, secret, period_ms)
    print(f"Completed renew operation. New expiry date : {date(expires_ms)}", end="")


def expire(cluster: Connection, options: Options) -> None:
    secret, period_ms = hmac_of(options), milliseconds(options, "expiry-time-period")
    print(f"Calling expire token operation with hmac :{options.given('hmac')} , expire-time-period :{period_ms}")
    with java_refusals():
        expires_ms = tokens.expire(cluster, secret, period_ms)
    print(f"Completed expire operation. New expiry date : {date(expires_ms)}", end="")


def describe(cluster: Connection, options: Options) -> None:
    owners = principals(options, "owner-principal")
    if owners:
        print(f"Calling describe token operation for owners: {listed(owners)}")
    else:
        print("Calling describe token operation for current user.")
    with java_refusals():
        found = tokens.describe(cluster, owners)
    print(f"Total number of tokens : {len(found)}", end="")
    print_tokens(found)


def print_tokens(found: Sequence[tokens.DelegationToken]) -> None:
    print(ROW.format(*HEADINGS))
    for token in found:
        secret = base64.b64encode(token.hmac).decode()
        dates = (date(token.issued_ms), date(token.expires_ms), date(token.ends_ms))
        print(ROW.format(token.token_id, secret, token.owner, token.requester, listed(token.renewers), *dates))


# -- what the options say ---------------------------------------------------------------------------------------------


def principals(options: Options, name: str) -> list[str]:
    found = [text.strip() for text in options.texts(name)]
    for each in found:
        kind, colon, who = each.partition(":")
        if not kind or not colon or not who:
            raise ToolError(f"expected a string in format principalType:principalName but got {each}")
    return found


def milliseconds(options: Options, name: str) -> int:
    text = options.given(name)
    if not text.removeprefix("-").isdecimal():
        raise ToolError(f"Cannot parse argument '{text}' of option {name}")
    return int(text)


def hmac_of(options: Options) -> bytes:
    try:
        return base64.b64decode(options.given("hmac"), validate=True)
    except binascii.Error as error:
        raise ToolError(f"The hmac cannot be read: {error}") from None


def date(milliseconds: int) -> str:
    """In the time of this machine, as Kafka's tool prints it."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).astimezone().strftime("%Y-%m-%dT%H:%M")


def listed(names: Sequence[str]) -> str:
    return f"[{', '.join(names)}]"
