"""Parsing the API server's list of kinds, and when it is requested."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hearth.kube.discovery.discovery import Discovery
from hearth.model import errors
from hearth.model.kinds import Kind
from support.units.scripted_api.scripted_connection import ScriptedConnection
from support.virtual_time import in_virtual_time

USABLE = ["create", "delete", "get", "list", "patch", "watch"]


def resource(kind: str, plural: str, **more: Any) -> dict[str, Any]:
    """A usable kind as discovery shows it."""
    shown = {"group": "", "version": "", "kind": kind}
    return {"resource": plural, "responseKind": shown, "scope": "Namespaced", "verbs": USABLE, **more}


def group(name: str, version: str, *resources: dict[str, Any], freshness: str = "Current") -> dict[str, Any]:
    entry = {"version": version, "resources": list(resources), "freshness": freshness}
    return {"metadata": {"name": name} if name else {}, "versions": [entry]}


def listing(*groups: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": list(groups)}


CORE = listing(group("", "v1", resource("ConfigMap", "configmaps")))
WIDGETS = group("a.test", "v1", resource("Widget", "widgets", scope="Cluster"))


def make(*answers: Any) -> tuple[Discovery, ScriptedConnection, list[int]]:
    """A discovery with scripted responses to `/apis`; the list counts the reported changes."""
    connection = ScriptedConnection({"GET /api": CORE, "GET /apis": list(answers)})
    changes: list[int] = []
    discovery = Discovery(connection, on_change=lambda: changes.append(discovery.generation))  # type: ignore[arg-type]  # the same methods
    return discovery, connection, changes


@in_virtual_time
async def test_kinds_are_found_by_api_version_and_kind() -> None:
    discovery, connection, _ = make(listing(WIDGETS))
    assert discovery.find("v1", "ConfigMap") is None
    await discovery.refresh()
    config_map = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
    widget = Kind(group="a.test", version="v1", name="Widget", plural="widgets", namespaced=False)
    assert discovery.find("v1", "ConfigMap") == config_map
    assert discovery.find("a.test/v1", "Widget") == widget
    assert discovery.find("a.test/v2", "Widget") is None
    assert set(discovery.all()) == {config_map, widget}
    assert sorted(connection.asked) == ["GET /api", "GET /apis"]


@pytest.mark.parametrize(
    "unusable",
    [
        pytest.param(resource("Review", "reviews", verbs=["create"]), id="cannot be listed"),
        pytest.param(resource("Metric", "metrics", verbs=["get", "list"]), id="cannot be watched or written"),
        pytest.param(resource("Log", "logs", verbs=["get", "list", "patch", "watch"]), id="cannot be deleted"),
        pytest.param({"resource": "odd", "responseKind": None, "verbs": USABLE}, id="of no known kind"),
    ],
)
@in_virtual_time
async def test_kinds_that_cannot_be_children_are_not_known(unusable: dict[str, Any]) -> None:
    discovery, _, _ = make(listing(group("a.test", "v1", unusable)))
    await discovery.refresh()
    assert [kind.name for kind in discovery.all()] == ["ConfigMap"]


@in_virtual_time
async def test_the_generation_rises_only_with_a_change() -> None:
    discovery, _, changes = make(listing(), listing(), listing(WIDGETS), listing(WIDGETS), listing())
    generations = []
    for _ in range(5):
        await discovery.refresh()
        generations.append(discovery.generation)
    assert generations == [1, 1, 2, 2, 3]
    assert changes == [1, 2, 3]


@in_virtual_time
async def test_a_group_whose_server_is_down_keeps_its_kinds() -> None:
    more = group("b.test", "v1", resource("Gadget", "gadgets"))
    discovery, _, changes = make(
        listing(WIDGETS), listing(group("a.test", "v1", freshness="Stale"), more), listing(more)
    )
    await discovery.refresh()
    await discovery.refresh()
    assert discovery.find("a.test/v1", "Widget") is not None
    assert discovery.find("b.test/v1", "Gadget") is not None
    await discovery.refresh()
    assert discovery.find("a.test/v1", "Widget") is None
    assert len(changes) == 3


@in_virtual_time
async def test_a_stale_group_that_still_lists_its_kinds_is_believed() -> None:
    discovery, _, _ = make(listing({**WIDGETS, "versions": [{**WIDGETS["versions"][0], "freshness": "Stale"}]}))
    await discovery.refresh()
    assert discovery.find("a.test/v1", "Widget") is not None


@in_virtual_time
async def test_many_misses_at_once_are_one_question() -> None:
    discovery, connection, _ = make(listing())
    await asyncio.gather(*(discovery.refresh() for _ in range(50)))
    await discovery.refresh()
    assert [sent.at for sent in connection.sent] == [0.0, 0.0, 1.0, 1.0]


@in_virtual_time
async def test_a_failed_question_leaves_everything_as_it_was() -> None:
    discovery, _, changes = make(listing(WIDGETS), errors.Unreachable("down"))
    await discovery.refresh()
    with pytest.raises(errors.Unreachable, match="down"):
        await discovery.refresh()
    assert discovery.find("a.test/v1", "Widget") is not None
    assert changes == [1]


@in_virtual_time
async def test_a_server_without_aggregated_discovery_is_named() -> None:
    discovery, _, _ = make({"kind": "APIGroupList"})
    with pytest.raises(errors.Unreachable, match=r"APIGroupList.*1\.26"):
        await discovery.refresh()


@pytest.mark.parametrize(
    "malformed",
    [
        pytest.param(3, id="a group that is a number"),
        pytest.param({"metadata": 3, "versions": 3}, id="versions that are a number"),
        pytest.param({"metadata": {"name": "b.test"}, "versions": [{}]}, id="a version without a name"),
        pytest.param(group("b.test", "v1", 3), id="a kind that is a number"),  # type: ignore[arg-type]  # as a broken server answers
        pytest.param(group("b.test", "v1", resource("Odd", "odds", verbs=3)), id="verbs that are a number"),
        pytest.param(group("b.test", "v1", resource("Odd", "odds/../secrets")), id="a plural that leads elsewhere"),
        pytest.param(group("b.test/../..", "v1", resource("Odd", "odds")), id="a group that leads elsewhere"),
        pytest.param(group("b.test", "v1?x=", resource("Odd", "odds")), id="a version that is a query"),
        pytest.param(group("b.test", "v1", resource(["Odd"], "odds")), id="a kind that is a list"),  # type: ignore[arg-type]  # as a broken server answers
    ],
)
@in_virtual_time
async def test_a_group_that_cannot_be_read_leaves_the_others(malformed: Any) -> None:
    discovery, _, _ = make(listing(malformed, WIDGETS))
    await discovery.refresh()
    assert {kind.name for kind in discovery.all()} == {"ConfigMap", "Widget"}


def describe(kind: str) -> dict[str, Any]:
    """The OpenAPI document of a group with that kind."""
    named = {"group": "a.test", "version": "v1", "kind": kind}
    return {"components": {"schemas": {kind: {"type": "object", "x-kubernetes-group-version-kind": [named]}}}}


@in_virtual_time
async def test_only_kinds_that_come_later_are_waited_for() -> None:
    gadgets = group("a.test", "v1", resource("Widget", "widgets", scope="Cluster"), resource("Gadget", "gadgets"))
    _, connection, changes = make(listing(WIDGETS), listing(gadgets))
    discovery = Discovery(connection, on_change=lambda: changes.append(discovery.generation))  # type: ignore[arg-type]  # the same methods
    schemas, clock = discovery.schemas, asyncio.get_running_loop().time
    entry = {"paths": {"apis/a.test/v1": {"serverRelativeURL": "?hash=1"}}}
    connection.script |= {
        "GET /openapi/v3": [{"paths": {}}, {"paths": {}}, {"paths": {}}, entry],
        "GET /openapi/v3/apis/a.test/v1": describe("Gadget"),
    }
    await discovery.refresh()
    begin, (widget,) = clock(), [kind for kind in discovery.all() if kind.name == "Widget"]
    await schemas.load([widget])
    assert (clock() - begin, discovery.find_schema(widget)) == (0.0, None)
    await discovery.refresh()
    gadget = discovery.find("a.test/v1", "Gadget")
    assert gadget is not None
    await schemas.load([gadget])
    assert discovery.find_schema(gadget) is not None
    # Other users of this group do not know the change yet.
    before = len(changes)
    await discovery.refresh_schemas()
    await discovery.refresh_schemas()
    assert len(changes) == before + 1
