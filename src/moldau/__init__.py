"""Moldau: a streaming platform for Python data teams. The packages below are its layers; ARCHITECTURE.md lists them."""

from moldau.version import VERSION

__all__ = ["__version__"]

__version__ = VERSION
