"""Rules for requests to the page of a team: its addresses, other websites, tokens in headers, and failed sign-ins."""

from __future__ import annotations

import enum
import ipaddress
import re
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from urllib import parse

from hearth.cli.page.access_rules import OWN_SITES, SAFE_METHODS
from hearth.model import errors, limits, value_class

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

LOCAL_HOSTS: Final = frozenset({"localhost", "127.0.0.1", "::1"})
"""Hosts that browsers trust without TLS."""
DEFAULT_PORTS: Final = {"https": 443, "http": 80}
TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""A bearer token (RFC 6750)."""
LOCAL_PATH: Final = re.compile(r"/(?![/\\])[A-Za-z0-9._~/?=&%,+:@-]*")
"""A path on this server, with its query. `//host` and `/\\host` are addresses of other servers."""
LOCAL_PATH_LENGTH: Final = 2_000
HOST: Final = re.compile(r"[a-z0-9._-]+|[0-9a-f:.]+")
"""A host as browsers send it: they write other letters as `xn--`, and do not know wildcards."""
ADDRESS_WITH_PORT: Final = re.compile(r"(\d+(?:\.\d+){3}):\d+|\[([0-9A-Fa-f:.]+)\](?::\d+)?")
"""An address in X-Forwarded-For, as some proxies write it."""
IPV6_NETWORK_BITS: Final = 64
"""Prefix length of an IPv6 address: a single user can choose all bits after it."""


class InvalidUrl(errors.HearthError):
    """The address of the page is not usable; the administrator must set another."""


class BadHeaders(errors.HearthError):
    """The headers contradict each other."""


@value_class.dataclass(frozen=True, slots=True)
class PageAddress:
    """One address under which browsers reach the page."""

    scheme: str
    host: str
    """With the port, if it is not the default one, as in the header Host."""

    @property
    def origin(self) -> str:
        """Return it as in the header Origin."""
        return f"{self.scheme}://{self.host}"


def parse_address(url: str) -> PageAddress:
    """Return the address in a URL. Raises InvalidUrl."""
    try:
        parts = parse.urlsplit(url)
        host, port = (parts.hostname or "").lower(), parts.port
    except ValueError as error:
        raise InvalidUrl(f"{url!r} is no URL: {error}") from error
    if parts.scheme not in DEFAULT_PORTS or not host or parts.path not in ("", "/") or parts.query or parts.fragment:
        raise InvalidUrl(f"{url!r} is not the root of a server; write it as https://hearth.example.com")
    if parts.username is not None or not HOST.fullmatch(host):
        raise InvalidUrl(
            f"{url!r} has no host that browsers send; write other letters than a-z as xn--, and repeat --url instead of a "
            "wildcard"
        )
    if parts.scheme == "http" and host not in LOCAL_HOSTS:
        raise InvalidUrl(f"{url!r} has no TLS: browsers keep the cookie of the page only for https:// and localhost")
    shown = f"[{host}]" if ":" in host else host
    is_default = port in (None, DEFAULT_PORTS[parts.scheme])
    return PageAddress(parts.scheme, shown if is_default else f"{shown}:{port}")


class Verdict(enum.Enum):
    """What to do with a request, before its user is known."""

    ALLOWED = enum.auto()
    RELOAD = enum.auto()
    """A link on another site: browsers omit our cookie, so the page reloads itself."""
    WRONG_HOST = enum.auto()
    FOREIGN = enum.auto()
    """Another site sent it."""


def judge(method: str, headers: CIMultiDictProxy[str], addresses: Sequence[PageAddress]) -> Verdict:
    """Return the verdict on a request."""
    hosts = headers.getall("Host", [])
    address = next((each for each in addresses if [each.host] == [host.lower() for host in hosts]), None)
    if address is None:
        return Verdict.WRONG_HOST
    if headers.get("Sec-Fetch-Site", "") not in OWN_SITES:
        is_link = headers.get("Sec-Fetch-Mode") == "navigate" and headers.get("Sec-Fetch-Dest") == "document"
        return Verdict.RELOAD if method == "GET" and is_link else Verdict.FOREIGN
    # A browser may not know that the proxy in front of the page speaks TLS, so only the host's own origins count.
    origins = [each.origin for each in addresses if each.host == address.host]
    if method not in SAFE_METHODS and (len(headers.getall("Origin", [])) != 1 or headers["Origin"] not in origins):
        return Verdict.FOREIGN
    return Verdict.ALLOWED


def find_header_token(headers: CIMultiDictProxy[str]) -> str | None:
    """Return the bearer token in the header Authorization, None if there is no such header. Raises BadHeaders.

    No other header is read: `X-Forwarded-User` and similar ones can come from anybody.
    """
    found = headers.getall("Authorization", [])
    if not found:
        return None
    if len(found) > 1:
        raise BadHeaders("the request has several Authorization headers")
    scheme, _, token = found[0].partition(" ")
    if scheme.lower() != "bearer":
        raise BadHeaders("the header Authorization has no bearer token")
    return token.strip()


def is_token(text: str) -> bool:
    """Return whether a text can be a bearer token."""
    return len(text) <= limits.PAGE_HEADER_TOKEN_BYTES and TOKEN.fullmatch(text) is not None


def find_local_path(text: str) -> str:
    """Return the path to show after a sign-in: this one if it is on this server, otherwise the root."""
    return text if len(text) <= LOCAL_PATH_LENGTH and LOCAL_PATH.fullmatch(text) else "/"


def find_client(remote: str | None, headers: CIMultiDictProxy[str], *, is_behind_proxy: bool) -> str:
    """Return the address whose failed sign-ins are counted together.

    is_behind_proxy: whether the last address in X-Forwarded-For comes from our proxy.
    """
    text = remote or ""
    if is_behind_proxy and (forwarded := headers.getall("X-Forwarded-For", [])):
        text = forwarded[-1].rpartition(",")[2].strip()
        if match := ADDRESS_WITH_PORT.fullmatch(text):
            text = match[1] or match[2]
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return remote or ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, IPV6_NETWORK_BITS), strict=False))
    return str(address)


class FailedSignIns:
    """Failed sign-ins by address, in bounded memory."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def find_delay(self, client: str, *, now: float) -> float:
        """Return the seconds until this address may try again; 0 if it may now."""
        recent = self._list_recent(client, now=now)
        if len(recent) < limits.PAGE_FAILED_SIGN_INS:
            return 0.0
        return max(0.0, recent[0] + limits.PAGE_FAILED_SIGN_IN_SECONDS - now)

    def add(self, client: str, *, now: float) -> None:
        """Count a failure."""
        recent = [*self._list_recent(client, now=now), now]
        self._failures[client] = recent[-limits.PAGE_FAILED_SIGN_INS :]
        self._failures.move_to_end(client)
        while len(self._failures) > limits.PAGE_ADDRESSES:
            self._failures.popitem(last=False)

    def _list_recent(self, client: str, *, now: float) -> list[float]:
        since = now - limits.PAGE_FAILED_SIGN_IN_SECONDS
        return [at for at in self._failures.get(client, ()) if at > since]
