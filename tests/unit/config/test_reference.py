"""The reference page."""

from moldau.config.reference import markdown
from moldau.config.tables import broker_settings, topic_settings


def test_the_page_lists_every_setting_once_in_its_table() -> None:
    _, broker, topic = markdown().split("\n## ")
    for part, settings, columns in ((broker, broker_settings(), 7), (topic, topic_settings(), 6)):
        rows = [line for line in part.splitlines() if line.startswith("| `")]
        assert [row.split("`")[1] for row in rows] == sorted(settings)
        assert {row.count(" | ") for row in rows} == {columns - 1}
