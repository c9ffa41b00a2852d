"""The reader of .properties files; the expectations are what java.util.Properties makes of the same text."""

from pathlib import Path

import pytest

from moldau.config.properties import PropertiesError, parse, read


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("a=b", {"a": "b"}),
        ("a:b\nc d\ne\n", {"a": "b", "c": "d", "e": ""}),
        ("  a \t = \f b c \n", {"a": "b c "}),
        ("a==b", {"a": "=b"}),
        ("a b=c", {"a": "b=c"}),
        ("# no\n  ! no\na=#yes", {"a": "#yes"}),
        ("a=1\ra=2\r\nb=3", {"a": "2", "b": "3"}),
        ("a=b\\\n   c\\\n# d", {"a": "bc# d"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n\nc=d", {"a": "b", "c": "d"}),
        ("\\\n# still a comment\na=b", {"a": "b"}),
        ("a\\ b\\=c\\:d=e", {"a b=c:d": "e"}),
        (r"a=\t\n\r\f\q\u00e4\\", {"a": "\t\n\r\fq\u00e4\\"}),
        (r"a=\ud83d\ude00", {"a": "\U0001f600"}),
        ("listeners=PLAINTEXT://:9092,INTERNAL://:9093", {"listeners": "PLAINTEXT://:9092,INTERNAL://:9093"}),
        ("a=b\\", {"a": "b"}),
        ("=b", {"": "b"}),
    ],
)
def test_a_text_is_read_as_java_reads_it(text: str, properties: dict[str, str]) -> None:
    assert parse(text) == properties


@pytest.mark.parametrize("text", ["ok=1\n\na=\\u12", "ok=1\n#\na\\uzzzz=1", "\n\na=\\u"])
def test_a_malformed_escape_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(PropertiesError, match=r"line 3: Malformed \\uxxxx encoding"):
        parse(text)


def test_a_file_is_read_as_utf_8_or_as_latin_1(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_bytes("log.dirs=/srv/B\u00fccher".encode())
    assert read(file) == {"log.dirs": "/srv/B\u00fccher"}
    file.write_bytes("log.dirs=/srv/B\u00fccher".encode("latin-1"))
    assert read(file) == {"log.dirs": "/srv/B\u00fccher"}
