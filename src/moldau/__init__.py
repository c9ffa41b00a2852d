"""Moldau: a streaming platform for Python data teams. The packages below are its layers; ARCHITECTURE.md lists them.

`from moldau import Producer, Consumer, Admin` gives the clients, `aio` their asyncio forms; they are imported when they
are asked for. Type checkers read `__init__.pyi`.
"""

from moldau import lazy
from moldau.version import VERSION

__all__ = ["Admin", "Consumer", "Producer", "__version__", "aio"]

__version__ = VERSION

__getattr__ = lazy.names(
    {
        "Admin": "moldau.clients.admin:Admin",
        "Consumer": "moldau.clients.consumer:Consumer",
        "Producer": "moldau.clients.producer:Producer",
        "aio": "moldau.clients.aio",
    }
)
