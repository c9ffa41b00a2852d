"""The connectors that come along, one module each; its head says how it is exact."""
