"""Fields that require a new object, by `replaceOn` or by the API server's rejection, and the transitional
StatefulSet.
"""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model.child import Object
from hearth.plan.ownership import applied_fields
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.resource import immutable_fields, replaced_fields, set_replacement

KEY = KeyedHasher(b"a key for tests, long enough")


@pytest.mark.parametrize(
    ("before", "live", "after", "expected"),
    [
        pytest.param(1, 9, 1, 9, id="a value drifted"),
        pytest.param(1, None, 1, None, id="a value was removed"),
        pytest.param(1, 1, 2, 2, id="the definition changed"),
        pytest.param(1, 9, 2, 2, id="both"),
        pytest.param({"x": 1, "y": 1}, {"x": 9, "y": 1}, {"x": 1, "y": 2}, {"x": 9, "y": 2}, id="one key each"),
        pytest.param({"x": 1}, None, {"x": 1}, None, id="a map was removed"),
        pytest.param({"x": 1}, None, {"x": 2}, {"x": 2}, id="a map was removed, and the definition changed"),
        pytest.param(["a"], ["b"], ["a"], ["b"], id="a list drifted"),
        pytest.param([{"name": "a"}], [], [{"name": "a"}], [{"name": "a"}], id="items are compared as they are"),
    ],
)
def test_drift_is_overlooked(before: Any, live: Any, after: Any, expected: Any) -> None:
    """A value that was applied before is compared in its current form."""
    options: Any = {"whole": False, "ignored": (), "replacing": (("spec", "part"),), "owner": "uid/web", "hashes": KEY}
    old = applied_fields.make_applied_fields({"spec": {"part": before, "other": 1}}, **options)
    new = applied_fields.make_applied_fields({"spec": {"part": after, "other": 2}}, **options)
    assert old is not None
    assert new is not None
    known = applied_fields.split(old.record)
    assert replaced_fields.overlook_drift(after, live, ("spec", "part"), new, known) == expected


def test_a_field_that_the_manifest_does_not_set_needs_no_record() -> None:
    found = applied_fields.make_applied_fields(
        {"spec": {"other": 1}}, whole=False, ignored=(), replacing=(("spec", "part"),), owner="uid/web", hashes=KEY
    )
    assert found is None


# ---------------------------------------------------------------- fields of a rejected change

SIZE = "spec.volumeClaimTemplates[data].spec.resources.requests.storage"


