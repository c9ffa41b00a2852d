"""Moldau: a streaming platform for Python data teams. The packages below are its layers; ARCHITECTURE.md lists them."""

from moldau.version import VERSION as __version__

__all__ = ["__version__"]
