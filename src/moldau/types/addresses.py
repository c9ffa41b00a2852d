"""One writing of each network address, so that rules about hosts hold however they or the address are written."""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address


@lru_cache(4096)
def canonical(host: str) -> str:
    """IPv6 in its short form, as IPv4 where it only wraps such an address (a listener on `[::]` sees IPv4 clients so);
    what is no address as it is."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    wrapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(wrapped or address)


def is_address(host: str) -> bool:
    """Whether it is no name, which may stand for several."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
