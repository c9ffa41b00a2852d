"""What `moldau security token` does."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Final

from moldau.cli import refusals
from moldau.cli.calls import tokens
from moldau.cli.calls.tokens import DelegationToken
from moldau.cli.connection import Connection
from moldau.cli.output import NOT_FOUND, Column, CommandError, Format, Table, confirm, nearest, show
from moldau.cli.security.options import principal
from moldau.cli.times import duration_ms, instant_text

AS_THE_BROKER: Final = -1
AT_ONCE: Final = -1


def create(
    cluster: Connection,
    owner: str | None,
    renewers: Sequence[str],
    lifetime: str | None,
    output: Format,
    dry_run: bool,
) -> None:
    longest_ms = AS_THE_BROKER if lifetime is None else duration_ms(lifetime)
    whose = None if owner is None else principal(owner)
    may_renew = [principal(each) for each in renewers]
    if dry_run:
        also = f", which {', '.join(may_renew)} may renew" if may_renew else ""
        print(f"would create a token of {whose or 'your own user'}{also}")
        return
    with refusals.while_doing("cannot create a token"):
        made = tokens.create(cluster, may_renew, longest_ms, whose)
    show(output, document(made, secret=True), lambda: [table([made], secrets=True)])


def renew(cluster: Connection, token_id: str, period: str | None, dry_run: bool) -> None:
    period_ms = AS_THE_BROKER if period is None else duration_ms(period)
    found = must_be_there(cluster, token_id)
    if dry_run:
        print(f"would renew token {token_id} of {found.owner}, which ends {instant_text(found.expires_ms)}")
        return
    with refusals.while_doing(f"cannot renew token {token_id}"):
        ends_ms = tokens.renew(cluster, found.hmac, period_ms)
    print(f"token {token_id} of {found.owner} holds until {instant_text(ends_ms)}")


def expire(cluster: Connection, token_id: str, period: str | None, dry_run: bool, yes: bool) -> None:
    period_ms = AT_ONCE if period is None else duration_ms(period)
    found = must_be_there(cluster, token_id)
    when = "at once" if period is None else f"in {period}"
    if dry_run:
        print(f"would end token {token_id} of {found.owner} {when}")
        return
    confirm(f"End token {token_id} of {found.owner} {when}, and the connections that were made with it?", yes)
    with refusals.while_doing(f"cannot end token {token_id}"):
        ends_ms = tokens.expire(cluster, found.hmac, period_ms)
    ending = "has ended" if period is None else f"ends {instant_text(ends_ms)}"
    print(f"token {token_id} of {found.owner} {ending}")


def must_be_there(cluster: Connection, token_id: str) -> DelegationToken:
    """The secret, by which the cluster knows a token, is looked up: process lists show what is typed."""
    with refusals.while_doing("cannot list the tokens"):
        known = {each.token_id: each for each in tokens.describe(cluster, [])}
    if token_id not in known:
        hint = nearest(token_id, list(known)) or "`moldau security token list` shows those that you may see"
        raise CommandError(f"token {token_id!r} does not exist", hint, NOT_FOUND)
    return known[token_id]


def list_tokens(cluster: Connection, owners: Sequence[str], secrets: bool, output: Format) -> None:
    with refusals.while_doing("cannot list the tokens"):
        found = tokens.describe(cluster, [principal(each) for each in owners])
    found.sort(key=lambda each: (each.owner, each.issued_ms))
    documents = [document(each, secret=secrets) for each in found]
    show(output, documents, lambda: [table(found, secrets=secrets)], empty="no tokens")


def table(found: Sequence[DelegationToken], *, secrets: bool) -> Table:
    names = ("token", "owner", "requester", "renewers", "issued", "expires", "ends", *(("secret",) if secrets else ()))
    made = Table([Column(name) for name in names])
    for each in found:
        times = map(instant_text, (each.issued_ms, each.expires_ms, each.ends_ms))
        last = (secret_of(each),) if secrets else ()
        made.add(each.token_id, each.owner, each.requester, list(each.renewers), *times, *last)
    return made


def secret_of(token: DelegationToken) -> str:
    return base64.b64encode(token.hmac).decode()


def document(token: DelegationToken, *, secret: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "token": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issued_ms": token.issued_ms,
        "expires_ms": token.expires_ms,
        "ends_ms": token.ends_ms,
    }
    return found | ({"secret": secret_of(token)} if secret else {})
