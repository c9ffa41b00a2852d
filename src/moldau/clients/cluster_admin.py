"""What else librdkafka has no calls for: transactions, delegation tokens, members and offsets of groups, the quorum."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, NamedTuple

from moldau.client.asking import groups, quorum, replicas, tokens, transactions
from moldau.client.asking.quorum import Upgrade
from moldau.client.asking.tokens import DelegationToken
from moldau.client.asking.transactions import NOT_OPEN, Described, Listed
from moldau.client.cluster import Cluster
from moldau.clients.admin_types import AdminFailed, GroupInfo
from moldau.clients.errors import ClientError, KafkaFailure
from moldau.clients.records import TopicPartition
from moldau.clients.wire_admin import WireAdmin, refusal
from moldau.types.errors import ErrorCode, KafkaError

UPGRADES: Final = {
    "upgrade": Upgrade.UPGRADE,
    "safe_downgrade": Upgrade.SAFE_DOWNGRADE,
    "unsafe_downgrade": Upgrade.UNSAFE_DOWNGRADE,
}
BROKERS_CHOICE: Final = -1


class ProducerInfo(NamedTuple):
    """What the leader of a partition remembers of a producer."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_begins: int | None
    """The offset of its first record in a transaction that is open here; None if none is."""


class Quorum(NamedTuple):
    """Who keeps the metadata: brokers with the end of what each has."""

    leader: int
    epoch: int
    high_watermark: int
    voters: dict[int, int]
    observers: dict[int, int]


@dataclass(frozen=True, slots=True)
class Asked:
    cluster: Cluster

    def wire(self) -> Cluster:
        return self.cluster


