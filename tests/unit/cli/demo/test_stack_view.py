"""What a demonstration makes of the objects that it finds: a row for each resource, in words."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.cli.demo import stack_view
from hearth.cli.demo.stack_view import ClusterSnapshot, ResourceRow, RowState
from hearth.model.kinds import Kind
from hearth.template.blueprint import Blueprint, Definition, StackIdentity
from hearth.template.compiler import compiler
from support.units.typed_kinds import TypedKinds

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


def compile_blueprint() -> Blueprint:
    identity = StackIdentity(name="shop", namespace="prod", uid="u-1")
    return compiler.compile_template(Definition(template=TEMPLATE, parameters={}), stack=identity, kinds=TypedKinds())


def make_stack(*, deleting: bool = False, **status: Any) -> dict[str, Any]:
    metadata = {"name": "shop", "namespace": "prod", "uid": "u-1", "generation": 3}
    return {"metadata": metadata | ({"deletionTimestamp": "now"} if deleting else {}), "status": status}


def make_child(
    kind: Kind, resource: str, *, made: str = "1", name: str = "", **fields: Any
) -> tuple[Kind, dict[str, Any]]:
    metadata: dict[str, Any] = {
        "name": name or f"shop-{resource}",
        "namespace": "prod",
        "labels": {"hearth.dev/resource": resource},
        "creationTimestamp": made,
    }
    return kind, {"metadata": metadata | fields.pop("metadata", {})} | fields


BOUND = make_child(CLAIM, "disk", status={"phase": "Bound"})
WEB = make_child(CONFIG, "web")


def find_rows(*children: tuple[Kind, dict[str, Any]], deleting: bool = False, **status: Any) -> list[tuple[str, ...]]:
    """Resource, object, state and note of each row."""
    stack = make_stack(deleting=deleting, **status)
    seen = stack_view.describe(ClusterSnapshot(stack=stack, blueprint=compile_blueprint(), children=children))
    return [(row.resource, row.object, str(row.state), row.note) for row in seen.rows]


def test_nothing_is_there_yet() -> None:
    """The first is being applied; a waiting one says for which. Rows stand in the order in which things come about."""
    assert find_rows() == [
        ("disk", "persistentvolumeclaim", "progressing", "is being applied"),
        ("web", "configmap", "waiting", "waits for disk"),
        ("late", "configmap", "waiting", "waits for web"),
    ]


def test_a_child_is_judged_by_the_rule_of_its_kind() -> None:
    """The engine's own."""
    rows = find_rows(make_child(CLAIM, "disk", status={"phase": "Pending"}))

    assert rows[0][:3] == ("disk", "persistentvolumeclaim/shop-disk", "progressing")
    assert rows[0][3].startswith("it is waiting for a volume")
    assert rows[1][2:] == ("waiting", "waits for disk")


@pytest.mark.parametrize(
    ("fields", "state", "note"),
    [
        pytest.param({"data": {"ready": "yes"}}, "ready", "", id="holds"),
        pytest.param({"data": {"ready": "no"}}, "progressing", "its readyWhen rule is not met yet", id="not yet"),
        pytest.param({}, "progressing", "waits for late.data.ready", id="value missing"),
    ],
)
def test_a_child_is_judged_by_the_rules_of_its_resource(fields: dict[str, Any], state: str, note: str) -> None:
    """Where it has any."""
    rows = find_rows(BOUND, WEB, make_child(CONFIG, "late", **fields))

    assert rows[2] == ("late", "configmap/shop-late", state, note)


def test_what_the_status_says_of_a_resource_counts_most() -> None:
    """The operator knows why an object is not there."""
    refused = {"resource": "disk", "reason": "Forbidden", "message": "exceeded quota"}

    assert find_rows(problems=[refused])[0] == (
        "disk",
        "persistentvolumeclaim",
        "failed",
        "Forbidden: exceeded quota",
    )


def test_waiting_for_a_kind_is_no_failure() -> None:
    """It may come at any time."""
    problem = {"resource": "disk", "reason": "KindNotServed", "message": "no such kind"}

    assert find_rows(problems=[problem])[0][2] == "waiting"


def test_a_child_that_is_being_deleted_comes_back() -> None:
    """As a user deleted it by hand."""
    rows = find_rows(BOUND, make_child(CONFIG, "web", metadata={"deletionTimestamp": "now"}))

    assert rows[1][2:] == ("progressing", "is being deleted, and is created again")


def test_objects_that_are_not_wanted_are_shown_at_the_end() -> None:
    """One of a resource that was taken out, and an older one of a resource that stays."""
    rows = find_rows(
        BOUND,
        make_child(CONFIG, "web", made="2"),
        make_child(CONFIG, "web", made="1", name="shop-web-old"),
        make_child(CONFIG, "former", metadata={"deletionTimestamp": "now", "finalizers": ["example.org/hold"]}),
    )

    assert rows[1] == ("web", "configmap/shop-web", "ready", "")
    assert rows[3:] == [
        ("web", "configmap/shop-web-old", "obsolete", "is to go"),
        ("former", "configmap/shop-former", "obsolete", "is being deleted, held by example.org/hold"),
    ]


def test_a_stack_that_is_being_deleted_shows_what_is_gone() -> None:
    """And what is still to go."""
    assert [row[2] for row in find_rows(BOUND, deleting=True)] == ["obsolete", "gone", "gone"]


def test_the_head_comes_from_the_status() -> None:
    """Outputs in the order of their names."""
    conditions = [
        {"type": "Ready", "status": "True", "message": "all is well"},
        {"type": "Stalled", "status": "False"},
    ]
    stack = make_stack(
        observedGeneration=3,
        phase="UpdateComplete",
        summary="3/3",
        revision=2,
        conditions=conditions,
        outputs={"url": "http://a", "port": 80},
    )

    seen = stack_view.describe(ClusterSnapshot(stack=stack, blueprint=None, children=()))

    assert (seen.phase, seen.summary, seen.revision, seen.message) == ("UpdateComplete", "3/3", 2, "all is well")
    assert (seen.is_ready, seen.is_stalled) == (True, False)
    assert seen.outputs == (("port", "80"), ("url", "http://a"))


@pytest.mark.parametrize("observed", [None, 2], ids=["never seen", "an older one seen"])
def test_a_status_of_an_older_generation_says_nothing_of_ready(observed: int | None) -> None:
    """Else a demonstration would end before it began."""
    conditions = [{"type": "Ready", "status": "True"}, {"type": "Stalled", "status": "True"}]
    stack = make_stack(observedGeneration=observed, conditions=conditions)

    seen = stack_view.describe(ClusterSnapshot(stack=stack, blueprint=None, children=()))

    assert not seen.is_ready
    assert not seen.is_stalled


def test_a_new_stack_has_no_status() -> None:
    """Then it is said who is waited for."""
    seen = stack_view.describe(ClusterSnapshot(stack=make_stack(), blueprint=None, children=()))

    assert (seen.phase, seen.message, seen.rows) == ("New", "the operator has not processed it yet", ())


def test_without_a_template_the_children_are_shown_all_the_same() -> None:
    """As objects that are not known to be wanted."""
    seen = stack_view.describe(ClusterSnapshot(stack=make_stack(), blueprint=None, children=[WEB]))

    assert seen.rows == (
        ResourceRow(resource="web", object="configmap/shop-web", state=RowState.OBSOLETE, note="is to go"),
    )


def test_long_lists_of_names_are_cut() -> None:
    """A note has one line."""
    assert stack_view.enumerate_names(["a", "b", "c"]) == "a, b, c"
    assert stack_view.enumerate_names(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
