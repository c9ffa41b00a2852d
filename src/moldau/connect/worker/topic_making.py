"""Topics that a connector with settings `admin.override.*` needs, made with them before anybody else would."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from moldau.client.cluster import Cluster
from moldau.connect.dead_letters import make_topic
from moldau.connect.task import Job
from moldau.spark.writing.new_topics import create, rule_for


def make_topics(job: Job, topics: Iterable[str]) -> None:
    """`topics`: those of a source's streams; where its transforms route records to is not known before."""
    if not job.admin:
        return
    if job.errors.dead_letters:
        make_topic(replace(job, kafka=job.admin_kafka))
    found = [(topic, rule_for(topic, job.new_topics)) for topic in topics]
    with Cluster(job.admin_client) as cluster:
        for topic, rule in found:
            if rule is not None:
                create(cluster, topic, rule)
