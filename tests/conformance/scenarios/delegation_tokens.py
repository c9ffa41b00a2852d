"""Requests about delegation tokens by somebody who did not log in: refused, whatever they ask for.

What is answered to those who did is tried with real clients in `tests/clients/test_delegation_tokens.py`.
"""

from tests.conformance.scenario import scenario
from tests.conformance.session import Session

NOBODY = {"principal_type": "User", "principal_name": "nobody"}


@scenario("create_delegation_token")
def create_a_token_where_nobody_logs_in(s: Session, version: int) -> None:
    s.ask("for oneself", "create_delegation_token", {"renewers": [NOBODY], "max_lifetime": -1})
    s.ask("without renewers", "create_delegation_token", {"renewers": [], "max_lifetime": 60_000})
    wrong = {"principal_type": "Group", "principal_name": "nobody"}
    s.ask("a renewer that is no user", "create_delegation_token", {"renewers": [wrong], "max_lifetime": -1})


@scenario("renew_delegation_token")
def renew_a_token_where_nobody_logs_in(s: Session, version: int) -> None:
    s.ask("an unknown one", "renew_delegation_token", {"hmac": b"unknown", "renew_period": 1000})
    s.ask("without a secret", "renew_delegation_token", {"hmac": b"", "renew_period": -1})


@scenario("expire_delegation_token")
def expire_a_token_where_nobody_logs_in(s: Session, version: int) -> None:
    s.ask("an unknown one", "expire_delegation_token", {"hmac": b"unknown", "expiry_time_period": -1})
    s.ask("later", "expire_delegation_token", {"hmac": b"unknown", "expiry_time_period": 1000})


@scenario("describe_delegation_token")
def describe_tokens_where_nobody_logs_in(s: Session, version: int) -> None:
    s.ask("all", "describe_delegation_token", {"owners": None})
    s.ask("of nobody", "describe_delegation_token", {"owners": []})
    s.ask("of an owner", "describe_delegation_token", {"owners": [NOBODY]})
