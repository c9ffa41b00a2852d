"""Brokers, clusters and schema registries for tests of programs that use Kafka: `from moldau.testing import Broker`.

    with Broker() as broker, broker.producer(value_serializer="string") as producer:
        producer.send("orders", "tea").result()

    with Broker() as broker, Registry(broker.bootstrap) as registry:
        producer = broker.producer(registry.properties, value_serializer=Avro(schema))

They are processes on free ports of this host, with data in a folder that is removed, and end with the test run even
if it is killed. `plugin` is the pytest plug-in: fixtures `moldau_broker`, `moldau_topic` and
`moldau_registry`, which are there once Moldau is installed. May import everything; nothing imports it."""

from moldau.testing.brokers import Broker, Cluster, Running
from moldau.testing.registries import Registry, RunningRegistry

__all__ = ["Broker", "Cluster", "Registry", "Running", "RunningRegistry"]
