"""The REST proxy: a cluster over HTTP, with the paths, content types and error codes of Confluent's (v1, v2 and v3).

`node` runs it, `api` puts the paths together: `v2_*` (with v1's forms), `v3_*`, and what is ours beside v3: reading
without a consumer and following a topic (`reading`, `tail`). `backend` holds the clients of one user, `backends` those
of all; `formats` and `schemas` turn JSON into records and back. Handlers never block the event loop: librdkafka's
calls that wait are made in threads. May import `web`, `clients`, `client`, `schemas` and below; never the broker.
"""
