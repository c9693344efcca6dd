"""Any JSON as a status: reading it never raises, and the result can be written again."""

from __future__ import annotations

from typing import Any

import hypothesis
import orjson
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from hearth.engine.definition.target_tracker import TargetTracker
from hearth.kube.cache import stack_cache
from hearth.model.api import status_fields
from hearth.model.child import Object
from hearth.model.text import times
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.plan.status import check_result, conditions, status_changes
from hearth.plan.target import target_status
from support.units import fuzzing

HASHES = KeyedHasher(b"k" * 32)
QUICK = settings(fuzzing.QUICK, max_examples=100)
LONG = settings(fuzzing.LONG, max_examples=50_000)

WORDS = st.sampled_from(
    [
        "target controllerState revision cause since initial completed cleanupWaived protectedRevisions rollback toRevision",
        "specHash suspend suspended failedHash clearedBreakpoints postDelete resource requires lastCompletedRevision",
        "previousCompletedRevision lastFailedRevision historyUnknown handled retry check checkedAt objects problemCount",
        "problems conditions type status reason message lastTransitionTime phase signature warnings outputs Ready True Spec Rollback kind name",
    ]
).flatmap(lambda line: st.sampled_from(line.split()))
MOMENTS = st.sampled_from(
    [
        "2026-01-01T00:00:00Z",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59Z",
        "1969-12-31T23:59:59Z",
        "2026-01-01",
        "NaN",
    ]
)
LEAVES = fuzzing.LEAVES | WORDS | MOMENTS
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=6),
    max_leaves=25,
)
NUMBERS = st.integers(min_value=-2, max_value=2**70) | JSON
TARGETS = st.fixed_dictionaries(
    {
        "revision": NUMBERS,
        "cause": st.sampled_from(["Spec", "Rollback", "AutomaticRollback"]) | JSON,
        "since": MOMENTS | JSON,
    },
    optional={"completed": JSON, "message": JSON},
)
STATES = st.fixed_dictionaries(
    {},
    optional={
        "protectedRevisions": st.lists(NUMBERS, max_size=30) | JSON,
        "rollback": st.fixed_dictionaries({"toRevision": NUMBERS, "specHash": JSON, "revision": NUMBERS}) | JSON,
        "suspend": st.fixed_dictionaries({"suspended": JSON, "since": MOMENTS}) | JSON,
        "failedHash": JSON,
        "clearedBreakpoints": st.lists(JSON, max_size=5) | JSON,
        "postDelete": st.lists(st.fixed_dictionaries({"resource": JSON, "requires": JSON}), max_size=3) | JSON,
    },
)
STATUSES = JSON | st.fixed_dictionaries(
    {},
    optional={
        "target": TARGETS | JSON,
        "controllerState": STATES | JSON,
        "conditions": st.lists(JSON, max_size=3) | JSON,
        "handled": st.dictionaries(WORDS, JSON, max_size=3) | JSON,
        "check": st.fixed_dictionaries({"checkedAt": MOMENTS | JSON, "objects": JSON, "problemCount": JSON}) | JSON,
        "lastCompletedRevision": NUMBERS,
        "lastFailedRevision": NUMBERS,
        "phase": JSON,
        "signature": JSON,
        "warnings": JSON,
    },
)


def look(status: Any, *, is_signed: bool) -> None:
    """All that is read from a status. is_signed: as if the operator itself had written that."""
    raw: Object = {
        "metadata": {"name": "shop", "namespace": "a", "uid": "u", "resourceVersion": "1"},
        "spec": {},
        "status": status,
    }
    if is_signed and isinstance(status, dict):
        try:
            raw["status"] = target_status.sign(status, uid="u", hashes=HASHES)
        except TypeError:
            return
    stack = stack_cache.parse_stack(raw)
    targets = TargetTracker()
    targets.load(stack, hashes=HASHES, count_revisions=lambda: 1, has_former=lambda: False)
    target = targets.current
    written: Object = target_status.write_completed(targets.completed)
    if target is not None:
        assert is_signed
        written.update(target_status.encode(target))
        assert target_status.decode(written) == target
    written.update(check_result.encode(targets.check))
    written.update({"handled": targets.handled, "lastFailedRevision": targets.last_failed})
    assert target_status.read_memory(target_status.sign(written, uid="u", hashes=HASHES), uid="u", hashes=HASHES) == {
        key: written[key] for key in target_status.MEMORY if key in written
    }
    orjson.dumps(written)
    before = stack.status
    after: Object = {**written, "phase": "UpdateComplete", "conditions": []}
    status_changes.is_progress_only(before, after)
    status_changes.is_repair_only(before, after)
    status_changes.find_changes(before, after)
    check_result.describe_news(before, after)
    conditions.find(before, "Ready")


@hypothesis.given(status=STATUSES, is_signed=st.booleans())
@QUICK
def test_any_status_is_read(status: Any, *, is_signed: bool) -> None:
    look(status, is_signed=is_signed)


@pytest.mark.soak
@hypothesis.given(status=STATUSES, is_signed=st.booleans())
@LONG
def test_any_status_is_read_for_long(status: Any, *, is_signed: bool) -> None:
    look(status, is_signed=is_signed)


@hypothesis.given(text=MOMENTS | st.text(max_size=40) | st.datetimes().map(str))
@QUICK
def test_a_moment_that_is_read_can_be_written(text: str) -> None:
    try:
        seconds = times.parse_time(text)
    except ValueError:
        return
    assert times.parse_time(times.format_time(seconds)) == int(seconds)


@pytest.mark.parametrize("levels", [300, 900])
def test_what_is_too_deep_costs_nothing_else(levels: int) -> None:
    deep: Any = 1
    for _ in range(levels):
        deep = [deep]
    packed = status_fields.pack({"outputs": {"a": deep}, "phase": "UpdateComplete"})
    assert orjson.loads(packed) == {"phase": "UpdateComplete"}
