"""JDBC's URLs as SQLAlchemy's. What a parameter asks for is done, or refused by its name: nobody shall believe in TLS,
or in a schema, that is not there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

DRIVERS: Final = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mariadb+pymysql",
}
WITHOUT_EFFECT: Final = frozenset({
    "adaptivefetch", "allowpublickeyretrieval", "assumeminserverversion", "autoreconnect", "binarytransfer",
    "binarytransferdisable", "binarytransferenable", "cacheprepstmts", "characterencoding=utf-8",
    "characterencoding=utf8", "characterencoding=utf8mb4", "connectiontimezone=utc", "databasemetadatacachefields",
    "databasemetadatacachefieldsmib", "defaultrowfetchsize", "disablecolumnsanitiser", "loggerfile", "loggerlevel",
    "logunclosedconnections", "permitmysqlscheme", "preparedstatementcachequeries", "preparedstatementcachesizemib",
    "preparethreshold", "prepstmtcachesize", "prepstmtcachesqllimit", "requiressl=false", "rewritebatchedinserts",
    "rewritebatchedstatements", "servertimezone=utc", "sockettimeout=0", "sslmode=disabled", "sslmode=preferred",
    "tinyint1isbit=true", "usecursorfetch", "useserverprepstmts", "usessl=false", "useunicode",
    "zerodatetimebehavior=exception",
})  # fmt: skip
"""Of drivers: how fast something is done, or with a value what is done here anyway; in small letters."""
FLAGS: Final = {"": True, "true": True, "false": False}
SERVERS: Final = {
    "any": "any",
    "primary": "primary",
    "master": "primary",
    "secondary": "standby",
    "slave": "standby",
    "prefersecondary": "prefer-standby",
    "preferslave": "prefer-standby",
}
NON_VALIDATING: Final = "org.postgresql.ssl.NonValidatingFactory"
PASSED: Final = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "host": "host",
    "applicationname": "application_name",
    "connecttimeout": "connect_timeout",
    "logintimeout": "connect_timeout",
    "gssencmode": "gssencmode",
    "channelbinding": "channel_binding",
}
"""Of PostgreSQL's driver, and how libpq calls the same."""


def sqlalchemy_url(url: str) -> str:
    """Raises ValueError for what cannot be done."""
    if not url.startswith("jdbc:"):
        return url
    kind, _, place = url.removeprefix("jdbc:").partition(":")
    if kind == "sqlite":
        path, _, query = place.partition("?")
        for name, _ in parse_qsl(query, keep_blank_values=True):
            raise not_known(name)
        return f"sqlite:///{path}"
    if kind not in DRIVERS:
        raise ValueError(f"connection.url: jdbc:{kind}: is not understood here: give SQLAlchemy's URL of the database")
    parts = urlsplit(place if place.startswith("//") else f"///{place}")
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = (unquote(part) for part in login.partition(":"))
    given = dict(parse_qsl(parts.query, keep_blank_values=True))
    user, password = user or given.get("user", ""), password or given.get("password", "")
    rest = {name: value for name, value in given.items() if name not in ("user", "password")}
    asked = asked_of_postgresql(rest) if kind.startswith("postgres") else asked_of_mysql(rest)
    several = hosts.split(",")
    pairs = list(asked.items()) + [("host", host) for host in several if len(several) > 1]
    who = (
        f"{quote(user, safe='')}:{quote(password, safe='')}@"
        if password
        else f"{quote(user, safe='')}@"
        if user
        else ""
    )
    where = hosts if len(several) == 1 else ""
    query = f"?{urlencode(pairs, quote_via=quote)}" if pairs else ""
    return f"{DRIVERS[kind]}://{who}{where}{parts.path}{query}"


def not_known(name: str, value: str | None = None) -> ValueError:
    shown = name if value is None else f"{name}={value}"
    return ValueError(
        f"connection.url: the parameter {shown} is not followed here: take it away, or give SQLAlchemy's URL with what "
        "the database's driver for Python knows"
    )


def is_without_effect(name: str, value: str) -> bool:
    return bool({name.lower(), f"{name}={value}".lower()} & WITHOUT_EFFECT)


def asked_of_mysql(given: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in given.items():
        if name.lower() in ("connecttimeout", "sockettimeout") and value.isdigit() and int(value) > 0:
            seconds = str(-(-int(value) // 1000))
            timeouts = ("connect_timeout",) if name.lower() == "connecttimeout" else ("read_timeout", "write_timeout")
            found |= dict.fromkeys(timeouts, seconds)
        elif not is_without_effect(name, value):
            raise not_known(name, value)
    return found


def asked_of_postgresql(given: Mapping[str, str]) -> dict[str, str]:
    """In libpq's words."""
    found: dict[str, str] = {}
    options: list[str] = []
    for name, value in given.items():
        low = name.lower()
        if low in PASSED:
            found[PASSED[low]] = value
        elif low in OPTIONS:
            options.append(OPTIONS[low](value))
        elif low == "targetservertype" and value.lower() in SERVERS:
            found["target_session_attrs"] = SERVERS[value.lower()]
        elif low == "tcpkeepalive" and value in FLAGS:
            found["keepalives"] = str(int(FLAGS[value]))
        elif not is_without_effect(name, value) and low not in ("ssl", "sslfactory"):
            raise not_known(name, value)
    found |= tls_of({name.lower(): value for name, value in given.items()}, found.get("sslmode"))
    return {**found, **({"options": " ".join(filter(None, options))} if any(options) else {})}


def tls_of(given: Mapping[str, str], mode: str | None) -> dict[str, str]:
    """`ssl=true` checks certificate and name, as the Java driver does."""
    factory, wanted = given.get("sslfactory"), given.get("ssl")
    if factory not in (None, NON_VALIDATING):
        raise not_known("sslfactory", factory)
    if wanted is not None and wanted not in FLAGS:
        raise not_known("ssl", wanted)
    if mode is not None or wanted is None or not FLAGS[wanted]:
        return {}
    return {"sslmode": "require" if factory == NON_VALIDATING else "verify-full"}


def escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace(" ", "\\ ")


OPTIONS: Final[Mapping[str, Callable[[str], str]]] = {
    "options": str,
    "currentschema": lambda value: f"-c search_path={escaped(value)}",
    "readonly": lambda value: "-c default_transaction_read_only=on" if FLAGS.get(value, True) else "",
}
"""What becomes part of libpq's `options`."""
