"""Transactional ids that use up the epochs of their producer id, at a broker that is started again on the way.

The owners of a test share its broker: some go over the edge before it is started again, some behind that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from moldau.types.errors import ErrorCode
from tests.clients.conftest import StartBroker
from tests.clients.test_transactions import values
from tests.support.admin import admin_client, create_topic
from tests.support.pipelined_transactions import LAST_EPOCH, PipelinedProducer
from tests.support.process import BrokerProcess
from tests.support.spent_epochs import ONE_PARTITION, spend_epochs
from tests.support.waiting import wait_until

BEFORE = b"before"
Identity = tuple[int, int]


@dataclass
class Owner:
    """Of a transactional id, which is the name of its topic too."""

    broker: BrokerProcess
    topic: str
    version: int
    producer: PipelinedProducer
    committed: list[bytes] = field(default_factory=lambda: [BEFORE])

    @property
    def identity(self) -> Identity:
        return self.producer.producer

    def transaction(self, commit: bool = True) -> Identity:
        """Ends the last one, begins and fills another, whose identity it tells."""
        value = b"%d/%d" % (len(self.committed), commit)
        self.producer.transaction(value, 0, commit)
        self.committed += [value] if commit else []
        return self.identity

    def told_of_end(self, producer: Identity, commit: bool) -> tuple[ErrorCode, Identity]:
        answer = self.producer.end_of(producer, commit)
        return ErrorCode(answer.error_code), (answer.producer_id, answer.producer_epoch)

    def expect_committed(self) -> None:
        self.producer.finish()
        wait_until(lambda: values(self.broker.address, self.topic) == self.committed, "the last markers are written")


@dataclass
class Owners:
    """Each has the last epoch but one of its first producer id."""

    broker: BrokerProcess
    all: list[Owner]

    def restart_broker(self) -> None:
        self.broker.restart()
        self.reconnect()

    def reconnect(self) -> None:
        for owner in self.all:
            owner.producer.reconnect(self.broker.address)


NewOwners = Callable[..., Owners]


@pytest.fixture
def new_owners(own_broker: StartBroker, topic: str) -> Iterator[NewOwners]:
    """Owners that have these versions of transactions."""
    with ExitStack() as stack:

        def make(*versions: int) -> Owners:
            broker = own_broker(**ONE_PARTITION)
            owners = Owners(broker, [new_owner(broker, f"{topic}-{at}", one) for at, one in enumerate(versions)])
            spend_epochs(broker, [owner.topic for owner in owners.all], LAST_EPOCH - 2)
            owners.reconnect()
            for owner in owners.all:
                first_id = owner.identity[0]
                owner.producer.begin_anew()
                assert owner.identity == (first_id, LAST_EPOCH - 1)
            return owners

        def new_owner(broker: BrokerProcess, name: str, version: int) -> Owner:
            create_topic(admin_client(broker.address), name)
            producer = stack.enter_context(PipelinedProducer(broker.address, name, version, name, 1))
            producer.transaction(BEFORE, 0, True)
            producer.finish()
            return Owner(broker, name, version, producer)

        yield make


def test_the_end_of_a_transaction_gives_the_next_id(new_owners: NewOwners) -> None:
    owners = new_owners(2, 2)
    cases = list(zip(owners.all, (True, False), strict=True))
    seen = [[owner.transaction(), owner.transaction(commit)] for owner, commit in cases]
    owners.restart_broker()
    for (owner, _), identities in zip(cases, seen, strict=True):
        identities.append(owner.transaction())
    owners.restart_broker()
    for (owner, commit), identities in zip(cases, seen, strict=True):
        identities += [owner.transaction(not commit), owner.transaction()]
        (old, _), (new, _) = identities[0], identities[-1]
        assert identities == [(old, LAST_EPOCH - 1), (old, LAST_EPOCH), (new, 0), (new, 1), (new, 2)]
        assert new != old
        owner.expect_committed()


def test_an_owner_that_did_not_hear_of_the_next_id_is_told_again(new_owners: NewOwners) -> None:
    owners = new_owners(2, 2)
    cases = []
    for owner, commit in zip(owners.all, (True, False), strict=True):
        owner.transaction()
        last = owner.transaction(commit)
        owner.producer.finish()
        cases.append((owner, commit, last, owner.identity))
    for restarts in (False, True):
        if restarts:
            owners.restart_broker()
        for owner, commit, last, following in cases:
            wait_until_told(owner, last, commit)
            assert owner.told_of_end(last, commit) == (ErrorCode.NONE, following)
            assert owner.told_of_end(last, not commit)[0] is ErrorCode.INVALID_TXN_STATE
    for owner, commit, last, following in cases:
        assert owner.transaction() == following == (following[0], 0)
        assert following[0] != last[0]
        assert owner.told_of_end(last, commit)[0] is not ErrorCode.NONE
        owner.expect_committed()


def wait_until_told(owner: Owner, last: Identity, commit: bool) -> None:
    wait_until(
        lambda: owner.told_of_end(last, commit)[0] is ErrorCode.NONE, "the markers of the last epoch are written"
    )


def test_without_an_epoch_for_each_transaction_the_last_one_serves_on(new_owners: NewOwners) -> None:
    owners = new_owners(1)
    (owner,) = owners.all
    owner.producer.begin_anew()
    last = owner.identity
    assert last[1] == LAST_EPOCH
    seen = [owner.transaction(), owner.transaction(False)]
    owners.restart_broker()
    seen += [owner.transaction(), owner.transaction()]
    assert seen == [last] * 4
    owner.expect_committed()


@pytest.mark.parametrize("recovering", [False, True])
def test_who_begins_anew_is_given_the_next_id(new_owners: NewOwners, recovering: bool) -> None:
    owners = new_owners(1, 2, 1, 2)
    last = []
    for owner in owners.all:
        owner.producer.begin_anew(recovering)
        last.append(owner.identity)
    assert {epoch for _, epoch in last} == {LAST_EPOCH}
    for owner in owners.all[:2]:
        owner.producer.begin_anew(recovering)
    owners.restart_broker()
    for owner in owners.all[2:]:
        owner.producer.begin_anew(recovering)
    assert {owner.identity[1] for owner in owners.all} == {0}
    assert not {owner.identity[0] for owner in owners.all} & {old for old, _ in last}
    for owner in owners.all:
        new, _ = owner.transaction()
        owner.producer.finish()
        owner.producer.begin_anew(recovering)
        assert owner.identity == (new, 1 if owner.version == 1 else 2)
        owner.transaction(False)
        owner.expect_committed()


def test_who_takes_over_an_open_transaction_of_the_last_epoch_aborts_it(new_owners: NewOwners) -> None:
    owners = new_owners(1, 2, 1, 2)
    last = []
    for owner in owners.all:
        owner.producer.begin_anew()
        last.append(owner.transaction())
        owner.committed.pop()
    assert {epoch for _, epoch in last} == {LAST_EPOCH}
    for owner in owners.all[:2]:
        owner.producer.begin_anew()
    owners.restart_broker()
    for owner in owners.all[2:]:
        owner.producer.begin_anew()
    for owner, (old, epoch) in zip(owners.all, last, strict=True):
        assert owner.identity[0] != old
        assert owner.identity[1] == 1, "the abort has brought the id, and beginning anew an epoch"
        assert owner.told_of_end((old, epoch), True)[0] in FENCED
        owner.transaction()
        owner.expect_committed()


FENCED = {ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.PRODUCER_FENCED}
