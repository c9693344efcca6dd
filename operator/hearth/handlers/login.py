"""Our credentials in the words of kopf. Must not know where they come from."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import kopf

if TYPE_CHECKING:
    from hearth.kube.auth.credentials import Credentials

LIFETIME = timedelta(minutes=15)
"""After which kopf asks again, so that rotated tokens are taken up; its streams then go on where they were."""
PEM_BEGIN = b"-----BEGIN "
_counter = itertools.count(1)


def make_connection_info(credentials: Credentials, *, now: datetime | None = None) -> kopf.ConnectionInfo:
    """Make what kopf needs to reach the server. No two are equal, because kopf never uses one again that got a 401."""
    scheme, _, token = (credentials.authorization or "").partition(" ")
    return kopf.ConnectionInfo(
        server=credentials.server,
        ca_data=begin_at_pem(credentials.authority),
        insecure=not credentials.is_verified,
        scheme=scheme or None,
        token=token or None,
        certificate_data=begin_at_pem(credentials.certificate),
        private_key_data=begin_at_pem(credentials.key),
        proxy_url=credentials.proxy,
        expiration=find_expiration(credentials, now=now or datetime.now(UTC)),
    )


def find_expiration(credentials: Credentials, *, now: datetime) -> datetime:
    """Return when kopf asks again: in a quarter of an hour, or sooner if the credentials expire sooner."""
    ends = now + LIFETIME
    if credentials.expires_at is not None:
        ends = min(ends, datetime.fromtimestamp(credentials.expires_at, UTC))
    # The microseconds make it unique even where the end is the same as before.
    return ends + timedelta(microseconds=next(_counter) % 1_000_000)


def begin_at_pem(data: bytes | None) -> bytes | None:
    """`data` from its first certificate or key on: kopf takes what begins with a comment for base64."""
    if data is None:
        return None
    start = data.find(PEM_BEGIN)
    return data[start:] if start >= 0 else data
