"""zookeeper-shell: look into ZooKeeper and change what is there.

With a command behind the address it is done and the shell ends; without, commands are read line by line. What is left
out of ZooKeeper's own shell: watches, quotas, `reconfig`. It logs in as the section `Client` of the JAAS file in
KAFKA_OPTS says; TLS is asked for with a file of `zookeeper.ssl.*` settings behind `-zk-tls-config-file`.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

USAGE: Final = "USAGE: zookeeper-shell zookeeper_host:port[/path] [-zk-tls-config-file file] [args...]"
TLS_FILE: Final = "-zk-tls-config-file"
ANSWER_SECONDS: Final = 10.0
ANY_VERSION: Final = -1
PERMISSIONS: Final = ((4, "c"), (8, "d"), (1, "r"), (2, "w"), (16, "a"))
NO_PACKAGE: Final = "zookeeper-shell needs the package kazoo: pip install 'moldau[zookeeper]'"


class ShellError(Exception):
    """What is wrong with a command, or with the node that it names."""


def main(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 1
    address, command = arguments[0], list(arguments[1:])
    try:
        from moldau.cli.zookeeper.client import open_client
    except ImportError:
        print(NO_PACKAGE, file=sys.stderr)
        return 1
    hosts, slash, chroot = address.partition("/")
    print(f"Connecting to {address}")
    try:
        client = open_client(hosts, ANSWER_SECONDS, tls_properties(command))
    except Exception as error:
        print(reason_of(error, hosts), file=sys.stderr)
        return 1
    try:
        shell = Shell(client, slash + chroot if chroot else "")
        if command:
            return shell.run(command)
        read_lines(shell)
        return 0
    finally:
        client.stop()
        client.close()


def tls_properties(command: list[str]) -> dict[str, str]:
    """Those of the file that is named, which is taken out of the command. Raises ShellError."""
    if not command or command[0] != TLS_FILE:
        return {}
    if len(command) < 2:
        raise ShellError(USAGE)
    from moldau.cli.connection import read_properties

    found = read_properties(Path(command[1]))
    del command[:2]
    return found


def reason_of(error: Exception, hosts: str) -> str:
    from kazoo.handlers.threading import KazooTimeoutError

    from moldau.metadata.zookeeper.login import LoginRefusedError

    if isinstance(error, LoginRefusedError):
        return f"ZooKeeper at {hosts}: {error}"
    if isinstance(error, KazooTimeoutError):
        return f"ZooKeeper did not answer within {ANSWER_SECONDS:g} s at {hosts}"
    return str(error) or type(error).__name__


def read_lines(shell: Shell) -> None:
    """Runs what is typed until `quit` or the end."""
    if sys.stdin.isatty():
        print("Welcome to ZooKeeper!")
    while True:
        if sys.stdin.isatty():
            print("zk> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        try:
            words = shlex.split(line)
        except ValueError as error:
            print(error, file=sys.stderr)
            continue
        if words and words[0] in ("quit", "close", "exit"):
            return
        if words:
            shell.run(words)


class Shell:
    def __init__(self, client: Any, chroot: str) -> None:
        self._client = client
        self._chroot = chroot
        self._commands: dict[str, Callable[[list[str]], None]] = {
            "ls": self._ls,
            "get": self._get,
            "stat": self._stat,
            "create": self._create,
            "set": self._set,
            "delete": self._delete,
            "deleteall": self._delete_all,
            "rmr": self._delete_all,
            "sync": self._sync,
            "addauth": self._add_auth,
            "getAcl": self._get_acl,
            "setAcl": self._set_acl,
            "help": self._help,
        }

    def run(self, words: list[str]) -> int:
        from kazoo import exceptions

        name, arguments = words[0], words[1:]
        command = self._commands.get(name)
        try:
            if command is None:
                raise ShellError(f"Command not found: Command not found {name}")
            command(arguments)
            return 0
        except ShellError as error:
            print(error, file=sys.stderr)
        except exceptions.NoNodeError:
            print(f"Node does not exist: {path_in(arguments)}", file=sys.stderr)
        except exceptions.NodeExistsError:
            print(f"Node already exists: {path_in(arguments)}", file=sys.stderr)
        except exceptions.NotEmptyError:
            print(f"Node not empty: {path_in(arguments)}", file=sys.stderr)
        except exceptions.BadVersionError:
            print(f"version No is not valid : {path_in(arguments)}", file=sys.stderr)
        except exceptions.KazooException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1

    def _path(self, given: str) -> str:
        if not given.startswith("/"):
            raise ShellError(f"Path must start with / character: {given}")
        if len(given) > 1 and given.endswith("/"):
            raise ShellError("Path must not end with / character")
        return (self._chroot + given if given != "/" else self._chroot) or "/"

    def _ls(self, arguments: list[str]) -> None:
        flags, values, _ = parsed(arguments, "sRw", usage="ls [-s] [-R] path", most=1)
        path = self._path(values[0])
        if "R" in flags:
            self._print_tree(path)
            return
        children, stat = self._client.get_children(path, include_data=True)
        print("[" + ", ".join(sorted(children)) + "]")
        if "s" in flags:
            print_stat(stat)

    def _print_tree(self, path: str) -> None:
        print(path.removeprefix(self._chroot) or "/")
        for child in sorted(self._client.get_children(path)):
            self._print_tree(f"{path.rstrip('/')}/{child}")

    def _get(self, arguments: list[str]) -> None:
        flags, values, _ = parsed(arguments, "sw", usage="get [-s] path", most=1)
        value, stat = self._client.get(self._path(values[0]))
        print(value.decode(errors="backslashreplace") if value else "null")
        if "s" in flags:
            print_stat(stat)

    def _stat(self, arguments: list[str]) -> None:
        _, values, _ = parsed(arguments, "w", usage="stat path", most=1)
        _, stat = self._client.get(self._path(values[0]))
        print_stat(stat)

    def _create(self, arguments: list[str]) -> None:
        flags, values, _ = parsed(arguments, "sec", usage="create [-s] [-e] path [data]", most=2)
        data = values[1].encode() if len(values) > 1 else b""
        made = self._client.create(self._path(values[0]), data, ephemeral="e" in flags, sequence="s" in flags)
        print(f"Created {made.removeprefix(self._chroot)}")

    def _set(self, arguments: list[str]) -> None:
        flags, values, version = parsed(arguments, "s", usage="set [-s] [-v version] path data", least=2, most=2)
        stat = self._client.set(self._path(values[0]), values[1].encode(), version=version)
        if "s" in flags:
            print_stat(stat)

    def _delete(self, arguments: list[str]) -> None:
        _, values, version = parsed(arguments, "", usage="delete [-v version] path", most=1)
        self._client.delete(self._path(values[0]), version=version)

    def _delete_all(self, arguments: list[str]) -> None:
        _, values, _ = parsed(arguments, "", usage="deleteall path", most=1)
        path = self._path(values[0])
        self._client.get(path)
        self._client.delete(path, recursive=True)

    def _sync(self, arguments: list[str]) -> None:
        _, values, _ = parsed(arguments, "", usage="sync path", most=1)
        self._client.sync(self._path(values[0]))
        print("Sync is OK")

    def _add_auth(self, arguments: list[str]) -> None:
        _, values, _ = parsed(arguments, "", usage="addauth scheme auth", least=2, most=2)
        self._client.add_auth(*values)

    def _get_acl(self, arguments: list[str]) -> None:
        _, values, _ = parsed(arguments, "s", usage="getAcl path", most=1)
        for each in self._client.get_acls(self._path(values[0]))[0]:
            letters = "".join(letter for bit, letter in PERMISSIONS if each.perms & bit)
            print(f"'{each.id.scheme},'{each.id.id}\n: {letters}")

    def _set_acl(self, arguments: list[str]) -> None:
        flags, values, _ = parsed(arguments, "sR", usage="setAcl [-R] path acl", least=2, most=2)
        path, acls = self._path(values[0]), [acl_of(each) for each in values[1].split(",")]
        self._set_acls(path, acls, "R" in flags)

    def _set_acls(self, path: str, acls: list[Any], below: bool) -> None:
        for child in self._client.get_children(path) if below else ():
            self._set_acls(f"{path.rstrip('/')}/{child}", acls, below)
        self._client.set_acls(path, acls)

    def _help(self, arguments: list[str]) -> None:
        print(
            "ls [-s] [-R] path\nget [-s] path\nstat path\ncreate [-s] [-e] path [data]\n"
            "set [-s] [-v version] path data\ndelete [-v version] path\ndeleteall path\nsync path\n"
            "addauth scheme auth\ngetAcl path\nsetAcl [-R] path acl\nquit"
        )


def parsed(
    arguments: list[str], flags: str, *, usage: str, least: int = 1, most: int
) -> tuple[set[str], list[str], int]:
    """Flags, values and the version behind `-v`. Raises ShellError."""
    found: set[str] = set()
    values: list[str] = []
    version = ANY_VERSION
    left = list(arguments)
    while left:
        word = left.pop(0)
        if word == "-v" and left and left[0].lstrip("-").isdigit():
            version = int(left.pop(0))
        elif word.startswith("-") and len(word) == 2 and word[1] in flags:
            found.add(word[1])
        elif word.startswith("-") and not values:
            raise ShellError(f"Unrecognized option: {word}\n{usage}")
        else:
            values.append(word)
    if not least <= len(values) <= most:
        raise ShellError(usage)
    return found, values, version


def acl_of(text: str) -> Any:
    """`scheme:id:permissions`, the id empty for `auth` and perhaps with colons of its own. Raises ShellError."""
    from kazoo.security import ACL, Id

    scheme, _, rest = text.partition(":")
    identity, colon, letters = rest.rpartition(":")
    bits = {letter: bit for bit, letter in PERMISSIONS}
    if not scheme or not colon or not letters or any(letter not in bits for letter in letters):
        raise ShellError(f"{text} does not have the form scheme:id:perm")
    return ACL(sum(bits[letter] for letter in letters), Id(scheme, identity))


def path_in(arguments: list[str]) -> str:
    return next((word for word in arguments if word.startswith("/")), "")


def print_stat(stat: Any) -> None:
    for name, value in (
        ("cZxid", f"{stat.czxid:#x}"),
        ("ctime", moment(stat.ctime)),
        ("mZxid", f"{stat.mzxid:#x}"),
        ("mtime", moment(stat.mtime)),
        ("pZxid", f"{stat.pzxid:#x}"),
        ("cversion", stat.cversion),
        ("dataVersion", stat.version),
        ("aclVersion", stat.aversion),
        ("ephemeralOwner", f"{stat.ephemeralOwner & 0xFFFFFFFFFFFFFFFF:#x}"),
        ("dataLength", stat.dataLength),
        ("numChildren", stat.numChildren),
    ):
        print(f"{name} = {value}")


def moment(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
