"""Kafka Connect's REST API: the paths, as thin as they go; what they do stands in `herder`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import Response

from moldau.connect.worker import offsets
from moldau.connect.worker.errors import NotLeader, bad_request, not_found
from moldau.connect.worker.forwarding import Forwarder, blocking, to_leader
from moldau.connect.worker.herder import STATES, Herder
from moldau.connect.worker.positions import PositionTables
from moldau.connect.worker.records import PAUSED, STARTED, STOPPED
from moldau.connect.worker.rest_bodies import named, texts
from moldau.version import VERSION
from moldau.web import ADMIN, READ, WRITE, Api, ApiError, Call, flag, text
from moldau.web.api import NOBODY
from moldau.web.application import to_json

OBJECT: Final = {"type": "object"}
LIST: Final = {"type": "array"}
KAFKA_VERSION: Final = "4.3.0"


def make_api(
    herder: Herder,
    tables: PositionTables,
    forwarder: Forwarder,
    cluster_id: Callable[[], str],
    health: Callable[[], tuple[str, str]],
) -> Api:
    api = Api("Moldau Connect", VERSION)

    @api.get("/", answer=OBJECT, tag="worker")
    async def root(call: Call) -> object:
        """Version of Kafka Connect that is followed, and the cluster's id"""
        return {"version": KAFKA_VERSION, "commit": f"moldau-{VERSION}", "kafka_cluster_id": cluster_id()}

    @api.get("/health", role=NOBODY, answer=OBJECT, tag="worker")
    async def healthy(call: Call) -> object:
        """Whether the worker is ready"""
        state, message = health()
        status = 200 if state == "healthy" else 503
        return Response(to_json({"status": state, "message": message}), status, media_type="application/json")

    add_connectors(api, herder, forwarder)
    add_tasks(api, herder, forwarder)
    add_states(api, herder, forwarder)
    add_targets(api, herder, forwarder)
    add_offsets(api, herder, tables, forwarder)
    from moldau.connect.worker import rest_plugins

    rest_plugins.add(api, herder, forwarder)
    return api


def made(name: str, created: bool, info: Mapping[str, Any]) -> Response:
    headers = {"Location": f"/connectors/{quote(name, safe='')}"} if created else {}
    return Response(to_json(info), 201 if created else 200, headers, "application/json")


def add_connectors(api: Api, herder: Herder, forwarder: Forwarder) -> None:
    @api.get("/connectors", query=(text("expand", doc="status, info, or both"),), answer=LIST, tag="connectors")
    async def connectors(call: Call) -> object:
        """The names of the connectors, or with expand what is known of them"""
        wanted = call.request.query_params.getlist("expand")
        return await asyncio.to_thread(listed, herder, wanted) if wanted else herder.names()

    @api.post("/connectors", role=WRITE, body=OBJECT, answer=OBJECT, errors=(400, 409), tag="connectors")
    async def create(call: Call) -> object:
        """Make a connector"""
        body = await call.json_object()
        name = str(body.get("name") or "").strip()
        if not isinstance(body.get("config"), Mapping):
            raise bad_request("the body needs an object 'config'")
        config = named(name, texts(body["config"]))
        initial = body.get("initial_state")
        if initial is not None and str(initial).upper() not in STATES:
            raise bad_request(f"initial_state {initial!r} is none of {', '.join(STATES)}")
        state = None if initial is None else str(initial).upper()

        def do() -> object:
            herder.put(name, config, replace=False, initial=state)
            return made(name, True, herder.info(name))

        return await to_leader(forwarder, call, do)

    @api.get("/connectors/{connector}", answer=OBJECT, errors=(404,), tag="connectors")
    async def connector(call: Call) -> object:
        """Configuration, tasks and type of a connector"""
        return herder.info(call.path["connector"])

    @api.delete("/connectors/{connector}", role=WRITE, status=204, errors=(404, 409), tag="connectors")
    async def delete(call: Call) -> object:
        """Delete a connector; its offsets stay"""
        return await to_leader(forwarder, call, lambda: herder.delete(call.path["connector"]))

    @api.get("/connectors/{connector}/config", answer=OBJECT, errors=(404,), tag="connectors")
    async def config(call: Call) -> object:
        """Its configuration"""
        return herder.config(call.path["connector"])

    @api.put(
        "/connectors/{connector}/config", role=WRITE, body=OBJECT, answer=OBJECT, errors=(400, 409), tag="connectors"
    )
    async def put_config(call: Call) -> object:
        """Make a connector, or change its whole configuration"""
        name = call.path["connector"]
        wanted = named(name, texts(await call.json()))
        return await to_leader(forwarder, call, lambda: made(name, *herder.put(name, wanted, replace=True)))

    @api.patch(
        "/connectors/{connector}/config", role=WRITE, body=OBJECT, answer=OBJECT, errors=(400, 404), tag="connectors"
    )
    async def patch_config(call: Call) -> object:
        """Change some settings; null takes one away"""
        patch = texts(await call.json())
        return await to_leader(forwarder, call, lambda: herder.patch(call.path["connector"], patch))


