"""Sets the certificate authority and the path in the webhook configurations of this installation.

An administrator installs the configurations; the operator changes nothing else in them.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any
from urllib import parse

import orjson

from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.model import errors, value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind

JSON_PATCH = "application/json-patch+json"
GROUP = "admissionregistration.k8s.io"
KINDS = tuple(
    Kind(
        group=GROUP,
        version="v1",
        name=f"{word}WebhookConfiguration",
        plural=f"{word.lower()}webhookconfigurations",
        namespaced=False,
    )
    for word in ("Validating", "Mutating")
)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class WebhookConfigurations:
    """The two configurations with that name."""

    connection: Connection
    name: str

    async def load(self) -> list[tuple[Kind, Object]]:
        """Return the configurations that are installed."""
        found: list[tuple[Kind, Object]] = []
        for kind in KINDS:
            try:
                raw = await self.connection.request("GET", api_requests.object_path(kind, "", self.name))
            except errors.ApiStatusError as refused:
                if not refused.is_not_found:
                    raise
            else:
                found.append((kind, raw))
        return found

    async def update(self, kind: Kind, raw: Object, *, authorities: bytes, path: str) -> bool:
        """Make every webhook of a configuration trust these authorities, and call this path and its own name.

        Returns whether that was a change.
        """
        changes = list(find_changes(raw, authorities=authorities, path=path))
        if changes:
            where = api_requests.object_path(kind, "", self.name)
            await self.connection.request("PATCH", where, body=orjson.dumps(changes), content_type=JSON_PATCH)
        return bool(changes)


def find_changes(raw: Object, *, authorities: bytes, path: str) -> Iterator[dict[str, Any]]:
    """Return the operations of a JSON patch; nothing if the configuration is as wanted."""
    bundle = base64.b64encode(authorities).decode()
    for index, webhook in enumerate(raw.get("webhooks") or ()):
        config = webhook.get("clientConfig") or {}
        where = f"/webhooks/{index}/clientConfig"
        changes = []
        if bundle and config.get("caBundle") != bundle:
            changes.append({"op": "add", "path": f"{where}/caBundle", "value": bundle})
        own = f"{path}/{webhook['name']}"
        if "service" in config:
            if config["service"].get("path") != own:
                changes.append({"op": "add", "path": f"{where}/service/path", "value": own})
        elif (url := parse.urlsplit(config.get("url", ""))).path != own:
            # Another program may change the host. A change since the read causes a conflict, and the next refresh reads
            # it.
            changes.append({"op": "test", "path": f"{where}/url", "value": config.get("url", "")})
            changes.append({"op": "replace", "path": f"{where}/url", "value": url._replace(path=own).geturl()})
        if changes:
            # Another writer may have changed the order.
            yield {"op": "test", "path": f"/webhooks/{index}/name", "value": webhook["name"]}
            yield from changes


def find_hosts(raw: Object) -> Iterator[str]:
    """Return the names under which a configuration calls the webhook."""
    for webhook in raw.get("webhooks") or ():
        config = webhook.get("clientConfig") or {}
        if "service" in config:
            yield f"{config['service']['name']}.{config['service']['namespace']}.svc"
        elif host := parse.urlsplit(config.get("url", "")).hostname:
            yield host
