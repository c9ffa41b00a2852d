"""Names of a package that are imported when somebody asks for them, so that importing the package stays cheap."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping


def names(places: Mapping[str, str]) -> Callable[[str], object]:
    """A package's `__getattr__`: `places` says for each name `module:attribute`, or the module that it is."""

    def get(name: str) -> object:
        if name not in places:
            raise AttributeError(f"module 'moldau' has no attribute {name!r}")
        module, _, attribute = places[name].partition(":")
        found = importlib.import_module(module)
        return getattr(found, attribute) if attribute else found

    return get
