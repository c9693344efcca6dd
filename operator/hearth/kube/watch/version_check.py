"""Check of a version against the store of a server that was away.

A store that was restored from a backup or built again has lower versions. Its server accepts a watch from a version that
the store has not reached, and sends nothing on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.kube.watch import watch_errors
from hearth.kube.watch.watch_context import METADATA_LIST, WatchContext
from hearth.kube.watch.watch_errors import WatchEndReason
from hearth.model import errors

THROTTLED = 429
UNAVAILABLE = 500


async def verify(server: WatchContext, path: str, *, version: int, selector: Mapping[str, str]) -> None:
    """Raise `WatchInterrupted` if the store behind the server has not reached that version.

    path, selector: of the watch. Raises ApiStatusError or Unreachable if the server cannot answer now.
    """
    # A label selector would make the server search all objects for the first one.
    query = {"limit": "1", **{key: value for key, value in selector.items() if key == "fieldSelector"}}
    try:
        page = await server.connection.request("GET", path, query=query, accept=METADATA_LIST)
    except errors.ApiStatusError as refused:
        if refused.code == THROTTLED or refused.code >= UNAVAILABLE:
            raise
        # A watch needs no right to list, and tells itself what else is wrong.
        return
    reached = read_version(page)
    if reached is not None and reached < version:
        raise watch_errors.interrupt(WatchEndReason.BACKWARDS, f"the server is at version {reached}, after {version}")


def read_version(page: Mapping[str, Any]) -> int | None:
    """Return the version of a list; None if it states none."""
    try:
        return int(page["metadata"]["resourceVersion"])
    except (KeyError, TypeError, ValueError):
        # Some extension API servers have no versions.
        return None