def add_tasks(api: Api, herder: Herder, forwarder: Forwarder) -> None:
    @api.get("/connectors/{connector}/tasks", answer=LIST, errors=(404,), tag="connectors")
    async def tasks(call: Call) -> object:
        """Its tasks with their configurations"""
        return herder.task_infos(call.path["connector"])

    @api.get("/connectors/{connector}/tasks-config", answer=OBJECT, errors=(404,), tag="connectors")
    async def tasks_config(call: Call) -> object:
        """The same by the name of the task; deprecated"""
        found = herder.task_infos(call.path["connector"])
        return {f"{each['id']['connector']}-{each['id']['task']}": each["config"] for each in found}

    add_between_workers(api, herder, forwarder)


def add_between_workers(api: Api, herder: Herder, forwarder: Forwarder) -> None:
    """Signed requests, to which names and passwords of users do not belong."""
    between: dict[str, Any] = {"role": NOBODY, "status": 204, "errors": (400, 403, 404), "tag": "between workers"}

    @api.post("/connectors/{connector}/tasks", body=LIST, **between)
    async def put_tasks(call: Call) -> object:
        """The worker that runs a connector tells the leader its tasks"""
        name, configs, body = call.path["connector"], await call.json(), await call.body()
        if not isinstance(configs, list):
            raise bad_request("a list with the configuration of each task is expected")
        return await to_leader(forwarder, call, lambda: herder.take_tasks(name, configs, call.request.headers, body))

    @api.put("/connectors/{connector}/fence", **between)
    async def fence(call: Call) -> object:
        """Nothing is left to be done: a source that starts fences whoever wrote before it"""
        name, body = call.path["connector"], await call.body()
        return await to_leader(forwarder, call, lambda: herder.fence(name, call.request.headers, body))


def listed(herder: Herder, wanted: list[str]) -> dict[str, Any]:
    shapes = {"status": herder.status_of, "info": herder.info}
    found: dict[str, Any] = {}
    for name in herder.names():
        try:
            found[name] = {each: shapes[each](name) for each in wanted if each in shapes}
        except ApiError:  # deleted in the meantime, or just made
            continue
    return found


