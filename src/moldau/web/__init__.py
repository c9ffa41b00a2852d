"""The web base that the HTTP services share: Starlette and uvicorn with everything around a handler.

A service declares its endpoints in an `Api` and hands it to a `Service`:

    api = Api("Schema registry", VERSION, media_types=("application/json",))

    @api.get("/subjects/{subject}/versions", role=READ, query=(flag("deleted"),), answer={"type": "array"})
    async def versions(call: Call) -> object:          # what is returned is sent as JSON; a Response as it is
        return await find(call.path["subject"], call.query["deleted"])

    settings = WebSettings.of(properties, "http://localhost:8081")  # with Confluent's keys
    async with Service(api, settings, metrics, wall_clock) as service:
        await service.run_until_stopped()              # SIGTERM drains: no new connections, what runs is finished

`call.json()` reads a bounded body; `call.request` is Starlette's; `streams.Stream` answers piece by piece.
`ApiError(status, message, code)` is
answered as `{"error_code": …, "message": …}`. Path segments are cut before they are decoded: `a%2Fb` is one segment.
Every service has /health, /ready (the argument `ready` of `Service` says it), /metrics, /openapi.json and /docs; the
description is made from the endpoints. `settings.read_table` reads a table of settings, `passwords` checks the
password file. May import `config`, `metrics` and below; never the broker.
"""

from moldau.web.api import ADMIN, READ, WRITE, Api, Endpoint, Parameter, flag, long, number, text
from moldau.web.call import Call
from moldau.web.errors import ApiError
from moldau.web.service import Service
from moldau.web.settings import WEB_SETTINGS, WebSettings

__all__ = [
    "ADMIN",
    "READ",
    "WEB_SETTINGS",
    "WRITE",
    "Api",
    "ApiError",
    "Call",
    "Endpoint",
    "Parameter",
    "Service",
    "WebSettings",
    "flag",
    "long",
    "number",
    "text",
]
