"""Keys and certificates that stand in the settings themselves (`ssl.keystore.key` and its like), not in files."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from moldau.tls.authority import issue, open_authority
from tests.support.broker import Broker
from tests.support.process import free_port
from tests.support.secured import gets_in, now

BLOCK = re.compile(r"-----BEGIN ([A-Z ]+)-----.*?-----END \1-----\n", re.DOTALL)
PASSWORD = "for the key alone"


def blocks(file: Path, kind: str) -> str:
    return "".join(found[0] for found in BLOCK.finditer(file.read_text()) if found[1].endswith(kind))


def locked(key: str) -> str:
    command = ["openssl", "pkcs8", "-topk8", "-v2", "aes-256-cbc", "-passout", f"pass:{PASSWORD}"]
    return subprocess.run(command, input=key, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("is_locked", [False, True], ids=["open", "with a password"])
@pytest.mark.parametrize("prefix", ["", "listener.name.ssl."], ids=["all", "one listener"])
def test_clients_with_a_certificate_get_in_and_others_do_not(tmp_path: Path, is_locked: bool, prefix: str) -> None:
    authority, port = open_authority(tmp_path, now()), free_port()
    keys, mine = issue(authority, "broker", now(), ("127.0.0.1",)), str(issue(authority, "alice", now()))
    key = blocks(keys, "PRIVATE KEY")
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:{port}",
        f"{prefix}ssl.client.auth": "required",
        f"{prefix}ssl.keystore.type": "PEM",
        f"{prefix}ssl.keystore.key": locked(key) if is_locked else key,
        f"{prefix}ssl.keystore.certificate.chain": blocks(keys, "CERTIFICATE"),
        f"{prefix}ssl.truststore.type": "PEM",
        f"{prefix}ssl.truststore.certificates": blocks(authority.certificate_file, "CERTIFICATE"),
        **({f"{prefix}ssl.key.password": PASSWORD} if is_locked else {}),
    }
    client = {
        "bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SSL", "log_level": 0,
        "ssl.ca.location": str(authority.certificate_file),
    }  # fmt: skip
    (tmp_path / "other").mkdir()
    foreign = str(issue(open_authority(tmp_path / "other", now()), "alice", now()))
    with Broker(tmp_path / "broker", settings) as broker:
        assert gets_in({**client, "ssl.certificate.location": mine, "ssl.key.location": mine})
        assert not gets_in(client)
        assert not gets_in({**client, "ssl.certificate.location": foreign, "ssl.key.location": foreign})
    assert "Traceback" not in broker.output()
