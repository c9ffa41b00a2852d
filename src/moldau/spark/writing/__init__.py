"""The sink of `format("moldau")`: rows to record batches, exactly once. ARCHITECTURE.md argues why it holds.

`columns`, `rows`, `encoder` turn Arrow batches into record batches; `identity`, `markers`, `decisions` are pure rules;
`transactions`, `producing`, `sink_state` talk to the cluster; `task` runs in executors, `driver` commits; `writers` are
what Spark sees. May import `client`, the base layers and its siblings in `spark`; Arrow only inside functions.
"""
