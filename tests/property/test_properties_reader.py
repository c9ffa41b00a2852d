"""The .properties reader: whatever is written comes back, and no text breaks it."""

from hypothesis import given
from hypothesis import strategies as st

from moldau.config.properties import PropertiesError, parse

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NOISE = st.text(st.sampled_from("ab=: \t\f\\\n\r#!u04\u00e4"), max_size=60)
LAYOUT = st.tuples(
    st.sampled_from(["", " ", "\t\f"]),
    st.sampled_from(["=", ":", " ", " = ", "\t:\f"]),
    st.sampled_from(["\n", "\r", "\r\n", "\n\n# comment \\\n", "\n  ! another = one\n"]),
)


def escaped(text: str, *, also: str) -> str:
    plain = "".join(_escaped_character(character, also) for character in text)
    return "\\" + plain if plain.startswith(("#", "!", " ")) else plain


def _escaped_character(character: str, also: str) -> str:
    named = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f", "\\": "\\\\"}
    if character in named:
        return named[character]
    if character in also:
        return "\\" + character
    if ord(character) < 0x20 or 0x7F <= ord(character) < 0x100:
        return f"\\u{ord(character):04x}"
    return character


@given(st.dictionaries(TEXT.filter(bool), TEXT, max_size=6), st.data())
def test_what_is_written_comes_back(properties: dict[str, str], data: st.DataObject) -> None:
    lines = []
    for key, value in properties.items():
        indent, separator, end = data.draw(LAYOUT)
        written = f"{escaped(key, also='=: ')}{separator}{escaped(value, also='=: ')}"
        lines.append(indent + written + end)
    assert parse("".join(lines)) == properties


@given(TEXT.filter(bool), TEXT, st.data())
def test_a_line_can_be_continued_anywhere(key: str, value: str, data: st.DataObject) -> None:
    pieces = [_escaped_character(character, "=: #!") for character in value]
    cut = data.draw(st.integers(0, len(pieces)))
    text = f"{escaped(key, also='=: ')}={''.join(pieces[:cut])}\\\n \t{''.join(pieces[cut:])}"
    assert parse(text) == {key: value}


@given(NOISE)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except PropertiesError:
        assert "\\u" in text


@given(NOISE.filter(lambda text: "\\" not in text))
def test_without_escapes_each_line_stands_for_itself(text: str) -> None:
    merged: dict[str, str] = {}
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        merged |= parse(line)
    assert parse(text) == merged
