"""Values that stand somewhere else are found there, and nothing secret is told when they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.config.providers import ProviderError, resolved

CLASS = "org.apache.kafka.common.config.provider."
ENVIRONMENT = {"KAFKA_SECRET": "from the environment", "HOME": "/root", "A:B": "odd"}


def settings(**more: str) -> dict[str, str]:
    return {
        "config.providers": "file, dir,env",
        "config.providers.file.class": f"{CLASS}FileConfigProvider",
        "config.providers.dir.class": f"{CLASS}DirectoryConfigProvider",
        "config.providers.env.class": f"{CLASS}EnvVarConfigProvider",
    } | {name.replace("_", "."): text for name, text in more.items()}


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    (tmp_path / "secrets.properties").write_text("admin=hush\nempty=\n")
    (tmp_path / "token").write_text("whole file")
    return tmp_path


def test_references_are_replaced_wherever_they_stand(secrets: Path) -> None:
    file = secrets / "secrets.properties"
    found = resolved(
        settings(
            ssl_key_password=f"${{file:{file}:admin}}",
            sasl_jaas_config=f'Login required user_admin="${{file:{file}:admin}}" user_b="${{env:KAFKA_SECRET}}";',
            ssl_keystore_key=f"${{dir:{secrets}:token}}",
            a=f"[${{file:{file}:empty}}]",
            b="${env:A:B}",
            c="${other:x:y} ${HOME} $ {file:x}",
        ),
        ENVIRONMENT,
    )
    assert found == {
        "config.providers": "file, dir,env",
        "ssl.key.password": "hush",
        "sasl.jaas.config": 'Login required user_admin="hush" user_b="from the environment";',
        "ssl.keystore.key": "whole file",
        "a": "[]",
        "b": "odd",
        "c": "${other:x:y} ${HOME} $ {file:x}",
    }


def test_without_providers_nothing_is_looked_up() -> None:
    assert resolved({"a": "${env:HOME}"}, ENVIRONMENT) == {"a": "${env:HOME}"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${file:{folder}/secrets.properties:nobody}", "has no key nobody"),
        ("${file:{folder}/missing:admin}", "No such file"),
        ("${file:{folder}:admin}", "Is a directory"),
        ("${dir:{folder}:missing}", "No such file"),
        ("${dir:{folder}:../token}", "no name of a file"),
        ("${dir:{folder}:..}", "no name of a file"),
        ("${env:NOBODY}", "there is no environment variable NOBODY"),
    ],
)
def test_what_is_not_there_is_an_error_that_names_the_setting(secrets: Path, text: str, said: str) -> None:
    with pytest.raises(ProviderError, match=r"^ssl\.key\.password: ") as error:
        resolved(settings(ssl_key_password=f"hush{text.replace('{folder}', str(secrets))}"), ENVIRONMENT)
    assert said in str(error.value)
    assert "hush" not in str(error.value)


def test_only_what_is_allowed_is_looked_up(secrets: Path) -> None:
    inside = secrets / "inside"
    inside.mkdir()
    (inside / "token").write_text("t")
    (inside / "out").symlink_to(secrets / "secrets.properties")
    limited = settings() | {
        "config.providers.file.param.allowed.paths": str(inside),
        "config.providers.dir.param.allowed.paths": f"/nowhere, {inside}",
        "config.providers.env.param.allowlist.pattern": "KAFKA_.*",
    }
    assert resolved(limited | {"a": f"${{dir:{inside}:token}}"}, ENVIRONMENT)["a"] == "t"
    for text in (
        f"${{file:{secrets}/secrets.properties:admin}}",
        f"${{file:{inside}/../secrets.properties:admin}}",
        f"${{file:{inside}/out:admin}}",
        f"${{file:{inside}x:admin}}",
        f"${{dir:{secrets}:token}}",
        "${env:HOME}",
    ):
        with pytest.raises(ProviderError, match="not allowed"):
            resolved(limited | {"a": text}, ENVIRONMENT)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"config.providers.file.class": "my.Own"}, "my.Own is none of"),
        ({"config.providers": "file,vault"}, "config.providers.vault.class: nothing is none of"),
        ({"config.providers.env.param.allowlist.pattern": "("}, "allowlist.pattern"),
    ],
)
def test_a_provider_that_is_not_known_is_refused(changed: dict[str, str], said: str) -> None:
    with pytest.raises(ProviderError, match=said):
        resolved(settings() | changed, ENVIRONMENT)
