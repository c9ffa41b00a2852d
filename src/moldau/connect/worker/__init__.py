"""The worker: a process that runs connectors and answers Connect's REST API.

`records` are the formats of Connect's three topics, `state` what they amount to, `store` where they are kept
(`topics`, or memory and a file in standalone mode); `runner` runs what is assigned to this worker, on one Spark
session; `herder` is what requests and the group of workers ask for; `rest` the paths, `node` makes a process of them.
"""
