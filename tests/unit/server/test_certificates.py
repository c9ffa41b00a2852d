"""Key stores of listeners: what cannot be used is refused before it is stored, by those who may store it."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.config_changes import ResourceChanges, incremental_alter_configs
from moldau.metadata.controller.config_operations import AlterOperation, SettingChange
from moldau.metadata.controller.config_resources import ResourceType
from moldau.server.certificates import certificates_of, check_change
from moldau.types.errors import ErrorCode, KafkaError
from tests.support.metadata import Cluster
from tests.unit.tls.test_stores import DATA

LOCATION, PASSWORD = "listener.name.safe.ssl.keystore.location", "listener.name.safe.ssl.keystore.password"


@pytest.fixture
def config() -> BrokerConfig:
    return BrokerConfig.load(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,SAFE://127.0.0.1:0",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SAFE:SSL",
            LOCATION: str(DATA / "broker.pem"),
        }
    )


def test_what_can_be_used_may_come(config: BrokerConfig) -> None:
    check_change(config, config)
    check_change(config, config.with_dynamic({}, {LOCATION: str(DATA / "encrypted.pem"), PASSWORD: "keypass12"}))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({LOCATION: "/nowhere.pem"}, "listener SAFE: ssl.keystore.location: /nowhere.pem: No such file or directory"),
        (
            {LOCATION: str(DATA / "ca.pem")},
            "listener SAFE: ssl.keystore.location .*ca.pem: there is no PEM private key",
        ),
        ({LOCATION: str(DATA / "broker.p12"), PASSWORD: "wrong"}, "not to be read as PKCS12"),
    ],
)
def test_what_cannot_be_used_is_refused(config: BrokerConfig, settings: dict[str, str], said: str) -> None:
    with pytest.raises(KafkaError, match=said) as refused:
        check_change(config, config.with_dynamic({}, settings))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert "wrong" not in str(refused.value)


def test_who_may_not_change_settings_learns_nothing_of_files(config: BrokerConfig, tmp_path: Path) -> None:
    tried: list[BrokerConfig] = []
    wanted = [
        ResourceChanges(ResourceType.BROKER, name, [SettingChange(LOCATION, AlterOperation.SET, str(tmp_path))])
        for name in ("1", "2")
    ]
    cluster = Cluster({1: None, 2: None})

    def alter(may: bool) -> list[ErrorCode]:
        answers = cluster.decide(
            lambda image: incremental_alter_configs(
                image, wanted, config, validate_only=True, may_alter=lambda *_: may, try_out=tried.append
            )
        )
        return [each.code for each in answers]

    assert alter(may=False) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 2
    assert tried == []
    assert alter(may=True) == [ErrorCode.NONE] * 2
    assert len(tried) == 1  # another broker's files are not ours to read


def test_a_suite_that_is_not_known_is_left_out_with_a_line_in_the_log(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    suites = {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA385"}
    certificates_of(BrokerConfig.load({**config.origins.static, **suites}))
    told = "listener SAFE: ssl.cipher.suites: TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA385 is not known here and left out"
    assert [record.message for record in caplog.records if "suites" in record.message] == [told]


@pytest.mark.parametrize(("mode", "is_told"), [(0o644, True), (0o620, False), (0o602, True), (0o600, False)])
def test_a_key_store_that_everybody_may_read_is_told(
    config: BrokerConfig, tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, is_told: bool
) -> None:
    keys = tmp_path / "keys.pem"
    keys.write_bytes((DATA / "broker.pem").read_bytes())
    keys.chmod(mode)
    certificates_of(BrokerConfig.load({**config.origins.static, LOCATION: str(keys)}))
    told = f"{keys} holds a private key, and everybody on this machine may read or write it: chmod 600 it"
    assert (told in caplog.text) == is_told


def test_rules_for_names_that_cannot_be_read_are_refused(config: BrokerConfig) -> None:
    with pytest.raises(KafkaError, match=r"listener SAFE: .*RULE:nonsense"):
        check_change(
            config, config.with_dynamic({}, {"listener.name.safe.ssl.principal.mapping.rules": "RULE:nonsense"})
        )


def test_a_broker_whose_changed_key_store_is_gone_starts_with_the_one_of_its_properties(
    config: BrokerConfig, caplog: pytest.LogCaptureFixture
) -> None:
    """Else nobody could change it back."""
    assert list(certificates_of(config.with_dynamic({}, {LOCATION: "/nowhere.pem"})).listeners) == ["SAFE"]
    assert "/nowhere.pem: No such file or directory; the listeners begin with the key stores" in caplog.text
    broken = BrokerConfig.load({**config.origins.static, LOCATION: "/nowhere.pem"})
    with pytest.raises(ValueError, match=r"listener SAFE: ssl\.keystore\.location"):
        certificates_of(broken)
