"""Keys and values as text, JSON or Avro: from bytes to typed columns and back.

`options`, `plan` and `ddl` are read by the planner and import no Arrow; `decoding` and `encoding` work on Arrow batches
in the executors. May import `spark`'s option table and errors, and the base layers.
"""
