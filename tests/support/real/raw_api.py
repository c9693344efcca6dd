"""Single requests to a real API server; refusals are returned, not raised."""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hearth.model.kinds import Kind

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The response."""

    code: int
    body: Any
    """The parsed JSON; None if the body is not a JSON object."""
    sent: int
    """Size of the request body in bytes."""

    @property
    def is_accepted(self) -> bool:
        """Whether the server accepted the request."""
        return self.code < 300

    @property
    def status(self) -> Mapping[str, Any] | None:
        """The body where it is a `Status`."""
        is_status = isinstance(self.body, dict) and self.body.get("kind") == "Status"
        return self.body if is_status else None


class RawApi:
    """Sends requests with the credentials of the official client."""

    def __init__(self, api_client: Any) -> None:
        self._pool = api_client.rest_client.pool_manager
        self._host = api_client.configuration.host

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = JSON,
        accept: str = JSON,
        user: str = "",
        **query: str,
    ) -> Answer:
        """Send one request. user: the user to impersonate."""
        data = b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type, "Accept": accept} | ({"Impersonate-User": user} if user else {})
        url = f"{self._host}{path}?{urllib.parse.urlencode(query)}"
        answer = self._pool.request(method, url, body=data or None, headers=headers, retries=False)
        return Answer(code=answer.status, body=parse(answer.data), sent=len(data))

    def apply(
        self,
        manifest: Mapping[str, Any],
        *,
        kind: Kind,
        manager: str = "hearth:test/one",
        force: bool = True,
        user: str = "",
        **query: str,
    ) -> Answer:
        """A server-side apply."""
        return self.send(
            "PATCH",
            path_of(manifest, kind=kind),
            body=manifest,
            content_type=APPLY,
            user=user,
            fieldManager=manager,
            force=str(force).lower(),
            **query,
        )

    def create(self, manifest: Mapping[str, Any], *, kind: Kind, **query: str) -> Answer:
        """A strict create."""
        return self.send("POST", collection_of(manifest, kind=kind), body=manifest, fieldValidation="Strict", **query)

    def get(self, manifest: Mapping[str, Any], *, kind: Kind) -> Answer:
        """The live object of a manifest."""
        return self.send("GET", path_of(manifest, kind=kind))


def parse(data: bytes) -> Any:
    """A JSON object, or None."""
    try:
        return json.loads(data)
    except ValueError:
        return None


def collection_of(manifest: Mapping[str, Any], *, kind: Kind) -> str:
    """The path of all objects of a kind in the manifest's namespace."""
    prefix = f"/apis/{kind.group}/{kind.version}" if kind.group else f"/api/{kind.version}"
    namespace = f"/namespaces/{manifest['metadata']['namespace']}" if kind.namespaced else ""
    return f"{prefix}{namespace}/{kind.plural}"


def path_of(manifest: Mapping[str, Any], *, kind: Kind) -> str:
    """The path of a manifest's object."""
    return f"{collection_of(manifest, kind=kind)}/{manifest['metadata']['name']}"
