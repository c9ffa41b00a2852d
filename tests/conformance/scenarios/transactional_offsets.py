"""TxnOffsetCommit, and what OffsetFetch tells of offsets whose transaction is open."""

from typing import Any

from tests.conformance.scenario import scenario
from tests.conformance.scenarios.offset_fetch import await_groups
from tests.conformance.session import Session, Topic
from tests.conformance.transactors import Transactor, ask_until_settled, until_settled

ADDS_PARTITIONS_FROM = 5
MEMBERS_FROM = 3


class Committer:
    """Commits offsets of one group in the transactions of one producer."""

    def __init__(self, s: Session, who: Transactor, group: str) -> None:
        self.session, self.who, self.group = s, who, group

    def request(self, *offsets: tuple[Topic, int, int], metadata: str | None = "m", **changes: Any) -> Any:
        topics: dict[str, list[Any]] = {}
        for topic, partition, offset in offsets:
            wanted = {"partition_index": partition, "committed_offset": offset, "committed_metadata": metadata}
            topics.setdefault(topic.name, []).append({**wanted, "committed_leader_epoch": 3})
        named = [{"name": name, "partitions": partitions} for name, partitions in topics.items()]
        strangers = {"generation_id": -1, "member_id": "", "group_instance_id": None}
        return {"group_id": self.group, **self.who.who(), **strangers, "topics": named, **changes}

    def announce(self) -> None:
        s, content = self.session, {"group_id": self.group, **self.who.who()}
        until_settled(s, lambda: s.send("add_offsets_to_txn", content, version=4))

    def look(self, step: str, *wanted: tuple[Topic, list[int]]) -> None:
        topics = [{"name": topic.name, "partition_indexes": indexes} for topic, indexes in wanted]
        for stable in (False, True):
            asked = {"require_stable": stable, "groups": [{"group_id": self.group, "topics": topics or None}]}
            word = "stable" if stable else "any"
            self.session.ask(f"{step}: {word}", "offset_fetch", asked, version=8)


@scenario("txn_offset_commit")
def txn_offset_commit(s: Session, version: int) -> None:
    group, topic, missing = s.topic_name("group"), s.create("a", 2), Topic(s.topic_name("missing"), None)
    await_groups(s, group)
    one = Transactor(s, "one").begin()
    commits = Committer(s, one, group)
    end_version = 5 if version >= ADDS_PARTITIONS_FROM else 4

    def ask(step: str, *offsets: tuple[Topic, int, int], **changes: Any) -> None:
        ask_until_settled(s, step, "txn_offset_commit", commits.request(*offsets, **changes))

    ask("without a word before", (topic, 0, 5))
    if version < ADDS_PARTITIONS_FROM:
        commits.announce()
    ask("first", (topic, 0, 7))
    commits.look("open", (topic, [0, 1]))
    commits.look("open, all partitions")
    ask("again", (topic, 0, 8), (topic, 1, 3))
    ask("unknown topic", (topic, 0, 9), (missing, 0, 1))
    ask("unknown partition", (topic, 0, 10), (topic, 9, 1))
    ask("negative offset", (topic, 1, -5))
    ask("no metadata", (topic, 1, 4), metadata=None)
    ask("large metadata", (topic, 1, 5), metadata="x" * 4097)
    ask("an older epoch", (topic, 0, 1), producer_epoch=-1)
    ask("a later epoch", (topic, 0, 1), producer_epoch=9)
    ask("another producer", (topic, 0, 1), producer_id=one.producer_id + 1_000_000)
    ask("another transactional id", (topic, 0, 11), transactional_id=s.topic_name("nobody"))
    ask("empty transactional id", (topic, 0, 12), transactional_id="")
    ask("empty group", (topic, 0, 1), group_id="")
    ask("nothing")
    if version >= MEMBERS_FROM:
        ask("a generation without a group", (topic, 0, 1), generation_id=1)
        ask("a member without a group", (topic, 0, 1), member_id="somebody")
        ask("a generation and a member", (topic, 0, 1), generation_id=3, member_id="somebody")
        ask("an instance without a group", (topic, 0, 1), group_instance_id="static")
    one.finish(True, end_version)
    commits.look("committed", (topic, [0, 1]))
    if version < ADDS_PARTITIONS_FROM:
        ask("behind the end", (topic, 0, 99))
        commits.announce()
    ask("to be aborted", (topic, 0, 50))
    commits.look("open again", (topic, [0]))
    one.finish(False, end_version)
    commits.look("aborted", (topic, [0]))


@scenario("txn_offset_commit", versions=[4, 5])
def commits_in_and_out_of_transactions(s: Session, version: int) -> None:
    """A plain commit behind an open transaction, two transactions of one group, deletion of offsets meanwhile."""
    group, topic = s.topic_name("group"), s.create("a", 3)
    await_groups(s, group)
    one, two = (Committer(s, Transactor(s, label).begin(), group) for label in ("one", "two"))
    end_version = 5 if version >= ADDS_PARTITIONS_FROM else 4

    def commit(committer: Committer, *offsets: tuple[Topic, int, int]) -> None:
        if version < ADDS_PARTITIONS_FROM:
            committer.announce()
        request = committer.request(*offsets)
        until_settled(s, lambda: s.send("txn_offset_commit", request, version=version))

    def plainly(offset: int, partition: int) -> None:
        wanted = {"partition_index": partition, "committed_offset": offset, "committed_metadata": ""}
        topics = [{"name": topic.name, "partitions": [wanted]}]
        content = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
        s.send("offset_commit", content, version=9)

    commit(one, (topic, 0, 10), (topic, 1, 10))
    plainly(20, 0)
    one.look("a plain commit behind an open one", (topic, [0, 1, 2]))
    commit(two, (topic, 1, 30), (topic, 2, 30))
    one.look("two open", (topic, [0, 1, 2]))
    two.who.finish(True, end_version)
    one.look("the second committed", (topic, [0, 1, 2]))
    one.who.finish(True, end_version)
    one.look("both committed", (topic, [0, 1, 2]))
    commit(one, (topic, 0, 40))
    deleted = [{"name": topic.name, "partitions": [{"partition_index": index} for index in (0, 1)]}]
    s.ask("offsets deleted", "offset_delete", {"group_id": group, "topics": deleted}, version=0)
    one.look("deleted while open", (topic, [0, 1, 2]))
    one.who.finish(True, end_version)
    one.look("at the end", (topic, [0, 1, 2]))
    commit(two, (topic, 0, 60))
    s.ask("group deleted while open", "delete_groups", {"groups_names": [group]}, version=2)
    two.who.finish(True, end_version)
    two.look("group deleted", (topic, [0, 1, 2]))
