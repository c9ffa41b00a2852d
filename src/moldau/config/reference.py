"""The reference page of all settings, made from the tables."""

from moldau.config.definition import Setting, Settings
from moldau.config.tables import broker_settings, topic_settings

_HEAD = """# Settings

The names, defaults and allowed values are those of Apache Kafka 4.3; one default differs, that of `listeners`.
Every one of them is accepted. Those marked *no* under "Honoured" have no effect here, and the broker says so in one
line when they are set; those of SASL, SSL and authorizers among them are refused at start. "Changes" tells whether a
setting of a running broker can be altered: for one broker (per-broker), for all (cluster-wide), or not (read-only).
"""


def markdown() -> str:
    """The whole page."""
    return "\n".join(
        (
            _HEAD,
            "## Broker",
            "",
            *_table(broker_settings(), changes=True),
            "",
            "## Topic",
            "",
            "A topic has the broker's value until it gets one of its own. All of these can be altered at any time.",
            "",
            *_table(topic_settings(), changes=False),
            "",
        )
    )


def _table(settings: Settings, *, changes: bool) -> list[str]:
    columns = ["Name", "Type", "Default", "Allowed", *(["Changes"] if changes else []), "Honoured", "Meaning"]
    lines = [_row(columns), _row(["---"] * len(columns))]
    for name in sorted(settings):
        setting = settings[name]
        update = [setting.update.value] if changes else []
        honoured = "yes" if setting.honoured else "no"
        allowed = setting.allowed()
        meaning = setting.doc if setting.honoured else ""
        lines.append(
            _row([_code(name), setting.type.name.lower(), _default(setting), allowed, *update, honoured, meaning])
        )
    return lines


def _default(setting: Setting) -> str:
    if setting.default is None:
        return ""
    return _code(setting.default) if setting.default else "(empty)"


def _code(text: str) -> str:
    return f"`{text}`"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
