"""What is changed for a StatefulSet that is replaced under its name."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model.child import Object
from hearth.plan.resource import set_replacement


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
    """By template, with what both say."""
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
    """Any change of the selector counts."""
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
    """A name alone makes none of them its Pod."""
    pod = {"metadata": {"name": "db-0", "labels": labels, "ownerReferences": owners}}
    assert set_replacement.is_left_pod(pod, "db-0") is is_leftover
