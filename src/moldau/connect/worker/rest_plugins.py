"""The paths of plug-ins and of loggers."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from moldau.config.providers import ProviderError
from moldau.connect.configuration import offered_plugins, read_whole
from moldau.connect.definitions import ConfigDef, definition_of
from moldau.connect.plugins import PluginMissing, find, kind_of, offered, version_of
from moldau.connect.worker.errors import bad_request, not_found
from moldau.connect.worker.forwarding import Forwarder, to_leader
from moldau.connect.worker.herder import Herder
from moldau.connect.worker.loggers import LEVELS
from moldau.connect.worker.rest_bodies import texts
from moldau.version import VERSION
from moldau.web import ADMIN, Api, Call, flag, text


def add(api: Api, herder: Herder, forwarder: Forwarder) -> None:
    add_plugins(api, herder)
    if herder.serves_admin:
        add_loggers(api, herder, forwarder)


def add_plugins(api: Api, herder: Herder) -> None:
    @api.get("/connector-plugins", query=(flag("connectorsOnly", True),), answer={"type": "array"}, tag="plugins")
    async def plugins(call: Call) -> object:
        """What can be used in configurations"""
        found = [{"class": name, "type": kind_of(each), "version": version_of(each)} for name, each in offered()]
        if not call.query["connectorsOnly"]:
            found += [{"class": name, "type": kind, "version": VERSION} for name, kind in offered_plugins()]
        return found

    @api.get(
        "/connector-plugins/{plugin}/config",
        query=(text("version"),),
        answer={"type": "array"},
        errors=(404,),
        tag="plugins",
    )
    async def config(call: Call) -> object:
        """The settings that a plug-in knows"""
        return [definition_of(key) for key in plugin_settings(call.path["plugin"])]

    @api.put(
        "/connector-plugins/{plugin}/config/validate", body={"type": "object"}, answer={"type": "object"}, tag="plugins"
    )
    async def validate(call: Call) -> object:
        """Everything that is wrong with a configuration"""
        given = texts(await call.json())
        name = given.get("connector.class")
        if name is None:
            raise bad_request(f"Connector config {given} contains no connector type")
        if not normalized(name).endswith(normalized(call.path["plugin"])):
            raise bad_request(f"Included connector type {name} does not match request type {call.path['plugin']}")
        try:
            return await asyncio.to_thread(herder.described, given, name)
        except (PluginMissing, ProviderError) as problem:
            raise bad_request(str(problem)) from None


def add_loggers(api: Api, herder: Herder, forwarder: Forwarder) -> None:
    loggers = herder.loggers

    @api.get("/admin/loggers", role=ADMIN, answer={"type": "object"}, tag="loggers")
    async def list_loggers(call: Call) -> object:
        """Loggers whose level was set, and the root"""
        return loggers.all()

    @api.get("/admin/loggers/{logger}", role=ADMIN, answer={"type": "object"}, errors=(404,), tag="loggers")
    async def logger(call: Call) -> object:
        """The level of a logger"""
        return loggers.one(call.path["logger"])

    @api.put(
        "/admin/loggers/{logger}", role=ADMIN, query=(text("scope", "worker"),), body={"type": "object"}, tag="loggers"
    )
    async def set_logger(call: Call) -> object:
        """Set the level of a logger and those below it; with scope=cluster on every worker"""
        given = (await call.json_object()).get("level")
        if given is None:
            raise bad_request("Desired 'level' parameter was not specified in request.")
        name, level = call.path["logger"], str(given).upper()
        if level not in LEVELS:
            raise not_found(f"invalid log level '{given}'.")
        if str(call.query["scope"]).lower() != "cluster":
            return loggers.set(name, level)

        def do() -> object:
            herder.set_logger(name, level)
            return Response(status_code=204)

        return await to_leader(forwarder, call, do)


def normalized(name: str) -> str:
    return name.removesuffix("Connector") if name != "Connector" else name


def plugin_settings(name: str) -> ConfigDef:
    from moldau.connect.converter_names import find_converter
    from moldau.connect.transforms.catalogue import find_predicate, find_transform

    try:
        connector = find(name)
        own = read_whole({}, connector).definition if not connector.CONFIG else connector.CONFIG
    except PluginMissing:
        own = ConfigDef()
    else:
        return own
    for look in (find_converter, find_predicate, lambda each: find_transform(each)[0]):
        try:
            return look(name).CONFIG
        except PluginMissing:
            continue
    raise not_found(f"Unknown plugin {name}.")
