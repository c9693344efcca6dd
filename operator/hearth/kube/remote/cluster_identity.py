"""Identity of the cluster that answers at an address: the UID of its namespace `kube-system`, which no other cluster has."""

from __future__ import annotations

from hearth.kube.watch.watch_context import WatchConnection
from hearth.model import errors

PATH = "/api/v1/namespaces/kube-system"
MOST = 64
"""Maximum characters of a UID; real ones have 36."""
UNAUTHORIZED, THROTTLED, UNAVAILABLE = 401, 429, 500


async def read(connection: WatchConnection) -> str:
    """Return the UID; "" if the credentials do not permit to read it.

    Raises ApiStatusError or Unreachable if the server cannot answer now.
    """
    try:
        found = await connection.request("GET", PATH)
    except errors.ApiStatusError as refused:
        if refused.code in (UNAUTHORIZED, THROTTLED) or refused.code >= UNAVAILABLE:
            raise
        return ""
    metadata = found.get("metadata")
    uid = metadata.get("uid") if isinstance(metadata, dict) else None
    return uid if isinstance(uid, str) and len(uid) <= MOST else ""
