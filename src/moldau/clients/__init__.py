"""Producer, Consumer and Admin for Python programs, on librdkafka, with Java's property names.

`from moldau import Producer, Consumer, Admin`; the asyncio forms with the same names are in `moldau.aio`. Importing a
name here imports librdkafka. May import `client`, `schemas`, `kernels`, `types`; never the broker.
"""
