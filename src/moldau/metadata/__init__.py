"""What the cluster knows of itself: the metadata store, the immutable image built from it, the controller's rules.

Imports types, kernels, wire, config, metrics and storage. Only the stores and the publisher wait for anything
(asyncio); the image and the controller's rules are pure.
"""
