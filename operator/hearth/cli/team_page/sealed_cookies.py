"""Seals the token of a signed-in user in a cookie, so that the server stores nothing.

All replicas that have the same key file can open the cookie. Only the server can read or change it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from pathlib import Path
from typing import Final

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from hearth.model import errors, limits, value_class

COOKIE: Final = "__Host-hearth-page"
"""Browsers accept this prefix only with `Secure`, for the whole host, and from the host itself."""
ATTRIBUTES: Final = "Path=/; Secure; HttpOnly; SameSite=Strict"
COOKIE_BYTES: Final = 4_096
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 12
PURPOSE: Final = b"hearth.dev/page/cookie/v1"
FORMS_PURPOSE: Final = b"hearth.dev/page/forms/v1"


class UnusableKey(errors.HearthError):
    """The key file cannot be used; the administrator must write another."""


class CookieRefused(errors.HearthError):
    """The cookie does not sign in anybody. The message is for the user."""


@value_class.dataclass(frozen=True, slots=True)
class PageKey:
    """The keys of one installation. Replicas with the same secret accept each other's cookies and forms."""

    secret: bytes

    def seal(self, token: str, *, now: float, seconds: float) -> str:
        """Return the value of the cookie. now: since the epoch; seconds: until the cookie expires."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        content = orjson.dumps({"token": token, "expires": now + seconds})
        sealed = nonce + AESGCM(self._derive(PURPOSE)).encrypt(nonce, content, PURPOSE)
        return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()

    def open(self, value: str, *, now: float) -> str:
        """Return the token in a cookie. Raises CookieRefused."""
        if len(value) > COOKIE_BYTES:
            raise CookieRefused("The cookie is too large. Sign in again.")
        try:
            sealed = base64.urlsafe_b64decode(value.encode("ascii") + b"=" * (-len(value) % 4))
            nonce = sealed[:NONCE_BYTES]
            content = orjson.loads(AESGCM(self._derive(PURPOSE)).decrypt(nonce, sealed[NONCE_BYTES:], PURPOSE))
        except (InvalidTag, ValueError, binascii.Error):
            # Servers without a key file have a new key after each start.
            raise CookieRefused("The server has a new key since you signed in. Sign in again.") from None
        if now >= content["expires"]:
            raise CookieRefused("You have been signed in for as long as this page allows. Sign in again.")
        return str(content["token"])

    def make_action_token(self, token: str) -> str:
        """Return the text that proves that a form comes from a page of this user."""
        return hmac.digest(self._derive(FORMS_PURPOSE), token.encode(), "sha256").hex()

    def _derive(self, purpose: bytes) -> bytes:
        return hmac.digest(self.secret, purpose, "sha256")


def make_key() -> PageKey:
    """Return a random key. It ends with the process, and so do all cookies."""
    return PageKey(secrets.token_bytes(KEY_BYTES))


def read_key(file: Path) -> PageKey:
    """Return the key in a file. Raises UnusableKey."""
    try:
        content = file.read_bytes().strip()
    except OSError as error:
        raise UnusableKey(f"cannot read the key file {file}: {error.strerror}") from error
    if len(content) < KEY_BYTES:
        raise UnusableKey(
            f"the key file {file} has {len(content)} bytes, at least {KEY_BYTES} random ones are needed: "
            f"openssl rand -base64 32 > {file}"
        )
    return PageKey(content)


def make_cookie(value: str, *, seconds: float) -> str:
    """Return the header Set-Cookie of a sealed value."""
    return f"{COOKIE}={value}; Max-Age={int(seconds)}; {ATTRIBUTES}"


REMOVAL: Final = f"{COOKIE}=; Max-Age=0; {ATTRIBUTES}"
"""The header Set-Cookie that removes the cookie."""


def check_size(token: str) -> None:
    """Raise CookieRefused if no cookie can hold the token."""
    if len(token) > limits.PAGE_TOKEN_BYTES:
        raise CookieRefused(
            f"The token has {len(token)} characters, a cookie holds {limits.PAGE_TOKEN_BYTES}. "
            "Use a shorter token, or put an authenticating proxy in front of this page."
        )
