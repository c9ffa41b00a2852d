"""A Kerberos server with a realm of its own, in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tests.support.process import die_with_parent, free_port
from tests.support.waiting import wait_until

REALM = "EXAMPLE.COM"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")


def is_expected() -> bool:
    """Whether tests need not do without: the set-up installs it where it may, and who finds none there fails."""
    may_be_installed = os.geteuid() == 0 and shutil.which("apt-get") is not None
    return may_be_installed or find_spec("gssapi") is not None or all(map(shutil.which, PROGRAMS))


@dataclass(frozen=True, slots=True)
class Kdc:
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return os.environ | {
            "KRB5_CONFIG": str(self.folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
        }

    def keytab(self, principal: str) -> Path:
        """The key of a principal, which is made."""
        file = self.folder / f"{principal.replace('/', '-')}.keytab"
        self.run("kadmin.local", "-q", f"addprinc -randkey {principal}@{REALM}")
        self.run("kadmin.local", "-q", f"ktadd -k {file} {principal}@{REALM}")
        return file

    def run(self, *command: str) -> None:
        done = subprocess.run([*command], env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@contextmanager
def running_kdc(folder: Path) -> Iterator[Kdc]:
    port = free_port()
    (folder / "krb5.conf").write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_canonicalize_hostname = false\n"
        f" rdns = false\n udp_preference_limit = 1\n"
        f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{port}\n }}\n"
    )
    (folder / "kdc.conf").write_text(
        f"[realms]\n {REALM} = {{\n  database_name = {folder}/principals\n  key_stash_file = {folder}/stash\n"
        f"  acl_file = {folder}/acl\n  kdc_listen = 127.0.0.1:{port}\n  kdc_tcp_listen = 127.0.0.1:{port}\n }}\n"
    )
    kdc = Kdc(folder)
    kdc.run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
    with (folder / "kdc.log").open("wb") as log:
        process = subprocess.Popen(
            ["krb5kdc", "-n"],
            env=kdc.environment,
            stdout=log,
            stderr=log,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call
        )
    try:
        kdc.keytab("probe")
        probe = ["kinit", "-k", "-t", str(folder / "probe.keytab"), "-c", f"FILE:{folder}/probe.cache", "probe"]
        wait_until(
            lambda: subprocess.run(probe, env=kdc.environment, capture_output=True, check=False).returncode == 0,
            "the Kerberos server gives a ticket",
        )
        yield kdc
    finally:
        process.terminate()
        process.wait(30)
