"""The status of a HealthMark binds it to an object only if this operator wrote it."""

from __future__ import annotations

import dataclasses
from typing import Any

import hypothesis
import pytest
from hypothesis import strategies as st

from hearth.engine.cluster_objects import HealthMarkObject
from hearth.engine.health_marks.mark_index import SignedMarks
from hearth.model.child import Object
from hearth.plan.ownership.keyed_hash import KeyedHasher

CONDITIONS = [
    {"type": "Ready", "status": "True", "reason": "Marked", "message": "m"},
    {"type": "Resolved", "status": "False", "reason": "Marked", "message": "m"},
]
BOUND: Object = {
    "observedGeneration": 1,
    "observedUID": "o",
    "stackName": "shop",
    "resource": "web",
    "conditions": CONDITIONS,
}
MARK = HealthMarkObject(
    name="bad",
    namespace="n",
    uid="m",
    generation=1,
    resource_version=1,
    written_at="2026-01-01T00:00:00Z",
    spec={"target": {}, "markUnhealthy": True},
    status={},
)


class FixedMarks:
    """Holds one mark."""

    def __init__(self, mark: HealthMarkObject | None) -> None:
        self.mark = mark

    def find_mark(self, _uid: str) -> HealthMarkObject | None:
        """That one."""
        return self.mark


def read(status: Any, **changes: Any) -> Object:
    """What counts of a status of the mark."""
    held: Any = FixedMarks(dataclasses.replace(MARK, status=status, **changes))
    found = SignedMarks(held, KeyedHasher(b"k" * 32)).find_mark("m")
    assert found is not None
    return found.status


def sign(status: Object) -> Object:
    """As the operator writes it."""
    held: Any = FixedMarks(MARK)
    return SignedMarks(held, KeyedHasher(b"k" * 32)).sign(MARK, status)


def test_a_status_of_our_own_counts() -> None:
    """As it was before it was signed."""
    assert read(sign(BOUND)) == BOUND


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"observedUID": "other"}, id="another object"),
        pytest.param({"resource": "db"}, id="another resource"),
        pytest.param({"stackName": "other"}, id="another Stack"),
        pytest.param({"observedGeneration": 2}, id="another generation"),
        pytest.param({"conditions": []}, id="no conditions"),
        pytest.param({"signature": "x"}, id="another signature"),
        pytest.param({"signature": 7}, id="no text"),
    ],
)
def test_a_forged_status_counts_as_none(changes: Object) -> None:
    """The mark is bound again, by its own rules."""
    assert read({**sign(BOUND), **changes}) == {}


def test_the_status_of_another_mark_counts_as_none() -> None:
    """And one of an earlier version."""
    assert read(sign(BOUND), uid="other") == {}
    assert read(BOUND) == {}


def test_that_nothing_more_comes_of_a_mark_is_believed() -> None:
    """To do nothing does no harm: so resolved marks of an earlier version stay so."""
    done = {**BOUND, "conditions": [CONDITIONS[0], {**CONDITIONS[1], "status": "True"}]}
    assert read(done) == done
    assert read(done, generation=2) == {}


def test_a_mark_that_is_gone_is_forgotten() -> None:
    """With what was known of it."""
    held: Any = FixedMarks(MARK)
    marks = SignedMarks(held, KeyedHasher(b"k" * 32))
    assert marks.find_mark("m") == MARK
    held.mark = None
    assert marks.find_mark("m") is None
    assert marks.find_written("m") == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just("True"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "status", "reason", "message", *BOUND]), inner, max_size=5)
    ),
)


@hypothesis.given(status=JSON | st.fixed_dictionaries(dict.fromkeys(BOUND, JSON)))
@hypothesis.settings(max_examples=100, derandomize=True, deadline=None, database=None)
def test_any_status_is_read(status: Any) -> None:
    """Without a signature nothing of it counts, unless it ends the mark."""
    found = read(status)
    assert found == {} or found["observedGeneration"] == MARK.generation
