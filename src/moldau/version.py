"""The version of this package, and nothing else, so that reading it costs nothing."""

from typing import Final

VERSION: Final = "0.1.0"
