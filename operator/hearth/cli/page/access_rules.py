"""Access rules of the page: only requests from the browser that opened the printed URL are accepted.

Other programs and users of the machine can connect to loopback, and any website can send requests to it from the user's
browser. Each request therefore needs a secret path, a cookie that is limited to this path, and this server's name in
the `Host` header, which stops DNS rebinding. An action also needs the origin of the page and a token that only the page
contains.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

from hearth.model import value_class

COOKIE: Final = "hearth-page"
TOKEN: Final = "token"  # noqa: S105 -- a name
"""The query parameter of the address that the command prints."""
ACTION_TOKEN: Final = "action_token"  # noqa: S105 -- a name
"""The field of a form."""
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
OWN_SITES: Final = frozenset({"", "none", "same-origin"})
"""Values of Sec-Fetch-Site for addresses that the user typed, and for requests of the page. Older browsers send none."""
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of every response."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Secrets:
    """Random texts of one run."""

    token: str
    """In the address that the command prints."""
    folder: str
    """The first part of every other path."""
    cookie: str
    action_token: str


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class AccessRules:
    """The rules of one server."""

    secrets: Secrets
    port: int

    @property
    def hosts(self) -> frozenset[str]:
        """Return the values of the header Host that name this server."""
        return frozenset({f"127.0.0.1:{self.port}", f"localhost:{self.port}"})

    @property
    def root(self) -> str:
        """Return the path under which all pages are."""
        return f"/{self.secrets.folder}/"

    @property
    def address(self) -> str:
        """Return the address for the user."""
        return f"http://127.0.0.1:{self.port}/?{TOKEN}={self.secrets.token}"

    def make_cookie(self) -> str:
        """Return the header Set-Cookie. The path keeps the cookie from servers on other ports, which share its host."""
        return f"{COOKIE}={self.secrets.cookie}; Path={self.root}; HttpOnly; SameSite=Strict"

    def is_token(self, token: str) -> bool:
        """Return whether the text is the token of the address."""
        return is_same(token, self.secrets.token)

    def find_refusal(self, method: str, path: str, headers: Mapping[str, str], *, cookie: str) -> str:
        """Return why a request to a path under the root is refused, or "" if it is not."""
        if not is_same(path[: len(self.root)], self.root) or not is_same(cookie, self.secrets.cookie):
            return "open the address that `kubectl stack ui` printed: it has the token that this browser lacks"
        if headers.get("Sec-Fetch-Site", "") not in OWN_SITES:
            return "the request comes from another site"
        if method not in SAFE_METHODS and headers.get("Origin") != f"http://{headers.get('Host')}":
            return "an action must come from the page itself"
        return ""


def find_action_refusal(token: str, expected: str) -> str:
    """Return why a form with that token is refused, or "" if it is not."""
    return "" if is_same(token, expected) else "the form lacks the token of this page: reload the page"


def is_same(given: str, expected: str) -> bool:
    """Return whether two texts are equal, in constant time."""
    return hmac.compare_digest(given.encode(errors="replace"), expected.encode())
