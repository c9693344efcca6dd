"""Which fields a rejected change is about, as the message names them."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model.child import Object
from hearth.plan.resource import immutable_fields

SIZE = "spec.volumeClaimTemplates[data].spec.resources.requests.storage"


def make_set(*, size: Any = "1Gi", claims: tuple[str, ...] = ("data",), image: str = "a", **spec: Any) -> Object:
    """A StatefulSet as a template states it."""
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
    return {**raw, "spec": {**spec, "volumeClaimTemplates": templates, "podManagementPolicy": "OrderedReady"}}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(make_set(), make_set(size="2Gi"), (f"{SIZE} (1Gi → 2Gi)",), id="a-size"),
        pytest.param(make_set(), make_set(size="2Gi", image="b"), (f"{SIZE} (1Gi → 2Gi)",), id="not-what-may-change"),
        pytest.param(make_set(size="1Gi"), make_set(size="1024Mi"), ("spec",), id="no-other-notation-of-a-size"),
        pytest.param(
            make_set(), make_set(serviceName="x", size="2Gi"), ("spec.serviceName (db → x)", f"{SIZE} (1Gi → 2Gi)"),
            id="several",
        ),
        pytest.param(
            make_set(), make_set(podManagementPolicy="Parallel"),
            ("spec.podManagementPolicy (OrderedReady → Parallel)",), id="a-default",
        ),
        pytest.param(
            make_set(claims=("data", "log")), make_set(), ("spec.volumeClaimTemplates[log] (removed)",), id="removed",
        ),
        pytest.param(
            make_set(), make_set(selector={"matchLabels": {"a.b/c": "d"}}),
            ('spec.selector (none → {"matchLabels":{"a.b/c":"d"}})',), id="new",
        ),
        pytest.param(
            make_set(), make_set(**{f"x{number}": 1 for number in range(8)}),
            (*(f"spec.x{number} (none → 1)" for number in range(5)), "3 more"), id="not-too-many",
        ),
        pytest.param(make_set(), make_set(serviceName="x" * 99), (f"spec.serviceName (db → {'x' * 60}…)",), id="not-too-long"),
    ],
)  # fmt: skip
def test_the_leaves_are_named_with_both_values(before: Object, after: Object, expected: tuple[str, ...]) -> None:
    """Those that the API server means by `spec`."""
    assert immutable_fields.describe(("spec",), after, store(before), is_guarded=False) == expected


def test_sensitive_values_are_not_shown_and_sizes_are() -> None:
    """A message is no place for them, nor for those of a Secret."""
    after = make_set(serviceName="unspeakable", size="2Gi")
    found = immutable_fields.describe(("spec",), after, store(make_set()), is_guarded=True)
    assert found == ("spec.serviceName", f"{SIZE} (1Gi → 2Gi)")
    secret = {"apiVersion": "v1", "kind": "Secret", "data": {"a": "dW5zcGVha2FibGU="}}
    assert immutable_fields.describe(("data",), secret, {**secret, "data": {"a": "b2xk"}}, is_guarded=False) == (
        "data.a",
    )


def test_a_field_within_a_list_counts_with_its_list() -> None:
    """The API server writes positions, which say little."""
    job = {"kind": "Job", "apiVersion": "batch/v1", "spec": {"template": {"c": [{"name": "a", "image": "x"}]}}}
    live = {**job, "spec": {"template": {"c": [{"name": "a", "image": "y"}]}}}
    assert immutable_fields.describe(("spec.template.c[0].image",), job, live, is_guarded=False) == (
        "spec.template.c[a].image (y → x)",
    )
