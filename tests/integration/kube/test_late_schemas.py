"""Schemas on a real API server, which publishes them some time after a definition of kinds changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import pytest

from hearth.kube.client.connection import Connection
from hearth.kube.discovery.discovery import REFRESH_INTERVAL
from hearth.kube.discovery.refresh_timing import SCHEMA_DELAYS
from hearth.kube.workload_cluster import KubeWorkloadCluster
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.real import real_user
from support.real.real_user import RealUser

GROUP: Final = "late.example.org"
POLL: Final = 0.1


class Ears:
    """Counts the changes of kinds."""

    def __init__(self) -> None:
        self.changes = 0

    def on_child(self, stack_uid: str, resource: str) -> None:
        """A child changed."""

    def on_kinds(self) -> None:
        """Kinds changed."""
        self.changes += 1

    def on_synced(self, kind: Kind) -> None:
        """A cache is filled."""

    def on_retry_trigger(self, cause: object) -> None:
        """What a refusal hangs on changed."""


def define(name: str, **fields: str) -> Object:
    """A CustomResourceDefinition of that kind, whose status has these fields and types."""
    status = {"type": "object", "properties": {field: {"type": kind} for field, kind in fields.items()}}
    schema = {"type": "object", "properties": {"status": status}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    plural = f"{name.lower()}s"
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": name, "plural": plural},
            "versions": [version],
        },
    }


def read_status_fields(cluster: KubeWorkloadCluster, name: str) -> Any:
    """The declared fields of the kind's status; None without a schema."""
    kind = cluster.kinds.find(f"{GROUP}/v1", name)
    schema = cluster.kinds.find_schema(kind) if kind is not None else None
    return schema and schema["properties"]["status"].get("properties", {}).keys()


@pytest.fixture
def ears() -> Ears:
    """Hears of kinds."""
    return Ears()


@pytest.fixture
async def cluster(connection: Connection, ears: Ears) -> AsyncIterator[KubeWorkloadCluster]:
    """A cluster whose kinds are known."""
    made = KubeWorkloadCluster(connection, ears)
    await made.open()
    yield made
    await made.close()


@pytest.mark.cluster
async def test_a_changed_definition_is_noticed(
    cluster: KubeWorkloadCluster, ears: Ears, connection: Connection, namespace: str
) -> None:
    """The kinds stay the same, and the schema is published later than the definition changes."""
    user, definition = RealUser(connection, namespace), define("Changed")
    await real_user.install(user, [definition])
    await cluster.refresh_kinds()
    kind = cluster.kinds.find(f"{GROUP}/v1", "Changed")
    assert kind is not None
    await cluster.load_schemas([kind])
    assert read_status_fields(cluster, "Changed") == set()
    # The next look is at once, before the new schema is published.
    await asyncio.sleep(REFRESH_INTERVAL)
    await user.apply(define("Changed", phase="string"))
    before = ears.changes
    await cluster.refresh_changed_kinds()
    async with asyncio.timeout(sum(SCHEMA_DELAYS)):
        while read_status_fields(cluster, "Changed") != {"phase"}:  # noqa: ASYNC110 -- the searches have no event
            await asyncio.sleep(POLL)
    assert ears.changes > before
