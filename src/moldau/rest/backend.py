"""The clients of one user of the proxy: producer, administrator, consumers; each made when it is needed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from moldau.client.librdkafka import make_client
from moldau.clients import properties as texts
from moldau.rest import errors
from moldau.rest.producing import Sender
from moldau.rest.settings import RestSettings

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster
    from moldau.clients.consumer import Consumer

T = TypeVar("T")


class Login(NamedTuple):
    """Name and password that a request brought, for the cluster to judge."""

    name: str
    password: str

    def __repr__(self) -> str:
        return f"Login({self.name!r})"


class Backend:
    def __init__(
        self,
        settings: RestSettings,
        threads: ThreadPoolExecutor,
        monotonic: Callable[[], float],
        login: Login | None = None,
    ) -> None:
        """`threads` are for consumers; questions to the cluster need none, or those of the loop."""
        self.settings = settings
        self.login = login
        self.busy = 0
        """Streams under way and consumer instances: such a backend is not closed."""
        self.seconds = settings.seconds("client.timeout.ms")
        self._threads = threads
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._admin: Any = None
        self._sender: Sender | None = None
        self._sender_lock = asyncio.Lock()
        self._cluster_id: str | None = None
        self.idle_readers: list[Any] = []
        """Consumers without a group; only threads touch it, and a list's pop and append are one step each."""

    def properties(self, kind: str, more: Mapping[str, object] | None = None) -> dict[str, object]:
        found: dict[str, object] = dict(self.settings.client(kind))
        if self.login is not None:
            found.pop("sasl.jaas.config", None)
            found["sasl.username"] = self.login.name
            found["sasl.password"] = self.login.password
        return {**found, **(more or {})}

    def made(self, make: Callable[[dict[str, Any]], T], kind: str, defaults: Mapping[str, str]) -> T:
        given = self.properties(kind)
        return make_client(make, texts.librdkafka(given, defaults), texts.texts(given))

    # -- asking ------------------------------------------------------------------------------------------------------

    @property
    def admin(self) -> Any:
        """librdkafka's administrator: its calls return futures, and never wait."""
        if self._admin is None:
            from confluent_kafka.admin import AdminClient

            self._admin = self.made(AdminClient, "admin", {})
        return self._admin

    async def ask(self, call: Callable[[], Any], what: str = "") -> Any:
        """The answer to one call of the administrator that returns one future."""
        from confluent_kafka import KafkaException

        try:
            return await asyncio.wrap_future(await asyncio.to_thread(call))
        except KafkaException as error:
            raise errors.of_kafka(error, what) from None
        except (ValueError, TypeError) as error:
            raise errors.bad_request(str(error)) from None

    async def ask_each(self, call: Callable[[], Mapping[Any, Future[Any]]], what: str = "") -> dict[Any, Any]:
        """The answers to one that returns several; an error is an answer too."""
        from confluent_kafka import KafkaException

        try:
            futures = await asyncio.to_thread(call)
        except KafkaException as error:
            raise errors.of_kafka(error, what) from None
        except (ValueError, TypeError) as error:
            raise errors.bad_request(str(error)) from None
        found = await asyncio.gather(*map(asyncio.wrap_future, futures.values()), return_exceptions=True)
        answers: dict[Any, Any] = {}
        for name, answer in zip(futures, found, strict=True):
            if isinstance(answer, KafkaException):
                answers[name] = errors.of_kafka(answer, what or named(name))
            elif isinstance(answer, BaseException):
                raise answer
            else:
                answers[name] = answer
        return answers

    async def ask_all(self, call: Callable[[], Mapping[Any, Future[Any]]], what: str = "") -> dict[Any, Any]:
        """The same, but the first error is raised."""
        found = await self.ask_each(call, what)
        for answer in found.values():
            if isinstance(answer, errors.RestError):
                raise answer
        return found

    async def cluster(self) -> Any:
        return await self.ask(lambda: self.admin.describe_cluster(request_timeout=self.seconds))

    async def cluster_id(self) -> str:
        """It never changes."""
        if self._cluster_id is None:
            self._cluster_id = str((await self.cluster()).cluster_id)
        return self._cluster_id

    async def wire(self, action: Callable[[Cluster], T]) -> T:
        """For the calls that librdkafka lacks: our own client, in a thread, for this action."""
        return await asyncio.to_thread(self._over_wire, action)

    def _over_wire(self, action: Callable[[Cluster], T]) -> T:
        from moldau.client.cluster import Cluster
        from moldau.client.errors import AuthenticationFailed, ClientError
        from moldau.client.settings import ClientSettings
        from moldau.types.errors import KafkaError

        given = self.properties("admin", {"request.timeout.ms": str(int(self.seconds * 1000))})
        if self.login is not None:
            given["sasl.jaas.config"] = jaas(self.login, str(given.get("sasl.mechanism", "PLAIN")))
        try:
            with Cluster(ClientSettings.from_properties(texts.texts(given))) as cluster:
                return action(cluster)
        except AuthenticationFailed as error:
            raise errors.RestError(40101, str(error)) from None
        except KafkaError as error:
            raise errors.of_name(error.code.name, str(error), False) from None
        except ClientError as error:
            raise errors.RestError(50003, f"Kafka error: {error}", 500) from None

    # -- writing and reading -----------------------------------------------------------------------------------------

    @property
    def has_sender(self) -> bool:
        return self._sender is not None

    async def sender(self) -> Sender:
        """Another one after a fatal error: what was refused for good may be allowed by now."""
        async with self._sender_lock:
            if self._sender is None or self._sender.broken is not None:
                import confluent_kafka

                milliseconds = str(self.settings.number("client.timeout.ms"))
                defaults = {**texts.PRODUCER, "delivery.timeout.ms": milliseconds, "linger.ms": "2"}
                client = await asyncio.to_thread(self.made, confluent_kafka.Producer, "producer", defaults)
                self._sender = Sender(client, self.seconds, self._monotonic)
            return self._sender

    def consumer(self, more: Mapping[str, object]) -> Consumer:
        """Not on the event loop: making one takes a while."""
        from moldau.clients.consumer import Consumer

        limits = {"default.api.timeout.ms": self.settings.number("client.timeout.ms")}
        return Consumer({**limits, **self.properties("consumer", more)})

    async def in_thread(self, action: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, action)

    def close(self) -> None:
        """Not on the event loop."""
        if self._sender is not None:
            self._sender.close()
        while self.idle_readers:
            self.idle_readers.pop().close()


def named(name: object) -> str:
    for field in ("topic", "name"):
        found = getattr(name, field, None)
        if isinstance(found, str):
            return found
    return str(name)


def jaas(login: Login, mechanism: str) -> str:
    module = "scram.ScramLoginModule" if mechanism.upper().startswith("SCRAM") else "plain.PlainLoginModule"
    name, password = (part.replace("\\", "\\\\").replace('"', '\\"') for part in login)
    package = "org.apache.kafka.common.security"
    return f'{package}.{module} required username="{name}" password="{password}";'
