"""Parsing, checking and printing single values."""

import pytest

from moldau.config.definition import ConfigError, ConfigType, Setting, Update, Value, text_of


def setting(kind: ConfigType, rule: str = "", default: str | None = None) -> Setting:
    return Setting("x", kind, default, rule, Update.READ_ONLY, internal=False, honoured=True, doc="")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        (ConfigType.INT, "+5", 5),
        (ConfigType.INT, " 5\t", 5),
        (ConfigType.INT, "-2147483648", -(2**31)),
        (ConfigType.INT, "\u0661", 1),
        (ConfigType.INT, "000000000000000000000000007", 7),
        (ConfigType.LONG, "9223372036854775807", 2**63 - 1),
        (ConfigType.SHORT, "32767", 32767),
        (ConfigType.DOUBLE, "1e3", 1000.0),
        (ConfigType.DOUBLE, "1.5f", 1.5),
        (ConfigType.DOUBLE, " .5 ", 0.5),
        (ConfigType.DOUBLE, "1.", 1.0),
        (ConfigType.DOUBLE, "0x1p3", 8.0),
        (ConfigType.DOUBLE, "-0x1p99999", float("-inf")),
        (ConfigType.DOUBLE, "1e400", float("inf")),
        (ConfigType.BOOLEAN, " TRUE ", True),
        (ConfigType.BOOLEAN, "False", False),
        (ConfigType.STRING, "  a b ", "a b"),
        (ConfigType.LIST, "", ()),
        (ConfigType.LIST, " a , b\n,c", ("a", "b", "c")),
        (ConfigType.LIST, "a,,b,", ("a", "", "b", "")),
        (ConfigType.CLASS, "org.example.Thing", "org.example.Thing"),
        (ConfigType.PASSWORD, "secret", "secret"),
    ],
)
def test_a_text_is_parsed_as_java_parses_it(kind: ConfigType, text: str, value: Value) -> None:
    assert setting(kind).parse(text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (ConfigType.INT, "x"),
        (ConfigType.INT, ""),
        (ConfigType.INT, "5_0"),
        (ConfigType.INT, "0x10"),
        (ConfigType.INT, "1e3"),
        (ConfigType.INT, "2147483648"),
        (ConfigType.INT, "9" * 10_000),
        (ConfigType.SHORT, "32768"),
        (ConfigType.LONG, "9223372036854775808"),
        (ConfigType.DOUBLE, "5_0"),
        (ConfigType.DOUBLE, "0x10"),
        (ConfigType.DOUBLE, "inf"),
        (ConfigType.DOUBLE, "\u0661"),
    ],
)
def test_what_is_no_number_is_refused_with_its_type(kind: ConfigType, text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        setting(kind).parse(text)
    assert str(refused.value) == f"Invalid value {text} for configuration x: Not a number of type {kind.name}"
    assert (refused.value.key, refused.value.value) == ("x", text)


@pytest.mark.parametrize(
    ("kind", "rule", "text", "message"),
    [
        (ConfigType.INT, "range 1", "0", "Invalid value 0 for configuration x: Value must be at least 1"),
        (ConfigType.INT, "range 1 17", "18", "Invalid value 18 for configuration x: Value must be no more than 17"),
        (
            ConfigType.DOUBLE,
            "range 0 0.5",
            "2",
            "Invalid value 2.0 for configuration x: Value must be no more than 0.5",
        ),
        (ConfigType.INT, "range 1", None, "Invalid value null for configuration x: Value must be non-null"),
        (ConfigType.STRING, "one-of a b", "A", "Invalid value A for configuration x: String must be one of: a, b"),
        (
            ConfigType.STRING,
            "one-of-ignoring-case a b",
            "c",
            "Invalid value c for configuration x: String must be one of (case insensitive): a, b",
        ),
        (ConfigType.STRING, "non-empty", " ", "Invalid value  for configuration x: String must be non-empty"),
        (ConfigType.STRING, "non-null", None, "Invalid value null for configuration x: entry must be non null"),
        (ConfigType.LIST, "list", "", "Configuration 'x' must not be empty. Valid values include: any non-empty value"),
        (ConfigType.LIST, "list a b", "", "Configuration 'x' must not be empty. Valid values include: [a, b]"),
        (ConfigType.LIST, "list-or-empty", "a,", "Configuration 'x' values must not be empty."),
        (ConfigType.LIST, "list-or-empty", None, "Configuration 'x' values must not be null."),
        (ConfigType.LIST, "list a", "a,b", "Invalid value b for configuration x: String must be one of: a"),
    ],
)
def test_a_rule_refuses_in_kafkas_words(kind: ConfigType, rule: str, text: str | None, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        setting(kind, rule).parse(text)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("kind", "rule", "text", "value"),
    [
        (ConfigType.INT, "gzip-level", "-1", -1),
        (ConfigType.INT, "gzip-level", "9", 9),
        (ConfigType.DOUBLE, "range 0 1", "1", 1.0),
        (ConfigType.STRING, "one-of-ignoring-case A", "a", "a"),
        (ConfigType.STRING, "non-empty", None, None),
        (ConfigType.LIST, "list-or-empty", "", ()),
        (ConfigType.LIST, "list-or-null", None, None),
        (ConfigType.LIST, "list a b", "a,b,a", ("a", "b")),
        (ConfigType.LIST, "throttled-replicas", "*", ("*",)),
        (ConfigType.LIST, "throttled-replicas", "1:2,0:1", ("1:2", "0:1")),
        (ConfigType.STRING, "share-offset-reset", "by_duration:P1DT2H3M4.5S", "by_duration:P1DT2H3M4.5S"),
    ],
)
def test_a_rule_accepts(kind: ConfigType, rule: str, text: str | None, value: Value) -> None:
    assert setting(kind, rule).parse(text) == value


@pytest.mark.parametrize("text", ["by_duration:P", "by_duration:PT", "by_duration:1D", "by_duration:", "Latest"])
def test_a_share_groups_offset_reset_is_a_word_or_a_duration(text: str) -> None:
    with pytest.raises(ConfigError, match=r"by_duration:<PnDTnHnMn\.nS>"):
        setting(ConfigType.STRING, "share-offset-reset").parse(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (5, "5"),
        (("a", "b"), "a,b"),
        ((), ""),
        (0.5, "0.5"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (0.001, "0.001"),
        (0.0009, "9.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (-0.0, "-0.0"),
        (-0.25, "-0.25"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
    ],
)
def test_a_value_is_printed_as_java_prints_it(value: Value, text: str | None) -> None:
    assert text_of(value) == text
