"""A resource on the page: the fields its Stack sets next to the live object, and its Pods."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.page import shown_resource
from hearth.cli.page.shown_resource import ShownField
from hearth.cli.stack_views.causes import explanation
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.model import limits, names
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.well_known_kinds import POD
from hearth.plan.ownership.field_changes import ABSENT, FieldChange
from hearth.preview.changes import Action, Change, Preview

WEB = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)
REF = ObjectRef(group="apps", kind="Deployment", namespace="prod", name="web")
OWNED = {
    "f:metadata": {"f:labels": {"f:app": {}, "f:hearth.dev/stack": {}}},
    "f:spec": {
        "f:replicas": {},
        "f:template": {"f:spec": {"f:containers": {'k:{"name":"web"}': {".": {}, "f:name": {}, "f:image": {}}}}},
    },
}
SPEC = {
    "replicas": 2,
    "paused": False,
    "template": {"spec": {"containers": [{"name": "side"}, {"name": "web", "image": "web:1\x1b[31m"}]}},
}


def make_child(owned: Any = None, spec: Any = None) -> FoundChild:
    """An object that a Stack applied."""
    entry = {"manager": f"{names.FIELD_MANAGER_PREFIX}prod/shop", "operation": "Apply", "apiVersion": "apps/v1"}
    metadata = {
        "name": "web",
        "namespace": "prod",
        "uid": "u-2",
        "labels": {"app": "web", "hearth.dev/stack": "shop", "hearth.dev/resource": "web"},
        "managedFields": [{**entry, "fieldsV1": OWNED if owned is None else owned}],
    }
    return FoundChild(WEB, {"metadata": metadata, "spec": SPEC if spec is None else spec})


def compare(child: FoundChild, *fields: FieldChange) -> list[ShownField]:
    """The compared fields. `fields`: changes that the engine would make."""
    metadata = {"name": "shop", "namespace": "prod", "uid": "u-1"}
    stack = StackState({"metadata": metadata, "spec": {}, "status": {}})
    objects = StackObjects(
        stack=stack, template={"resources": {"web": {"manifest": {"kind": "Deployment"}}}}, children=[child]
    )
    changes = (Change(action=Action.UPDATE, resource="web", ref=REF, fields=fields),) if fields else ()
    return list(
        shown_resource.compare(
            objects, child, Preview(kind="Stack", namespace="prod", name="shop", is_new=False, changes=changes)
        )
    )


def test_what_the_stack_sets_is_listed_and_nothing_else() -> None:
    found = {each.path: each.live for each in compare(make_child())}
    assert found == {
        "metadata.labels.app": "web",
        "spec.replicas": "2",
        "spec.template.spec.containers[name=web].name": "web",
        "spec.template.spec.containers[name=web].image": "web:1\\x1b[31m",
    }


def test_what_differs_comes_first_and_once() -> None:
    changed = FieldChange(path=("spec", "replicas"), old=5, new=2)
    removed = FieldChange(path=("spec", "minReadySeconds"), old=ABSENT, new=3)
    first, second, *others = compare(make_child(spec={**SPEC, "replicas": 5}), changed, removed)

    assert (first.path, first.wanted, first.live, first.differs) == ("spec.replicas", "2", "5", True)
    assert (second.path, second.wanted, second.live, second.differs) == ("spec.minReadySeconds", "3", "", True)
    assert not any(each.differs or each.path == "spec.replicas" for each in others)


@pytest.mark.parametrize(
    "owned", [{}, {"f:spec": {"k:no json": {}}}, {"f:spec": {"f:template": {'v:"x"': {}}}}, {"f:none": {"f:x": {}}}]
)
def test_fields_of_any_shape_are_shown(owned: Any) -> None:
    assert all(not each.differs for each in compare(make_child(owned)))


# ---------------------------------------------------------------- pods

SETS = Kind(group="apps", version="v1", name="ReplicaSet", plural="replicasets", namespaced=True)


def make(kind: Kind, name: str, *, owner: str = "", **raw: Any) -> FoundChild:
    """An object of that kind, owned by another."""
    metadata = {"name": name, "namespace": "prod", "uid": f"uid-{name}", "creationTimestamp": "1970-01-01T00:00:00Z"}
    owners = [{"uid": f"uid-{owner}"}] if owner else []
    return FoundChild(kind=kind, raw={"metadata": {**metadata, "ownerReferences": owners}, **raw})


def make_pod(name: str, owner: str, **status: Any) -> FoundChild:
    """A pod with two containers and an init container."""
    containers = [{"name": "web"}, {"name": "proxy\x1b[31m"}]
    spec = {"initContainers": [{"name": "init"}], "containers": containers, "nodeName": "n1"}
    return make(POD, name, owner=owner, spec=spec, status=status)


def test_a_workload_shows_the_pods_below_it() -> None:
    states = [{"ready": True, "restartCount": 2}, {"ready": False, "restartCount": 1}]
    pod = make_pod("web-1-a", "web-1", phase="Running", containerStatuses=states)
    evidence = explanation.make_evidence([make(SETS, "web-1", owner="web"), pod], [])

    (shown,) = shown_resource.describe_pods(make(WEB, "web"), evidence, now=90.0)

    assert (shown.name, shown.phase, shown.ready, shown.restarts, shown.age, shown.node) == (
        *("web-1-a", "Running", "1/2", 3, "90s", "n1"),
    )
    assert shown.containers == ("init", "web", "proxy\\x1b[31m")


def test_no_workload_shows_more_than_its_newest() -> None:
    pods = [make_pod(f"web-{number}", "web", phase="Pending") for number in range(limits.PAGE_PODS + 5)]
    evidence = explanation.make_evidence(pods, [])

    assert len(shown_resource.describe_pods(make(WEB, "web"), evidence, now=1.0)) == limits.PAGE_PODS


def test_a_status_of_any_shape_is_shown() -> None:
    odd = make(POD, "odd", spec={"containers": "x"}, status={"containerStatuses": [{"restartCount": "many"}, 5]})

    (shown,) = shown_resource.describe_pods(odd, explanation.make_evidence([], []), now=1.0)

    assert (shown.ready, shown.restarts, shown.containers) == ("0/0", 0, ())
