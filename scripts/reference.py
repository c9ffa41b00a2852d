"""Write the pages of docs/reference from the code; `tests/tidy/test_reference.py` fails when they are not current.

python scripts/reference.py           write them
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from pathlib import Path

from moldau.cli import reference as commands
from moldau.cli.kafka import reference as kafka_tools
from moldau.clients import reference as clients
from moldau.config import reference as settings
from moldau.connect import reference as connect
from moldau.mirror import reference as mirror
from moldau.registry import reference as registry
from moldau.rest import reference as rest
from moldau.server import handlers
from moldau.server.registry import Api
from moldau.spark import api_reference as python_api
from moldau.spark import reference as spark_options
from moldau.wire.apis import ApiKey

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"


def pages() -> dict[Path, str]:
    """Every generated page with its text."""
    return {
        FOLDER / "settings.md": settings.markdown(),
        FOLDER / "apis.md": apis_page(),
        FOLDER / "commands.md": commands.markdown(),
        FOLDER / "kafka-tools.md": kafka_tools.markdown(),
        FOLDER / "spark-options.md": spark_options.markdown(),
        FOLDER / "registry.md": registry.markdown(),
        FOLDER / "mirror.md": mirror.markdown(),
        FOLDER / "rest.md": rest.markdown(),
        FOLDER / "connect.md": connect.markdown(),
        FOLDER / "python-api.md": python_api.markdown(),
        FOLDER / "clients.md": clients.markdown(),
    }


def apis_page() -> str:
    """Each API that a broker announces, with what its module says about itself."""
    found = sorted(served_apis(), key=lambda pair: pair[0].key)
    lines = [
        "# APIs and versions",
        "",
        "Written by `make docs` from the modules in `src/moldau/server/handlers`; each says what it leaves out.",
        "",
        "| API | key | versions |",
        "|---|---|---|",
        *(f"| [{name(api)}](#{name(api).lower()}) | {int(api.key)} | {versions(api)} |" for api, _ in found),
    ]
    for api, notes in found:
        lines += ["", f"## {name(api)}", "", notes]
    return "\n".join(lines) + "\n"


def served_apis() -> list[tuple[Api, str]]:
    """The `API` of every handler module that clients may use, with the module's head comment."""
    found = []
    for entry in pkgutil.iter_modules(handlers.__path__):
        module = importlib.import_module(f"{handlers.__name__}.{entry.name}")
        api = getattr(module, "API", None)
        if isinstance(api, Api) and not api.between_brokers:
            found.append((api, inspect.cleandoc(module.__doc__ or "")))
    return found


def name(api: Api) -> str:
    """FIND_COORDINATOR as people write it: FindCoordinator."""
    return ApiKey(api.key).name.title().replace("_", "")


def versions(api: Api) -> str:
    """The announced range, and what of it is refused."""
    announced = f"{api.first} to {api.last}" if api.first != api.last else str(api.first)
    return f"{announced}, below {api.refused_below} refused" if api.refused_below > api.first else announced


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in pages().items():
        path.write_text(text)
        print(f"wrote {path.relative_to(FOLDER.parent.parent)}")


if __name__ == "__main__":
    main()