def add_states(api: Api, herder: Herder, forwarder: Forwarder) -> None:
    @api.get("/connectors/{connector}/status", answer=OBJECT, errors=(404,), tag="states")
    async def status(call: Call) -> object:
        """The states of the connector and its tasks"""
        return herder.status_of(call.path["connector"])

    @api.get("/connectors/{connector}/tasks/{task}/status", answer=OBJECT, errors=(404,), tag="states")
    async def task_status(call: Call) -> object:
        """The state of a task"""
        return herder.task_status(call.path["connector"], number(call))

    @api.post(
        "/connectors/{connector}/restart",
        role=WRITE,
        query=(flag("includeTasks"), flag("onlyFailed")),
        answer=OBJECT,
        errors=(404, 409),
        tag="states",
    )
    async def restart(call: Call) -> object:
        """Start a connector again, or what of it has failed"""
        name, tasks, failed = call.path["connector"], call.query["includeTasks"], call.query["onlyFailed"]

        def do() -> object:
            shown = herder.restart(name, include_tasks=tasks, only_failed=failed)
            return Response(status_code=204) if shown is None else json_response(shown, 202)

        return await to_leader(forwarder, call, do)

    @api.post("/connectors/{connector}/tasks/{task}/restart", role=WRITE, status=204, errors=(404, 409), tag="states")
    async def restart_task(call: Call) -> object:
        """Start a task again"""
        name, task = call.path["connector"], number(call)
        try:
            return await asyncio.to_thread(herder.restart_task, name, task)
        except NotLeader:
            return await forwarder.forward(call, to_owner_of=name)


def add_targets(api: Api, herder: Herder, forwarder: Forwarder) -> None:
    @api.put("/connectors/{connector}/pause", role=WRITE, status=202, errors=(404,), tag="states")
    async def pause(call: Call) -> object:
        """Stop its tasks, and keep them"""
        return await to_leader(forwarder, call, lambda: targeted(herder, call, PAUSED, 202))

    @api.put("/connectors/{connector}/resume", role=WRITE, status=202, errors=(404,), tag="states")
    async def resume(call: Call) -> object:
        """Go on after pause or stop"""
        return await to_leader(forwarder, call, lambda: targeted(herder, call, STARTED, 202))

    @api.put("/connectors/{connector}/stop", role=WRITE, status=204, errors=(404,), tag="states")
    async def stop(call: Call) -> object:
        """Stop its tasks, and let go of them; its offsets can be changed then"""
        return await to_leader(forwarder, call, lambda: targeted(herder, call, STOPPED, 204))

    @api.get("/connectors/{connector}/topics", role=READ, answer=OBJECT, tag="states")
    async def topics(call: Call) -> object:
        """The topics that it has used"""
        return herder.topics_of(call.path["connector"])

    @api.put("/connectors/{connector}/topics/reset", role=WRITE, status=202, tag="states")
    async def reset_topics(call: Call) -> object:
        """Forget the topics that it has used"""
        await asyncio.to_thread(herder.reset_topics, call.path["connector"])
        return Response(status_code=202)


def targeted(herder: Herder, call: Call, state: str, status: int) -> Response:
    herder.target(call.path["connector"], state)
    return Response(status_code=status)


def json_response(content: object, status: int) -> Response:
    return Response(to_json(content), status, media_type="application/json")


def number(call: Call) -> int:
    if not call.path["task"].isdigit():
        raise not_found("HTTP 404 Not Found")
    return int(call.path["task"])


def add_offsets(api: Api, herder: Herder, tables: PositionTables, forwarder: Forwarder) -> None:
    @api.get("/connectors/{connector}/offsets", answer=OBJECT, errors=(404,), tag="offsets")
    async def read(call: Call) -> object:
        """How far it is: positions of a source, offsets of a sink's group"""
        return await blocking(lambda: offsets.read(herder.job(call.path["connector"]), tables))

    @api.patch(
        "/connectors/{connector}/offsets", role=WRITE, body=OBJECT, answer=OBJECT, errors=(400, 404), tag="offsets"
    )
    async def alter(call: Call) -> object:
        """Set offsets of a stopped connector"""
        body = await call.json_object()
        if not body.get("offsets"):
            raise bad_request(offsets.MISSING)
        name = call.path["connector"]
        return await to_leader(forwarder, call, lambda: offsets.alter(herder.stopped_job(name), tables, body))

    @api.delete("/connectors/{connector}/offsets", role=ADMIN, answer=OBJECT, errors=(400, 404), tag="offsets")
    async def reset(call: Call) -> object:
        """Forget the offsets of a stopped connector"""
        name = call.path["connector"]
        return await to_leader(forwarder, call, lambda: offsets.reset(herder.stopped_job(name), tables))
