"""Texts of requests that nobody could store: JSON can say half of a pair of surrogates, UTF-8 cannot."""

from __future__ import annotations

import json
import re
from typing import Final

from moldau.registry.errors import invalid_schema
from moldau.schemas.model import SchemaError, check_unicode, compact

SUSPECT: Final = re.compile(rb"\\u[dD][89a-fA-F]|\xed[\xa0-\xbf]|\x00")
"""An escaped half, one in UTF-8's clothes, or another encoding altogether."""


def check_texts(body: bytes) -> None:
    """Whether it is JSON is for others to say."""
    if not SUSPECT.search(body):
        return
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return
    try:
        check_unicode(compact(found))
    except SchemaError as error:
        raise invalid_schema(f"The request is no text: {error}") from None
    except RecursionError:
        return
