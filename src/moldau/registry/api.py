"""The paths of the registry: one `Api` for all of them."""

from __future__ import annotations

from dataclasses import replace

from moldau.registry import api_associations, api_schemas, api_settings, api_subjects
from moldau.registry.answers import EMPTY
from moldau.registry.bodies import check_texts
from moldau.registry.registry import Registry
from moldau.registry.shapes import MEDIA_TYPES, for_client
from moldau.registry.subjects import rewrite
from moldau.version import VERSION
from moldau.web import Api, Call
from moldau.web.api import Endpoint


class RegistryApi(Api):
    def add(self, endpoint: Endpoint) -> None:
        async def answered(call: Call) -> object:
            if endpoint.body is not None:
                check_texts(await call.body())
            return for_client(call, await endpoint.handler(call))

        super().add(replace(endpoint, handler=answered))


def make_api(registry: Registry) -> Api:
    api = RegistryApi("Moldau schema registry", VERSION, MEDIA_TYPES, rewrite)

    @api.get("/", answer=EMPTY, tag="service")
    async def root(call: Call) -> object:
        """Nothing, kindly"""
        return {}

    @api.post("/", answer=EMPTY, tag="service")
    async def root_post(call: Call) -> object:
        """Nothing, kindly"""
        return {}

    api_schemas.add(api, registry)
    api_subjects.add(api, registry)
    api_settings.add(api, registry)
    api_associations.add(api, registry)
    return api
