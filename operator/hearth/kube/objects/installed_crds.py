"""Checks at the start that the API server fits this program: its version, and the fields of the installed definitions.

Under an older CustomResourceDefinition, the API server silently drops unknown fields, for example the operator's
signature in a status. The check compares schemas, because an installer may drop or invent a version.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import structlog

from hearth.kube.auth.credentials import CredentialSource
from hearth.kube.client import api_requests
from hearth.kube.client.api_requests import ApiClient
from hearth.kube.client.connection import Connection
from hearth.model import errors, names
from hearth.model.child import Object
from hearth.model.text import enumeration
from hearth.model.well_known_kinds import CUSTOM_RESOURCE_DEFINITION

log = structlog.get_logger(__name__)

COMMAND = "hearth crds | kubectl apply --server-side --force-conflicts -f -"
"""With --force-conflicts, because other field managers, for example Helm, may own the fields of older definitions."""
NAMED = 3
"""Maximum number of missing fields per definition in the message."""
WITHIN = 5.0
"""Seconds for the check at the start. A server that hangs must not delay the probe endpoints."""

VERSION_PATH = "/version"
"""Every authenticated client may read this path by default."""
OLDEST_SERVER = (1, 30)
"""Oldest supported Kubernetes, which serves ValidatingAdmissionPolicies; docs/support.md and the chart agree."""

OUTLINES = "crd_outlines.json"
"""The structure of our definitions, written by `make crds`."""


def load_own() -> list[Object]:
    """Return the definitions of this program: names, subresources, and the fields of their schemas."""
    own: list[Object] = json.loads(Path(__file__).with_name(OUTLINES).read_text())
    return own


class OutdatedCrds(errors.HearthError):
    """Error for CustomResourceDefinitions that an administrator must update first."""


async def check_source(source: CredentialSource) -> None:
    """Raise OutdatedCrds if the server answers, and has older definitions. Log a warning if the server itself is too old."""
    try:
        async with asyncio.timeout(WITHIN), Connection(source) as connection:
            if old := await find_old_version(connection):
                said = "the API server is older than this operator supports; upgrade Kubernetes"
                log.warning(said, version=old, minimum=".".join(map(str, OLDEST_SERVER)))
            absent = await check(ApiClient(connection, None))
    except (errors.Unreachable, TimeoutError) as error:
        log.info("cannot read the CustomResourceDefinitions yet; they are checked later", reason=str(error))
        return
    if absent:
        listed = enumeration.enumerate_names(absent, most=NAMED)
        said = "the CustomResourceDefinitions are not installed; the operator waits for them"
        log.warning(said, missing=listed, command=COMMAND)


async def find_old_version(connection: Connection) -> str:
    """Return the version of an API server that is too old; "" for another one, and if the server does not tell it.

    Raises Unreachable.
    """
    try:
        answer = await connection.request("GET", VERSION_PATH)
    except errors.ApiStatusError as error:
        log.debug("cannot read the version of the API server", reason=str(error))
        return ""
    found = re.match(r"v(\d{1,4})\.(\d{1,4})\b", str(answer.get("gitVersion")))
    return found[0] if found is not None and (int(found[1]), int(found[2])) < OLDEST_SERVER else ""


async def check(client: ApiClient) -> list[str]:
    """Return the definitions that are not installed.

    Definitions that the operator cannot read are not checked. Raises OutdatedCrds if one is older than this program,
    and Unreachable.
    """
    found, absent = [], []
    for wanted in load_own():
        name = wanted["metadata"]["name"]
        try:
            installed = await client.send(
                "get", CUSTOM_RESOURCE_DEFINITION, api_requests.object_path(CUSTOM_RESOURCE_DEFINITION, "", name)
            )
        except errors.ApiStatusError as error:
            absent += [name] if error.is_not_found else []
            log.debug("cannot read a CustomResourceDefinition", name=name, reason=str(error))
            continue
        if missing := list(find_missing(wanted, installed)):
            found.append(f"{name} lacks {enumeration.enumerate_names(missing, most=NAMED)}")
    if found:
        raise OutdatedCrds(
            f"the CustomResourceDefinitions are older than this operator: {'; '.join(found)}. "
            f"Update them: {COMMAND}, then start the operator again"
        )
    return absent


def find_missing(wanted: Object, installed: Object) -> Iterator[str]:
    """Find the fields, and subresources, that the installed definition lacks."""
    version = find_version(installed)
    if version is None:
        yield f"version {names.VERSION}"
        return
    ours: Object = wanted["spec"]["versions"][0]
    theirs = version.get("subresources")
    for subresource in ours["subresources"]:
        if not isinstance(theirs, Mapping) or subresource not in theirs:
            yield f"the subresource {subresource}"
    schema = version.get("schema")
    root = schema.get("openAPIV3Schema") if isinstance(schema, Mapping) else None
    yield from find_missing_fields(ours["schema"]["openAPIV3Schema"], root, path="")


def find_version(installed: Object) -> Mapping[str, Any] | None:
    """Return this program's version from an installed definition, if it is served."""
    spec = installed.get("spec")
    versions = spec.get("versions") if isinstance(spec, Mapping) else None
    for version in versions if isinstance(versions, list) else ():
        if isinstance(version, Mapping) and version.get("name") == names.VERSION and version.get("served") is True:
            return version
    return None


def find_missing_fields(wanted: Mapping[str, Any], found: Any, *, path: str) -> Iterator[str]:
    """Find the fields below a node that the installed schema would drop. The recursion is as deep as this program's
    schema.
    """
    theirs: Mapping[str, Any] = found if isinstance(found, Mapping) else {}
    if theirs.get("x-kubernetes-preserve-unknown-fields") is True:
        return
    if wanted.get("x-kubernetes-preserve-unknown-fields") is True:
        yield path
        return
    fields = theirs.get("properties")
    for name, node in wanted.get("properties", {}).items():
        at = f"{path}.{name}" if path else name
        if isinstance(fields, Mapping) and name in fields:
            yield from find_missing_fields(node, fields[name], path=at)
        else:
            yield at
    for word in ("items", "additionalProperties"):
        if isinstance(wanted.get(word), Mapping):
            yield from find_missing_fields(wanted[word], theirs.get(word), path=f"{path}[]")