class ClusterAdmin(WireAdmin):
    """Base of `Admin`."""

    def describe_consumer_groups(self, *names: str) -> dict[str, GroupInfo]:
        raise NotImplementedError

    # -- transactions --------------------------------------------------------------------------------------------

    def list_transactions(
        self,
        *states: str,
        producer_ids: Collection[int] = (),
        longer_than_ms: int = -1,
        pattern: str | None = None,
    ) -> list[Listed]:
        """Transactional ids with their producers, states (such as Ongoing) and coordinators; all, or those that are
        meant."""
        with self._asking("transactions not listed") as asked:
            return transactions.list_transactions(asked, states, producer_ids, longer_than_ms, pattern)

    def describe_transactions(self, *transactional_ids: str) -> dict[str, Described]:
        """State, producer, begin, and the partitions of what is open."""
        found = {}
        with self._asking("transaction not described") as asked:
            for each in transactional_ids:
                found[each] = transactions.describe(asked, each)
        return found

    def describe_producers(
        self, places: Iterable[TopicPartition], broker: int | None = None
    ) -> dict[TopicPartition, list[ProducerInfo]]:
        """Who writes, or wrote lately, into partitions, as their leaders (or one broker) know it."""
        with self._asking("producers not described") as asked:
            found = transactions.describe_producers(asked, places, broker)
        return {
            place: [
                ProducerInfo(
                    each.producer_id,
                    each.producer_epoch,
                    each.last_sequence,
                    each.last_timestamp,
                    each.coordinator_epoch,
                    None if each.current_txn_start_offset == NOT_OPEN else each.current_txn_start_offset,
                )
                for each in producers
            ]
            for place, producers in found.items()
        }

    def abort_transaction(self, place: TopicPartition, producer_id: int) -> None:
        """Ends a transaction in one partition without asking its coordinator: only for one that hangs, which nobody
        else will ever end. `describe_producers` shows it."""
        what = f"transaction of producer {producer_id} not aborted"
        with self._asking(what) as asked:
            for found in transactions.open_in(asked, [place]):
                if found.producer.producer_id == producer_id:
                    return transactions.write_abort_marker(asked, place, found.marker)
        raise ClientError(f"{what}: it has none open in {place}")

    def fence_producers(self, *transactional_ids: str) -> None:
        """Ends whoever uses these ids: what they have open is aborted, and they can write no more."""
        with self._asking("producer not fenced") as asked:
            for each in transactional_ids:
                transactions.fence(asked, each)

    # -- groups --------------------------------------------------------------------------------------------------

    def delete_consumer_group_offsets(self, group: str, places: Collection[TopicPartition]) -> None:
        """Forgets what a group has committed for partitions that no member of it reads."""
        what = f"offset of group {group} not deleted"
        with self._asking(what) as asked:
            found = groups.delete_offsets(asked, group, places)
        raise_failed({place: code for place, code in found.items() if code}, what)

    def remove_consumer_group_members(self, group: str, *instances: str) -> None:
        """Sends members away: those with these static ids (group.instance.id), or all."""
        what = f"member of group {group} not removed"
        wanted: list[tuple[str, str | None]] = [("", each) for each in instances]
        if not instances:
            wanted = [
                (each.member_id, each.instance_id) for each in self.describe_consumer_groups(group)[group].members
            ]
        if not wanted:
            return
        with self._asking(what) as asked:
            found = groups.remove_members(asked, group, wanted)
        failed = {
            name: KafkaFailure(f"{what}: {name}", cause=code.name, code=code.name)
            for name, code in found.items()
            if code
        }
        if failed:
            raise AdminFailed(failed)

    # -- delegation tokens ---------------------------------------------------------------------------------------

    def create_delegation_token(
        self, renewers: Collection[str] = (), longest_ms: int = BROKERS_CHOICE, owner: str | None = None
    ) -> DelegationToken:
        """A token for whoever asks, or for `owner` (`User:ann`); its id and `hmac` log in by SCRAM."""
        with self._asking("token not created") as asked:
            return tokens.create(asked, list(renewers), longest_ms, owner)

    def renew_delegation_token(self, hmac: bytes, period_ms: int = BROKERS_CHOICE) -> int:
        """Returns until when it holds now, in milliseconds since 1970."""
        with self._asking("token not renewed") as asked:
            return tokens.renew(asked, hmac, period_ms)

    def expire_delegation_token(self, hmac: bytes, period_ms: int = BROKERS_CHOICE) -> int:
        """After so long; without a period at once."""
        with self._asking("token not expired") as asked:
            return tokens.expire(asked, hmac, period_ms)

    def describe_delegation_tokens(self, *owners: str) -> list[DelegationToken]:
        """Those that these principals own or may renew, or all that one may see."""
        with self._asking("tokens not described") as asked:
            return tokens.describe(asked, owners)

    # -- the cluster ---------------------------------------------------------------------------------------------

    def alter_replica_log_dirs(self, broker: int, wanted: Mapping[TopicPartition, str]) -> None:
        """Begins to move replicas of a broker into other log directories of its, named by their paths."""
        what = f"replica not moved on broker {broker}"
        with self._asking(what) as asked:
            found = replicas.alter_log_dirs(asked, broker, wanted)
        raise_failed({place: code for place, code in found.items() if code}, what)

    def update_features(self, levels: Mapping[str, int], how: str = "upgrade", *, validate_only: bool = False) -> None:
        """Raises the levels of features of the whole cluster, or lowers them: how is upgrade, safe_downgrade or
        unsafe_downgrade. Level 0 switches a feature off."""
        with self._asking("features not updated") as asked:
            found = quorum.update_features(asked, levels, UPGRADES[how], validate_only)
        failed = {
            name: refusal(f"feature {name} not updated", code, message)
            for name, (code, message) in found.items()
            if code
        }
        if failed:
            raise AdminFailed(failed)

    def describe_quorum(self) -> Quorum:
        """Who keeps the cluster's metadata, and how far each is."""
        with self._asking("quorum not described") as asked:
            found, _ = quorum.describe_quorum(asked)
        return Quorum(
            found.leader_id,
            found.leader_epoch,
            found.high_watermark,
            {each.replica_id: each.log_end_offset for each in found.current_voters},
            {each.replica_id: each.log_end_offset for each in found.observers},
        )

    @contextmanager
    def _asking(self, what: str) -> Iterator[Asked]:
        with self._wire() as cluster:
            try:
                yield Asked(cluster)
            except KafkaError as error:
                raise refusal(what, error.code, error.message) from None


def raise_failed(codes: Mapping[TopicPartition, ErrorCode], what: str) -> None:
    failed = {f"{topic}-{number}": refusal(what, code, None, topic, number) for (topic, number), code in codes.items()}
    if failed:
        raise next(iter(failed.values())) if len(failed) == 1 else AdminFailed(failed)
