"""The receiver of notifications: its URL and key, which are read from files for each attempt, and one request.

Neither the URL nor the text of an error is ever logged, because the URL of a Slack webhook is a secret. The receiver is
not trusted: it can only delay notifications, for a limited time.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import yarl

import hearth
from hearth.kube.client import guarded_connector
from hearth.model import errors, retry_delays, value_class
from hearth.notifications import messages
from hearth.notifications.messages import Message

AGENT = f"hearth/{hearth.__version__}"
TIMEOUT = 10.0
"""Seconds for one attempt, with the connection. Receivers only have to store a notification."""
FILE_BYTES = 256 * 1024
"""Maximum size of each file; a bundle of authorities is the largest."""
PAUSE_DIGITS = 4
RETRYABLE = frozenset({408, 425, 429})
"""Codes below 500 after which another attempt may succeed."""
NO_ANSWER = (aiohttp.ClientError, OSError, TimeoutError, ValueError)
"""ValueError: for input that cannot be sent, for example a malformed URL."""


class NotConfigured(errors.HearthError):
    """Error for files of the receiver that are missing or invalid. Its text never contains their content."""


class Verdict(enum.Enum):
    """Closed set: results of an attempt."""

    SENT = "sent"
    RETRY = "retry"
    REJECTED = "rejected"
    """Another attempt would have the same result."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The result of one attempt."""

    verdict: Verdict
    problem: str = ""
    pause: float | None = None
    """Seconds that the receiver asks to be left alone, limited; None without an answer that asks for another attempt."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What one attempt needs, from the files of the receiver."""

    url: yarl.URL
    key: bytes | None
    context: ssl.SSLContext


class Connector(aiohttp.TCPConnector):
    """A connector with one connection, which is closed if the receiver sends too much."""

    def __init__(self) -> None:
        super().__init__(limit=1, force_close=True)
        self._factory = functools.partial(
            guarded_connector.make_protocol, asyncio.get_running_loop(), lambda _seconds: None
        )


def make_session(seconds: float = TIMEOUT) -> aiohttp.ClientSession:
    """Create the session. It uses the proxy in HTTPS_PROXY and HTTP_PROXY, except for hosts in NO_PROXY."""
    return aiohttp.ClientSession(
        connector=Connector(),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=seconds),
        trust_env=True,
        headers={"User-Agent": AGENT},
    )


async def send(
    session: aiohttp.ClientSession, directory: Path, message: Message, *, is_signed: bool, now: float
) -> Attempt:
    """Send one notification once. Never raises. is_signed: whether a key is required; now: seconds since the epoch."""
    try:
        access = await asyncio.to_thread(read_access, directory, is_signed=is_signed)
        async with session.post(
            access.url,
            data=message.content,
            headers=messages.make_headers(message, key=access.key, now=now),
            ssl=access.context,
            # Only the owner of the installation chooses the receiver.
            allow_redirects=False,
        ) as response:
            # The body is not read. It would be the receiver's, and its code says enough.
            response.close()
            return judge(response.status, response.headers.get("Retry-After", ""))
    except NotConfigured as error:
        return Attempt(verdict=Verdict.RETRY, problem=str(error))
    except NO_ANSWER as error:
        return Attempt(verdict=Verdict.RETRY, problem=f"no answer: {type(error).__name__}")


def judge(code: int, retry_after: str) -> Attempt:
    """Return the result of an attempt by the code of its answer."""
    if 200 <= code < 300:
        return Attempt(verdict=Verdict.SENT)
    if code >= 500 or code in RETRYABLE:
        return Attempt(verdict=Verdict.RETRY, problem=f"HTTP {code}", pause=parse_pause(retry_after))
    note = "; redirects are not followed" if 300 <= code < 400 else ""
    return Attempt(verdict=Verdict.REJECTED, problem=f"HTTP {code}{note}")


def parse_pause(retry_after: str) -> float:
    """Return the limited seconds of a Retry-After header; 0 for a date, and for anything else."""
    if not (retry_after.isascii() and retry_after.isdigit()):
        return 0.0
    seconds = float(retry_after) if len(retry_after) <= PAUSE_DIGITS else retry_delays.LONGEST_OBEYED_PAUSE
    return min(seconds, retry_delays.LONGEST_OBEYED_PAUSE)


def read_access(directory: Path, *, is_signed: bool) -> Access:
    """Read the files `url`, `key` and `ca.crt`. Raises NotConfigured."""
    url, key, authorities = (read_text(directory / name) for name in ("url", "key", "ca.crt"))
    if (parsed := parse_url(url)) is None:
        raise NotConfigured(
            f"{directory / 'url'} must contain the URL of the receiver, e.g. https://hooks.example/hearth"
        )
    if is_signed and not key:
        raise NotConfigured(f"{directory / 'key'} must contain the key of the signatures: see docs/notifications.md")
    try:
        return Access(url=parsed, key=messages.parse_key(key) if key else None, context=make_context(authorities))
    except (ssl.SSLError, TypeError):
        # TypeError: for characters that PEM does not have.
        raise NotConfigured(f"{directory / 'ca.crt'} must contain certificates as PEM") from None
    except ValueError as error:
        raise NotConfigured(f"{directory / 'key'} {error}") from None


def parse_url(text: str) -> yarl.URL | None:
    """Return the URL; None if it is not one of HTTP or HTTPS."""
    try:
        url = yarl.URL(text)
    except ValueError:
        return None
    return url if url.scheme in ("http", "https") and url.host else None


def read_text(file: Path) -> str:
    """Return the text of a file of limited size without surrounding spaces, or "" if it does not exist."""
    try:
        with file.open("rb") as opened:
            raw = opened.read(FILE_BYTES + 1)
        text = raw.decode()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise NotConfigured(f"{file} cannot be read: {type(error).__name__}") from None
    if len(raw) > FILE_BYTES:
        raise NotConfigured(f"{file} has more than {FILE_BYTES} bytes")
    return text.strip()


@functools.lru_cache(maxsize=1)
def make_context(authorities: str) -> ssl.SSLContext:
    """Return the TLS rules. authorities: certificates as PEM; "" for those of the system. Raises ssl.SSLError."""
    arguments: dict[str, Any] = {"cadata": authorities} if authorities else {}
    return ssl.create_default_context(**arguments)
