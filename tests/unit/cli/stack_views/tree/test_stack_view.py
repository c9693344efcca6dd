"""The rows that `tree` and the demo print: one row per resource, in words."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree import stack_view
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.cli.stack_views.tree.stack_view import ResourceRow, RowState
from hearth.model.kinds import Kind

CONFIG = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
CLAIM = Kind(group="", version="v1", name="PersistentVolumeClaim", plural="persistentvolumeclaims", namespaced=True)

TEMPLATE = {
    "resources": {
        "web": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"disk": "${disk.metadata.name}"}}},
        "disk": {"manifest": {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}},
        "late": {
            "dependsOn": ["web"],
            "readyWhen": ["late.data.ready == 'yes'"],
            "manifest": {"apiVersion": "v1", "kind": "ConfigMap"},
        },
    }
}


def make_stack(*, deleting: bool = False, **status: Any) -> StackState:
    metadata = {"name": "shop", "namespace": "prod", "uid": "u-1", "generation": 3}
    return StackState({"metadata": metadata | ({"deletionTimestamp": "now"} if deleting else {}), "status": status})


def take(stack: StackState, *children: FoundChild, template: Any = None, **nested: StackObjects) -> StackObjects:
    return StackObjects(stack=stack, template=template or {}, children=children, nested=nested)


def make_child(kind: Kind, resource: str, *, made: str = "1", name: str = "", **fields: Any) -> FoundChild:
    metadata: dict[str, Any] = {
        "name": name or f"shop-{resource}",
        "namespace": "prod",
        "labels": {"hearth.dev/resource": resource},
        "creationTimestamp": made,
        "annotations": {"hearth.dev/requires": {"web": "disk/1", "late": "web/1"}.get(resource, "")},
    }
    return FoundChild(kind, {"metadata": metadata | fields.pop("metadata", {})} | fields)


BOUND = make_child(CLAIM, "disk", status={"phase": "Bound"})
WEB = make_child(CONFIG, "web")


def find_rows(*children: FoundChild, deleting: bool = False, **status: Any) -> list[tuple[str, ...]]:
    """Resource, object, state and note of each row."""
    stack = make_stack(deleting=deleting, **status)
    seen = stack_view.describe(take(stack, *children, template=TEMPLATE))
    return [(row.resource, row.object, str(row.state), row.note) for row in seen.rows]


def test_nothing_is_there_yet() -> None:
    """The first resource is being applied; each waiting resource names the one it waits for. Rows appear in the order
    of creation.
    """
    assert find_rows() == [
        ("disk", "persistentvolumeclaim", "progressing", "is being applied"),
        ("web", "configmap", "waiting", "waits for disk"),
        ("late", "configmap", "waiting", "waits for web"),
    ]


def test_a_child_is_judged_by_the_rule_of_its_kind() -> None:
    rows = find_rows(make_child(CLAIM, "disk", status={"phase": "Pending"}))

    assert rows[0][:3] == ("disk", "persistentvolumeclaim/shop-disk", "progressing")
    assert rows[0][3].startswith("it is waiting for a volume")
    assert rows[1][2:] == ("waiting", "waits for disk")


WIDGET = Kind(group="example.com", version="v1", name="Widget", plural="widgets", namespaced=True)
REPORTS = {"properties": {"status": {"type": "object", "properties": {"phase": {"type": "string"}}}}}


def test_an_object_that_says_nothing_is_judged_by_its_schema() -> None:
    silent = dataclasses.replace(make_child(WIDGET, "disk"), schema=REPORTS)
    assert [row[2:] for row in find_rows(silent)[:2]] == [
        ("progressing", "the controller of example.com/Widget has not set status.phase"),
        ("waiting", "waits for disk"),
    ]


@pytest.mark.parametrize(
    ("fields", "state", "note"),
    [
        pytest.param({"data": {"ready": "yes"}}, "ready", "", id="holds"),
        pytest.param(
            {"data": {"ready": "no"}},
            "progressing",
            "its readyWhen rule is not met yet: late.data.ready == 'yes'",
            id="not yet",
        ),
        pytest.param({}, "progressing", "waits for late.data.ready", id="value missing"),
    ],
)
def test_a_child_is_judged_by_the_rules_of_its_resource(fields: dict[str, Any], state: str, note: str) -> None:
    rows = find_rows(BOUND, WEB, make_child(CONFIG, "late", **fields))

    assert rows[2] == ("late", "configmap/shop-late", state, note)


def test_what_the_status_says_of_a_resource_counts_most() -> None:
    refused = {"resource": "disk", "reason": "Forbidden", "message": "exceeded quota"}

    assert find_rows(problems=[refused])[0] == ("disk", "persistentvolumeclaim", "failed", "Forbidden: exceeded quota")


def test_waiting_for_a_kind_is_no_failure() -> None:
    problem = {"resource": "disk", "reason": "KindNotServed", "message": "no such kind"}

    assert find_rows(problems=[problem])[0][2] == "waiting"


def test_a_child_that_is_being_deleted_comes_back() -> None:
    rows = find_rows(BOUND, make_child(CONFIG, "web", metadata={"deletionTimestamp": "now"}))

    assert rows[1][2:] == ("progressing", "is being deleted, and will be recreated")


GOING = {"deletionTimestamp": "now"}
ALL_READY = {"observedGeneration": 3, "resources": {"progressing": 0, "waiting": 0, "failed": 0, "ready": 2}}
MAYBE = {
    "resources": {
        "maybe": {"when": "params.live", "manifest": {"apiVersion": "v1", "kind": "ConfigMap"}},
        "each": {"forEach": "params.list", "manifest": {"apiVersion": "v1", "kind": "ConfigMap"}},
        "user": {"dependsOn": ["maybe", "each"], "manifest": {"apiVersion": "v1", "kind": "ConfigMap"}},
    }
}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(
            ALL_READY,
            [
                ("maybe", "excluded", "its when is false; its object is being deleted"),
                ("each", "ready", "1/1 members are ready"),
                ("user", "ready", ""),
            ],
            id="all that is wanted is ready",
        ),
        pytest.param(
            {},
            [
                ("maybe", "progressing", "is being deleted"),
                ("each", "progressing", "1/2 members are ready"),
                ("user", "waiting", "waits for maybe; its object stays unchanged until then"),
            ],
            id="it may come back",
        ),
    ],
)
def test_an_object_whose_return_is_uncertain_is_not_said_to_come_back(
    status: dict[str, Any], expected: list[tuple[str, ...]]
) -> None:
    children = [
        make_child(CONFIG, "maybe", metadata=GOING),
        make_child(CONFIG, "each.a"),
        make_child(CONFIG, "each.b", metadata=GOING),
        make_child(CONFIG, "user", metadata={"annotations": {"hearth.dev/requires": "maybe/1"}}),
    ]

    seen = stack_view.describe(take(make_stack(**status), *children, template=MAYBE))

    rows = {row.resource: (row.resource, str(row.state), row.note) for row in seen.rows}
    assert [rows[name] for name, _, _ in expected] == expected


def test_objects_that_are_not_wanted_are_shown_at_the_end() -> None:
    rows = find_rows(
        BOUND,
        make_child(CONFIG, "web", made="2"),
        make_child(CONFIG, "web", made="1", name="shop-web-old"),
        make_child(CONFIG, "former", metadata={"deletionTimestamp": "now", "finalizers": ["example.org/hold"]}),
    )

    assert rows[1] == ("web", "configmap/shop-web", "ready", "")
    assert rows[3:] == [
        ("web", "configmap/shop-web-old", "obsolete", "to be deleted"),
        ("former", "configmap/shop-former", "obsolete", "is being deleted, held by example.org/hold"),
    ]


def test_a_stack_that_is_being_deleted_shows_what_is_gone() -> None:
    assert [row[2] for row in find_rows(BOUND, deleting=True)] == ["obsolete", "gone", "gone"]


def test_the_head_comes_from_the_status() -> None:
    conditions = [{"type": "Ready", "status": "True", "message": "all is well"}, {"type": "Stalled", "status": "False"}]
    stack = make_stack(
        observedGeneration=3,
        phase="UpdateComplete",
        summary="3/3",
        revision=2,
        conditions=conditions,
        outputs={"url": "http://a", "port": 80},
    )

    seen = stack_view.describe(take(stack))

    assert (seen.phase, seen.summary, seen.revision, seen.message) == ("UpdateComplete", "3/3", 2, "all is well")
    assert (seen.is_ready, seen.is_stalled) == (True, False)
    assert seen.outputs == (("port", "80"), ("url", "http://a"))


@pytest.mark.parametrize("observed", [None, 2], ids=["never seen", "an older one seen"])
def test_a_status_of_an_older_generation_says_nothing_of_ready(observed: int | None) -> None:
    conditions = [{"type": "Ready", "status": "True"}, {"type": "Stalled", "status": "True"}]
    stack = make_stack(observedGeneration=observed, conditions=conditions)

    seen = stack_view.describe(take(stack))

    assert not seen.is_ready
    assert not seen.is_stalled


def test_a_new_stack_has_no_status() -> None:
    seen = stack_view.describe(take(make_stack()))

    assert (seen.phase, seen.message, seen.rows) == ("New", "no operator has processed it yet", ())


def test_without_a_template_the_children_are_shown_all_the_same() -> None:
    seen = stack_view.describe(take(make_stack(), WEB))

    assert seen.rows == (
        ResourceRow(
            resource="web", object="configmap/shop-web", state=RowState.OBSOLETE, note="to be deleted", created="1"
        ),
    )


def test_a_nested_stack_is_shown_below_its_resource() -> None:
    kind = Kind(group="hearth.dev", version="v1alpha1", name="Stack", plural="stacks", namespaced=True)
    cache = make_child(kind, "cache", metadata={"uid": "u-2"})
    template = {"resources": {"cache": {"manifest": {"kind": "Stack"}}}}
    inner = take(make_stack(), WEB, template=TEMPLATE)

    seen = stack_view.describe(take(make_stack(), cache, template=template, **{"u-2": inner}))

    assert [row.resource for row in seen.rows[0].nested] == ["disk", "web", "late"]


def test_where_a_resource_stops_and_what_is_excluded() -> None:
    template = {"resources": {"web": {"manifest": {}}, "probe": {"when": "params.debug", "manifest": {}}}}
    stack = make_stack(phase="UpdateComplete", breakpoints=[{"resource": "web", "hook": "PreUpdate"}])

    rows = stack_view.describe(take(stack, WEB, template=template)).rows

    assert [(row.state, row.note) for row in rows] == [
        (RowState.STOPPED, "at breakpoint PreUpdate"),
        (RowState.EXCLUDED, "its when is false"),
    ]


def test_texts_of_objects_cannot_control_the_terminal() -> None:
    hostile = "\x1b[2J[red]"
    problem = {"resource": "web", "reason": hostile, "message": hostile}
    condition = {"type": "Ready", "status": "False", "message": hostile}
    stack = make_stack(phase=hostile, problems=[problem], conditions=[condition], outputs={hostile: hostile})
    child = make_child(CONFIG, hostile, name=hostile)

    seen = stack_view.describe(take(stack, WEB, child, template={"resources": {"web": {}, hostile: {}}}))

    assert "\x1b" not in repr(seen).replace("\\\\x1b", "")
    assert "\\x1b[2J[red]" in seen.message


def test_members_of_a_collection_are_shown_below_it() -> None:
    template = {
        "resources": {
            "late": {"dependsOn": ["workers[*]"], "manifest": {"kind": "ConfigMap"}},
            "workers": {"forEach": "params.zones", "manifest": {"kind": "ConfigMap"}},
        }
    }
    member = make_child(CONFIG, "workers.a")
    problem = {"resource": "workers[b]", "reason": "Denied", "message": "quota"}

    rows = stack_view.describe(take(make_stack(problems=[problem]), member, template=template)).rows

    assert [(row.resource, row.object, row.state, row.note) for row in (rows[0], *rows[0].nested, rows[1])] == [
        ("workers", "configmap[]", RowState.FAILED, "1/2 members are ready"),
        ("workers[a]", "configmap/shop-workers.a", RowState.READY, ""),
        ("workers[b]", "configmap", RowState.FAILED, "Denied: quota"),
        ("late", "configmap", RowState.WAITING, "waits for workers"),
    ]


def test_objects_in_another_cluster_are_known_by_the_status_alone() -> None:
    conditions = [{"type": "Ready", "status": "True", "reason": "Complete", "message": "m"}]
    ready = make_stack(observedGeneration=3, conditions=conditions)
    ready.raw["spec"] = {"kubeConfig": {"secretRef": {"name": "east"}}}

    taken = StackObjects(stack=ready, template=TEMPLATE, children=(), unreadable={"": "its Secret may not be read"})

    rows = stack_view.describe(taken).rows

    assert {row.state for row in rows} == {RowState.READY}


def make_group(replicas: Any, **status: Any) -> StackState:
    metadata = {"name": "queue", "namespace": "prod", "uid": "u-2", "generation": 1}
    return StackState({"kind": "ResourceGroup", "metadata": metadata, "spec": {"replicas": replicas}, "status": status})


def test_members_of_a_group_are_shown_in_the_order_of_their_indices() -> None:
    template = {"resources": {"member": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}}}
    children = [make_child(CONFIG, str(index)) for index in (0, 1, 9, 10, 12)]
    group = make_group(10, controllerState={"removedMembers": [1], "surge": 1})

    view = stack_view.describe(take(group, *children, template=template))

    assert view.title == "rg/queue"
    assert [row.resource for row in view.rows] == ["0", *map(str, range(2, 12)), "1", "12"]
    assert [row.state for row in view.rows[-2:]] == [RowState.OBSOLETE] * 2
    assert {row.resource for row in view.rows if row.state is RowState.READY} == {"0", "9", "10"}


@pytest.mark.parametrize("state", [{"removedMembers": 1}, {"removedMembers": ["x", None]}, {"surge": 10**9}, []])
def test_a_group_of_any_shape_is_shown(state: Any) -> None:
    view = stack_view.describe(take(make_group("many", controllerState=state)))

    assert 1 <= len(view.rows) <= 10_001


def test_what_is_only_read_has_a_state_of_its_own() -> None:
    resources = {
        "gateway": {"externalRef": {"kind": "Service", "metadata": {"name": "gateway", "namespace": "ingress"}}},
        "teams": {"externalRef": {"kind": "ConfigMap", "metadata": {"selector": {}, "allNamespaces": True}}},
        "off": {"externalRef": {"kind": "ConfigMap", "metadata": {"name": "off"}}, "when": "false"},
        "web": {"manifest": {"kind": "ConfigMap", "data": {"a": "${gateway.spec.clusterIP}"}}},
    }
    problem = {"resource": "gateway", "reason": "ObjectNotFound", "message": "service/gateway does not exist"}
    objects = take(
        make_stack(phase="CreateInProgress", observedGeneration=3, problems=[problem]),
        template={"resources": resources},
    )
    rows = {row.resource: (str(row.state), row.object, row.note) for row in stack_view.describe_rows(objects)}
    assert rows == {
        "gateway": ("waiting", "service/gateway in ingress", "ObjectNotFound: service/gateway does not exist"),
        "teams": ("external", "configmap by label in all namespaces", ""),
        "off": ("excluded", "configmap/off", "its when is false"),
        "web": ("waiting", "configmap", "waits for gateway"),
    }
