from __future__ import annotations

import pytest

from moldau.config.jaas import JaasError, parse_module, parse_sections

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_module_has_options_in_quotes_of_either_kind_or_none() -> None:
    module = parse_module(
        f"""{PLAIN} required username="ad\\"min" password='p;{{}}=' user_alice=plain user_bob="b" ;"""
    )
    assert module.name == PLAIN
    assert dict(module.options) == {"username": 'ad"min', "password": "p;{}=", "user_alice": "plain", "user_bob": "b"}
    assert module.users == {"alice": "plain", "bob": "b"}


def test_a_file_has_sections_and_comments() -> None:
    sections = parse_sections(
        f"""
        // the broker
        KafkaServer {{
            {PLAIN} required user_admin="admin"; /* and */
            org.apache.kafka.common.security.scram.ScramLoginModule required
                username="kafka" password="secret";
        }};
        # somebody else's
        client.KafkaServer {{ {PLAIN} required user_x="y"; }};
        """
    )
    assert [module.name.rpartition(".")[2] for module in sections["KafkaServer"]] == [
        "PlainLoginModule",
        "ScramLoginModule",
    ]
    assert sections["client.KafkaServer"][0].users == {"x": "y"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "found 0"),
        (f"{PLAIN} required a=b; {PLAIN} required;", "found 2"),
        (f"{PLAIN} needed a=b;", "expected one of required"),
        (f"{PLAIN} required a=b", "no ';'"),
        (f"{PLAIN} required a;", "expected '='"),
        (f"{PLAIN} required a=;", "has no value"),
        (f'{PLAIN} required password="secret;', "has no end"),
    ],
)
def test_what_cannot_be_read_is_refused_without_showing_it(text: str, reason: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_module(text)
    assert reason in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("text", ["KafkaServer", "KafkaServer {", f"A {{ {PLAIN} required; }}; A {{ }};"])
def test_a_broken_file_is_refused(text: str) -> None:
    with pytest.raises(JaasError):
        parse_sections(text)


def test_passwords_are_not_in_the_text_of_a_module() -> None:
    assert "secret" not in repr(parse_module(f'{PLAIN} required password="secret";'))
