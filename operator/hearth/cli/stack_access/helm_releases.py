"""Reads the release of Helm that is deployed. Must not know what becomes of it."""

from __future__ import annotations

from hearth.cli.importer import helm_release
from hearth.cli.importer.helm_release import HelmRelease
from hearth.cli.stack_access.session import Session
from hearth.kube.well_known_kinds import SECRET
from hearth.model.errors import InvalidDefinition, Mistake


async def get_release(session: Session, namespace: str, name: str) -> HelmRelease:
    """Return the newest deployed revision of a release. Raises ApiStatusError, or InvalidDefinition if there is none."""
    found = await session.list(
        SECRET, namespace, selector=f"owner=helm,name={name}", fields=f"type={helm_release.TYPE}"
    )
    deployed = helm_release.find_deployed(found)
    if deployed is None:
        message = (
            f"there is no deployed revision in namespace {namespace}; list releases with: helm list -n {namespace}"
        )
        raise InvalidDefinition([Mistake(path=f"release {name}", message=message)])
    return helm_release.parse(deployed)
