"""One partition's log on disk, and the folders of many: Kafka's files. May import wire, kernels, config, metrics, types."""