def make_set_of_sizes(
    *, size: Any = "1Gi", claims: tuple[str, ...] = ("data",), image: str = "a", **spec: Any
) -> Object:
    """A StatefulSet as a template sets it."""
    templates = [
        {"metadata": {"name": name}, "spec": {"resources": {"requests": {"storage": size}}}} for name in claims
    ]
    pod = {"spec": {"containers": [{"name": "main", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "spec": {"serviceName": "db", "template": pod, "volumeClaimTemplates": templates, **spec},
    }


def store(raw: Object) -> Object:
    """The same as the API server stores it: with defaults."""
    spec = raw["spec"]
    templates = [
        {**each, "kind": "PersistentVolumeClaim", "status": {"phase": "Pending"}}
        for each in spec["volumeClaimTemplates"]
    ]
    return {**raw, "spec": {"podManagementPolicy": "OrderedReady", **spec, "volumeClaimTemplates": templates}}


MANY: Object = {f"x{number}": 1 for number in range(8)}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(make_set_of_sizes(), make_set_of_sizes(size="2Gi"), (f"{SIZE} (1Gi → 2Gi)",), id="a-size"),
        pytest.param(make_set_of_sizes(), make_set_of_sizes(size="2Gi", image="b"), (f"{SIZE} (1Gi → 2Gi)",), id="not-what-may-change"),
        pytest.param(make_set_of_sizes(size="1Gi"), make_set_of_sizes(size="1024Mi"), ("spec",), id="no-other-notation-of-a-size"),
        pytest.param(
            make_set_of_sizes(), make_set_of_sizes(serviceName="x", size="2Gi"), ("spec.serviceName (db → x)", f"{SIZE} (1Gi → 2Gi)"),
            id="several",
        ),
        pytest.param(
            make_set_of_sizes(), make_set_of_sizes(podManagementPolicy="Parallel"),
            ("spec.podManagementPolicy (OrderedReady → Parallel)",), id="a-default",
        ),
        pytest.param(
            make_set_of_sizes(claims=("data", "log")), make_set_of_sizes(), ("spec.volumeClaimTemplates[log] (removed)",), id="removed",
        ),
        pytest.param(
            make_set_of_sizes(), make_set_of_sizes(selector={"matchLabels": {"a.b/c": "d"}}),
            ('spec.selector (none → {"matchLabels":{"a.b/c":"d"}})',), id="new",
        ),
        pytest.param(
            make_set_of_sizes(selector={"matchLabels": {"a": "b", "c": "d"}}), make_set_of_sizes(selector={"matchLabels": {"a": "b"}}),
            ("spec.selector.matchLabels.c (removed)",), id="a-removed-key",
        ),
        pytest.param(
            make_set_of_sizes(), make_set_of_sizes(**MANY),
            (*(f"spec.x{number} (none → 1)" for number in range(5)), "3 more"), id="not-too-many",
        ),
        pytest.param(make_set_of_sizes(), make_set_of_sizes(serviceName="x" * 99), (f"spec.serviceName (db → {'x' * 60}…)",), id="not-too-long"),
    ],
)  # fmt: skip
def test_the_leaves_are_named_with_both_values(before: Object, after: Object, expected: tuple[str, ...]) -> None:
    assert immutable_fields.describe(("spec",), store(after), store(before), is_guarded=False) == expected


def test_sensitive_values_are_not_shown_and_sizes_are() -> None:
    after = make_set_of_sizes(serviceName="unspeakable", size="2Gi")
    found = immutable_fields.describe(("spec",), store(after), store(make_set_of_sizes()), is_guarded=True)
    assert found == ("spec.serviceName", f"{SIZE} (1Gi → 2Gi)")
    secret = {"apiVersion": "v1", "kind": "Secret", "data": {"a": "dW5zcGVha2FibGU="}}
    assert immutable_fields.describe(("data",), secret, {**secret, "data": {"a": "b2xk"}}, is_guarded=False) == (
        "data.a",
    )


def test_a_field_within_a_list_counts_with_its_list() -> None:
    job = {"kind": "Job", "apiVersion": "batch/v1", "spec": {"template": {"c": [{"name": "a", "image": "x"}]}}}
    live = {**job, "spec": {"template": {"c": [{"name": "a", "image": "y"}]}}}
    assert immutable_fields.describe(("spec.template.c[0].image",), job, live, is_guarded=False) == (
        "spec.template.c[a].image (y → x)",
    )


# ---------------------------------------------------------------- StatefulSets that are replaced under their names


def make_set(**sizes: Any) -> Object:
    """A StatefulSet with these templates of claims."""
    templates = [
        {"metadata": {"name": name}, "spec": {"resources": {"requests": {"storage": size}}}}
        for name, size in sizes.items()
    ]
    return {"spec": {"volumeClaimTemplates": templates}}


@pytest.mark.parametrize(
    ("live", "wanted", "expected"),
    [
        pytest.param(make_set(a="1Gi"), make_set(a="2Gi"), [("a", "1Gi", "2Gi", False)], id="larger"),
        pytest.param(make_set(a="2Gi"), make_set(a="1Gi"), [("a", "2Gi", "1Gi", True)], id="smaller"),
        pytest.param(make_set(a="1Gi"), make_set(a="1024Mi"), [], id="the-same-in-other-words"),
        pytest.param(make_set(a="1Gi"), make_set(a="1Gi", b="5Gi"), [], id="a-new-template"),
        pytest.param(make_set(a="1Gi", b="1Gi"), make_set(a="1Gi"), [], id="a-removed-template"),
        pytest.param(make_set(a=1073741824), make_set(a="1G"), [("a", "1073741824", "1G", True)], id="a-number"),
        pytest.param(make_set(a="much"), make_set(a="1Gi"), [], id="no-quantity"),
        pytest.param({"spec": {}}, {"spec": {"volumeClaimTemplates": None}}, [], id="none"),
    ],
)
def test_which_sizes_change(live: Object, wanted: Object, expected: list[tuple[str, str, str, bool]]) -> None:
    found = set_replacement.find_sizes(live, wanted)
    assert [(each.template, each.present, each.wanted, each.is_smaller) for each in found] == expected


@pytest.mark.parametrize(
    ("live", "wanted", "is_changed"),
    [
        ({"matchLabels": {"a": "b"}}, {"matchLabels": {"a": "b"}}, False),
        ({"matchLabels": {"a": "b"}}, {"matchLabels": {"a": "b"}, "matchExpressions": []}, False),
        ({"matchLabels": {"a": "b"}}, {"matchLabels": {"a": "c"}}, True),
        ({"matchLabels": {"a": "b"}}, {"matchLabels": {"a": "b", "c": "d"}}, True),
        ({"matchLabels": {"a": "b"}}, {}, True),
    ],
)
def test_when_the_pods_would_not_be_found(live: Object, wanted: Object, *, is_changed: bool) -> None:
    given = ({"spec": {"selector": each}} for each in (live, wanted))
    assert set_replacement.is_selector_changed(*given) is is_changed


@pytest.mark.parametrize(
    ("labels", "owners", "is_leftover"),
    [
        pytest.param({set_replacement.POD_NAME_LABEL: "db-0"}, [], True, id="left"),
        pytest.param({set_replacement.POD_NAME_LABEL: "db-0"}, [{"controller": True}], False, id="taken-over"),
        pytest.param({set_replacement.POD_NAME_LABEL: "db-1"}, [], False, id="another-name"),
        pytest.param({}, [], False, id="of-somebody"),
    ],
)
def test_which_pods_a_deleted_set_left(labels: Object, owners: list[Object], *, is_leftover: bool) -> None:
    pod = {"metadata": {"name": "db-0", "labels": labels, "ownerReferences": owners}}
    assert set_replacement.is_left_pod(pod, "db-0") is is_leftover
