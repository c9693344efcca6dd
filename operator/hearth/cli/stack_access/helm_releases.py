"""Reads the deployed revision of a Helm release."""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson

from hearth.cli.importer.manifest_documents import SourceText
from hearth.cli.stack_access.session import Session
from hearth.model import limits, object_fields, packing, value_class
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.model.well_known_kinds import SECRET


async def get_release(session: Session, namespace: str, name: str) -> HelmRelease:
    """Return the newest deployed revision of a release. Raises ApiStatusError, or InvalidDefinition without one."""
    found = await session.list(SECRET, namespace, selector=f"owner=helm,name={name}", fields=f"type={TYPE}")
    deployed = find_deployed(found)
    if deployed is None:
        message = (
            f"there is no deployed revision in namespace {namespace}; list releases with: helm list -n {namespace}"
        )
        raise InvalidDefinition([Mistake(path=f"release {name}", message=message)])
    return parse(deployed)


# Releases of Helm, read from Helm's Secrets: the manifest, and objects outside of it. Source:
# Helm, `pkg/storage/driver/util.go` (base64, gzip, JSON) and `secrets.go` (type and labels).

TYPE: Final = "helm.sh/release.v1"  # the type of the Secrets
DEPLOYED: Final = "deployed"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HelmRelease:
    """One revision of a release."""

    text: SourceText
    """Its manifest, without hooks."""
    hooks: tuple[str, ...]
    """The hooks, which Helm runs at certain times: `job/migrate (pre-upgrade)`."""


def find_deployed(secrets: Iterable[Object]) -> Object | None:
    """Return the Secret of the newest deployed revision, or None."""
    found = {
        find_version(each): each
        for each in secrets
        if each.get("type") == TYPE and object_fields.find(each, "metadata", "labels", "status") == DEPLOYED
    }
    return found[max(found)] if found else None


def find_version(secret: Object) -> int:
    """Return the number of a revision."""
    text = object_fields.find(secret, "metadata", "labels", "version")
    return int(text[:9]) if isinstance(text, str) and text.isascii() and text.isdigit() else 0


def parse(secret: Object) -> HelmRelease:
    """Return the release in a Secret. Raises InvalidDefinition."""
    source = f"secret/{object_fields.find(secret, 'metadata', 'name')}"
    try:
        # Helm encodes the data in Base64, and the API server encodes it again.
        encoded = base64.b64decode(str(object_fields.find(secret, "data", "release")), validate=True)
        content = packing.inflate(base64.b64decode(encoded, validate=True), limit=limits.HELM_RELEASE_BYTES)
        release = orjson.loads(content)
    except (binascii.Error, ValueError, zlib.error) as error:
        message = f"holds no release of Helm: {error}"
        raise InvalidDefinition([Mistake(path=source, message=message)]) from error
    manifest = release.get("manifest") if isinstance(release, dict) else None
    if not isinstance(manifest, str):
        raise InvalidDefinition([Mistake(path=source, message="holds no release of Helm: there is no manifest in it")])
    hooks = tuple(describe_hook(each) for each in object_fields.entries(release, "hooks"))
    return HelmRelease(text=SourceText(source=source, content=manifest), hooks=hooks)


def describe_hook(hook: Mapping[str, Any]) -> str:
    """Return `job/migrate (pre-upgrade)`."""
    events = hook.get("events")
    named = ", ".join(map(str, events)) if isinstance(events, list) else ""
    return f"{str(hook.get('kind')).lower()}/{hook.get('name')}{f' ({named})' if named else ''}"
