"""Rejects forbidden addresses of API servers that tenants specify, and defines the port that charges their traffic.

Addresses of the operator's own machine and of metadata services are forbidden. Every resolved address is checked,
because a name can resolve to any address, and to another one each time. Traffic of the home cluster is not charged.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    import asyncio

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

METADATA = frozenset(
    map(
        ipaddress.ip_address,
        (
            *("169.254.169.254", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
            *("fd20:ce::254", "fd00:c1::a9fe:a9fe", "fd00:42::42", "fd00:a9fe:a9fe::1", "fd00:100::100:200"),
        ),
    )
)
"""Metadata services of clouds outside the link-local range, and the most common one within it."""
AMAZON = ipaddress.IPv6Network("fd00:ec2::/32")
"""Amazon services on each machine: metadata, and the credentials of Pods (EKS Pod Identity)."""
THIS_NETWORK = ipaddress.IPv4Network("0.0.0.0/8")
"""Addresses that some systems treat as their own. No packet may have one as its destination (RFC 1122)."""
WITH_IPV4_AT_THE_END = tuple(map(ipaddress.IPv6Network, ("64:ff9b::/96", "::/96", "::ffff:0:0:0/96")))
"""IPv6 addresses whose last 32 bits are an IPv4 address: those that gateways translate (RFC 6052), the compatible ones
(RFC 4291), and the translated ones (RFC 2765).
"""
LOCAL_TRANSLATION = ipaddress.IPv6Network("64:ff9b:1::/48")
"""Prefixes of gateways within one network (RFC 8215), of any length that RFC 6052 allows."""
ISATAP = (0x00005EFE, 0x02005EFE)
"""The third 32 bits of addresses of IPv6 within IPv4 (RFC 5214); the IPv4 address follows."""


def deny_address(text: str) -> str:
    """Return why an address is denied, or "". text: as in a URL or an answer of the resolver."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return f"{text!r} is not an address"
    return explain_denial(text) if any(map(is_local, embedded(address))) else ""


def explain_denial(host: str) -> str:
    """Return the message for a denied host."""
    return (
        f"{host} is an address of the operator's own machine or network link, which no Stack may use; use the address "
        f"of the API server in the cluster's network, or ask an administrator to start the operator with "
        f"--allow-loopback-clusters"
    )


def embedded(address: Address) -> Iterator[Address]:
    """Yield the address and the IPv4 addresses that it embeds."""
    yield address
    if not isinstance(address, ipaddress.IPv6Address):
        return
    found = (address.ipv4_mapped, address.sixtofour, *(address.teredo or ()))
    yield from (each for each in found if each is not None)
    bits = int(address)
    if any(address in each for each in WITH_IPV4_AT_THE_END) or bits >> 32 & 0xFFFFFFFF in ISATAP:
        yield ipaddress.IPv4Address(bits & 0xFFFFFFFF)
    if address in LOCAL_TRANSLATION:
        yield from filter(is_reachable, map(ipaddress.IPv4Address, read_translated(address.packed)))


def read_translated(octets: bytes) -> Iterator[bytes]:
    """Yield the IPv4 addresses in an IPv6 address, one for each length that the prefix of a gateway may have.

    Only the gateway knows which one it uses. Source: RFC 6052, section 2.2.
    """
    without_ninth = octets[:8] + octets[9:]
    yield from (without_ninth[length // 8 :][:4] for length in (48, 56, 64))
    yield octets[12:]


def is_reachable(address: ipaddress.IPv4Address) -> bool:
    """Return whether a gateway may connect to the address. If not, the IPv6 address contains a different one."""
    return not (address.is_multicast or address in THIS_NETWORK)


def is_local(address: Address) -> bool:
    """Return whether the address is one of this machine, its link, a group of machines, or a metadata service."""
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or address.is_multicast
        or address == ipaddress.ip_address("255.255.255.255")
        or (address.version == 4 and address in THIS_NETWORK)
        or address in METADATA
        or (address.version == 6 and address in AMAZON)
    )


class Traffic(Protocol):
    """Charges one tenant for the traffic of all its API servers."""

    slots: asyncio.Semaphore
    """Slots for requests in flight."""
    body_bytes: int
    """Maximum size of a decompressed body."""

    def on_connect(self) -> None:
        """Charge a new connection."""

    def on_answer(self, size: int) -> None:
        """Charge an answer. size: bytes of the inflated body."""

    def on_part(self, seconds: float) -> None:
        """Charge the time that parsing a part of a response took."""

    async def resolve(self, host: str, port: int) -> list[str]:
        """Return the addresses of a host, none of them denied. Raises OSError."""


class AddressDenied(OSError):
    """A name that resolves to an address that no Stack may use."""


def check_addresses(host: str, addresses: list[str]) -> None:
    """Raise AddressDenied if one of the addresses is denied: a server has no reason to be there as well."""
    for address in addresses:
        if denial := deny_address(address):
            raise AddressDenied(f"{host}: {denial}" if address != host else denial)
