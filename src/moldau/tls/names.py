"""Who a certificate speaks of: its subject as Java writes it (RFC 2253), and `ssl.principal.mapping.rules` over it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

#: The attributes that RFC 2253 has names for; Java writes the others as numbers.
_NAMES: Final = {
    "2.5.4.3": "CN", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET", "2.5.4.10": "O",
    "2.5.4.11": "OU", "0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC",
}  # fmt: skip
_SPECIAL = re.compile(r'([,+"\\<>;])')
_RULE = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?)\s*(?:,|$)", re.DOTALL)
_GROUP = re.compile(r"\$(\d)")


class BadRuleError(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class _Mapping:
    pattern: re.Pattern[str]
    replacement: str
    case: str


NameOf = Callable[[str], str | None]
"""Who a distinguished name is; None where no rule fits it."""


def mapping_of(rules: str) -> NameOf:
    """From a distinguished name to a user's name, by the first rule that fits; raises BadRuleError."""
    parsed = _parsed(rules) or (None,)

    def name_of(distinguished: str) -> str | None:
        for rule in parsed:
            if rule is None:
                return distinguished
            match = rule.pattern.fullmatch(distinguished)
            if match is not None:
                return _named(rule, match)
        return None

    return name_of


def _named(rule: _Mapping, match: re.Match[str]) -> str:
    name = _GROUP.sub(lambda group: match[int(group[1])] or "", rule.replacement)
    return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name


def _parsed(rules: str) -> Sequence[_Mapping | None]:
    parsed: list[_Mapping | None] = []
    position = 0
    while position < len(rules):
        match = _RULE.match(rules, position)
        if match is None or match.end() == position:
            raise BadRuleError(
                f"Invalid rule: `{rules[position:].strip()}`, expected DEFAULT or RULE:pattern/replacement/[LU]"
            )
        position = match.end()
        if match[1]:
            parsed.append(None)
            continue
        try:
            pattern = re.compile(match[2].replace("\\/", "/"))
        except re.error as error:
            raise BadRuleError(f"Invalid pattern `{match[2]}`: {error}") from None
        if any(int(number) > pattern.groups for number in _GROUP.findall(match[3])):
            raise BadRuleError(f"`{match[3]}` names a group that `{match[2]}` does not have")
        parsed.append(_Mapping(pattern, match[3], match[4]))
    return parsed


def distinguished_name(certificate: bytes) -> str:
    """The subject of a certificate in DER. Raises ValueError."""
    from cryptography.x509 import InvalidVersion, load_der_x509_certificate

    try:
        subject = load_der_x509_certificate(certificate).subject
    except InvalidVersion as error:
        raise ValueError(str(error)) from error
    return ",".join("+".join(_attribute(each) for each in relative) for relative in reversed(list(subject.rdns)))


def _attribute(attribute: object) -> str:
    oid, value = attribute.oid.dotted_string, attribute.value  # type: ignore[attr-defined]
    name = _NAMES.get(oid)
    if name is not None:
        return f"{name}={_escaped(value)}"
    encoded = value if isinstance(value, bytes) else value.encode()
    tag = 0x16 if oid == "1.2.840.113549.1.9.1" else 0x0C  # e-mail addresses are IA5
    return f"{oid}=#{tag:02x}{_der_length(len(encoded)).hex()}{encoded.hex()}"


def _der_length(length: int) -> bytes:
    """One byte, or behind a byte that says in how many it is written."""
    if length < 0x80:
        return bytes([length])
    size = -(-length.bit_length() // 8)
    return bytes([0x80 | size]) + length.to_bytes(size, "big")


def _escaped(value: str) -> str:
    text = _SPECIAL.sub(r"\\\1", value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    return text[:-1] + "\\ " if text.endswith(" ") and not text.endswith("\\ ") else text
