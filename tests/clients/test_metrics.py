"""Metrics over HTTP, as Prometheus asks for them."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.clients.conftest import StartBroker
from tests.support.process import free_port


def text_at(address: str) -> str:
    with urllib.request.urlopen(address, timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


def value_of(text: str, name: str) -> float:
    return next(float(line.rpartition(" ")[2]) for line in text.splitlines() if line.startswith(name))


def test_what_a_broker_counts_is_read_over_http(own_broker: StartBroker) -> None:
    port = free_port()
    broker = own_broker(**{"metrics.listeners": f"http://127.0.0.1:{port}"})
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce("counted", b"x" * 1000)
    assert producer.flush(30) == 0
    text = text_at(f"http://127.0.0.1:{port}/metrics")
    assert value_of(text, "kafka_server_brokertopicmetrics_bytesin_total") >= 1000
    topic = '{topic="counted"}'
    assert value_of(text, f"kafka_server_brokertopicmetrics_bytesin_total{topic}") >= 1000
    assert value_of(text, f"kafka_server_brokertopicmetrics_messagesin_total{topic}") == 1
    assert value_of(text, "kafka_server_brokertopicmetrics_messagesin_total") == 1
    assert value_of(text, "kafka_server_brokertopicmetrics_totalproducerequests_total") >= 1
    assert value_of(text, "kafka_server_brokertopicmetrics_failedfetchrequests_total") == 0
    partition = '{topic="counted",partition="0"}'
    assert value_of(text, f"kafka_log_log_logendoffset{partition}") == 1
    assert value_of(text, f"kafka_log_log_logstartoffset{partition}") == 0
    assert value_of(text, f"kafka_log_log_size{partition}") >= 1000
    assert value_of(text, f"kafka_log_log_numlogsegments{partition}") == 1
    assert value_of(text, f"kafka_topic_partition_current_offset{partition}") == 1
    assert value_of(text, "kafka_brokers") == 1
    assert value_of(text, "kafka_server_replicafetchermanager_maxlag") == 0
    assert value_of(text, "kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert value_of(text, "kafka_server_replicamanager_partitioncount") == 1
    assert value_of(text, "kafka_server_replicamanager_underreplicatedpartitions") == 0
    with pytest.raises(urllib.error.HTTPError) as missing:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/secrets", timeout=30)
    missing.value.close()
    assert missing.value.code == 404
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "readers", "auto.offset.reset": "earliest"})
    consumer.subscribe(["counted"])
    assert consumer.poll(60.0) is not None
    producer.produce("counted", b"more")
    assert producer.flush(30) == 0
    consumer.commit(offsets=[TopicPartition("counted", 0, 1)], asynchronous=False)
    text = text_at(f"http://127.0.0.1:{port}/metrics")
    consumer.close()
    committed = '{consumergroup="readers",topic="counted",partition="0"}'
    assert value_of(text, f"kafka_consumergroup_current_offset{committed}") == 1
    assert value_of(text, f"kafka_consumergroup_lag{committed}") == 1
    assert value_of(text, 'kafka_consumergroup_lag_sum{consumergroup="readers",topic="counted"}') == 1
    assert value_of(text, 'kafka_consumergroup_members{consumergroup="readers"}') == 1
    assert value_of(text, f"kafka_server_brokertopicmetrics_bytesout_total{topic}") >= 1000


def test_what_is_told_of_each_partition_can_be_left_out(own_broker: StartBroker) -> None:
    port = free_port()
    settings = {"metrics.listeners": f"http://127.0.0.1:{port}", "moldau.metrics.partitions.enable": "false"}
    broker = own_broker(**settings)
    producer = Producer({"bootstrap.servers": broker.address})
    producer.produce("counted", b"x")
    assert producer.flush(30) == 0
    text = text_at(f"http://127.0.0.1:{port}/metrics")
    assert value_of(text, 'kafka_server_brokertopicmetrics_messagesin_total{topic="counted"}') == 1
    assert "partition=" not in text and "consumergroup" not in text
