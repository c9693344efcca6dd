"""A hostile server of another cluster, and kubeconfigs that lead to it or nowhere, in the fake world.

The server sends well-formed lies: data that no client may trust, and that a tenant who runs a server can send. The
operator's reaction is checked by the tests.
"""

from __future__ import annotations

import base64
import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.ports import fake_remote_clusters
from support.ports.fake_remote_clusters import OtherServer
from support.server.fake_objects import copy
from support.server.request_faults import WRITES, Request

NAME = "evil"
Change: TypeAlias = tuple[Kind, Object | None, Object | None]
Lie: TypeAlias = Callable[["HostileServer", Object], Object]


def change_uid(server: HostileServer, raw: Object) -> Object:
    """Return another UID each time."""
    raw["metadata"]["uid"] = f"lie-{next(server.numbers)}"
    return raw


def age(server: HostileServer, raw: Object) -> Object:
    """A version from the past, or from far away."""
    raw["metadata"]["resourceVersion"] = server.chance.choice(("1", "99999999999999"))
    return raw


def empty(_server: HostileServer, raw: Object) -> Object:
    """Return only the name."""
    return {key: raw[key] for key in ("apiVersion", "kind", "metadata") if key in raw}


def disown(_server: HostileServer, raw: Object) -> Object:
    """Without a record of its field owners."""
    raw["metadata"].pop("managedFields", None)
    return raw


def forge(server: HostileServer, raw: Object) -> Object:
    """Labels and annotations of another Stack's object; the server received its UIDs."""
    metadata = raw["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), names.LABEL_STACK_UID: server.chance.choice(server.stolen)}
    keys = [each for each in metadata.get("annotations") or () if each.startswith(names.GROUP)]
    if keys:
        metadata["annotations"][server.chance.choice(keys)] = server.chance.choice(("", "{", "9" * 4301, "a/b/c"))
    return raw


def bloat(_server: HostileServer, raw: Object) -> Object:
    """Return a very long status."""
    words = "\u202e\x1b]0;" + "x" * 20_000
    raw["status"] = {"phase": words, "conditions": [{"type": "Ready", "status": "False", "message": words}] * 50}
    return raw


def undo(_server: HostileServer, raw: Object) -> Object:
    """Values that no request set."""
    raw["spec" if "spec" in raw else "data"] = {"value": "9"}
    return raw


LIES: Mapping[str, Lie] = {
    "change-uid": change_uid,
    "age": age,
    "empty": empty,
    "disown": disown,
    "forge": forge,
    "bloat": bloat,
    "undo": undo,
}
"""The server's lies about an object, by name."""
REFUSALS = tuple(
    errors.ApiStatusError(code=code, status={"kind": "Status", "reason": reason, "message": message})
    for code, reason, message in (
        (500, "InternalError", "x" * 30_000),
        (409, "Conflict", "\u202e\x1b[2J"),
        (409, "AlreadyExists", "it exists"),
        (410, "Expired", "too old"),
        (422, "Invalid", "spec: Forbidden: immutable"),
        (403, "Forbidden", "no"),
        (404, "NotFound", "not found"),
        (429, "TooManyRequests", "later"),
    )
)
HIDING = "hide"
"""The server accepts each write but never shows it."""
REFUSING = "refuse"
REPEATING = "repeat"
"""The server repeats each event, and the events before it."""
WAYS = (*LIES, HIDING, REFUSING, REPEATING)


@dataclass(slots=True)
class HostileServer:
    """The responses of a world's other cluster; honest as long as `ways` is empty."""

    chance: random.Random
    stolen: tuple[str, ...] = ("none",)
    """UIDs of Stacks of other tenants."""
    ways: tuple[str, ...] = ()
    numbers: Iterator[int] = field(default_factory=itertools.count)
    _seen: list[Change] = field(default_factory=list)

    def bend(self, request: Request, answer: Any) -> Any:
        """Return the response to a request. Raises ApiStatusError."""
        if not self.ways:
            return answer
        way = self.chance.choice(self.ways)
        if way == REFUSING and request.verb in {*WRITES, "get", "dry-run"}:
            raise self.chance.choice(REFUSALS)
        return self._lie(way, answer)

    def bend_events(self, change: Change) -> list[Change]:
        """Return the events that are sent for a change."""
        if not self.ways:
            return [change]
        way = self.chance.choice(self.ways)
        if way == HIDING:
            return []
        kind, before, after = change
        sent = [(kind, before, self._lie(way, after))]
        if way == REPEATING:
            self._seen = [*self._seen[-3:], change]
            sent += [*self._seen, *self._seen]
        return sent

    def _lie(self, way: str, raw: Any) -> Any:
        is_object = isinstance(raw, dict) and "metadata" in raw
        return LIES[way](self, copy(raw)) if way in LIES and is_object else raw


def attach(other: OtherServer, hostile: HostileServer) -> None:
    """Let the hostile server answer for that cluster."""
    other.bend, other.bend_events = hostile.bend, hostile.bend_events


def make_kubeconfigs(namespace: str) -> list[Object]:
    """Contents of the Secret; only the first is correct. The others have other tokens, other servers, or no
    kubeconfig.
    """
    good = fake_remote_clusters.make_secret(NAME, namespace)["data"]["value"]
    whole = json.loads(base64.b64decode(good))

    def change(part: str, **fields: Any) -> str:
        entry = {**whole[part][0], part.removesuffix("s"): fields}
        return json.dumps({**whole, part: [entry]})

    texts = [
        change("users", token="another"),
        change("users", exec={"command": "sh", "apiVersion": "client.authentication.k8s.io/v1"}),
        change("users", **{"client-certificate-data": "LS0t", "client-key-data": "LS0t"}),
        change("clusters", server="https://nowhere.clusters.example:6443"),
        change("clusters", server="https://127.0.0.1:6443"),
        change("clusters", server="http://[::1"),
        "[" * 3000,
        "\u202e",
        json.dumps({**whole, "current-context": "none"}),
    ]
    return [{"value": good}, *({"value": base64.b64encode(text.encode()).decode()} for text in texts), {}]
