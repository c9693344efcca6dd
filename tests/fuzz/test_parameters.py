"""Any rules and any values: mistakes come, or values that expressions can hold; nothing raises, no piece takes long."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth.template.schema import json_schema, parameters
from hearth.template.schema.json_schema import Effort
from support.units import fuzzing

QUICK = settings(fuzzing.QUICK, max_examples=200)
LONG = settings(fuzzing.LONG, max_examples=30_000)
WORDS = st.sampled_from(sorted(json_schema.WORDS)) | st.sampled_from(["$ref", "contains", "sensitive", "if", ""])
PATTERNS = st.sampled_from(["^(a+)+$", "(", "(?=a)", r"\1", "a{1000}", r"\pL{900}", "(a|b)*a(a|b){400}", "[z-a]"])
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | PATTERNS
    | st.sampled_from(["string", "integer", "number", "object", "array", "a" * 100_000, 2**63, 10**400, 1e300, -0.0])
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS | st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
RULES = st.dictionaries(WORDS, VALUES, max_size=5)


def finish(pieces: Any) -> Any:
    """The result of all pieces; each piece must be short."""
    while True:
        begun = time.thread_time()
        try:
            next(pieces)
        except StopIteration as end:
            return end.value
        finally:
            assert time.thread_time() - begun < 0.2


def check(rules: Any, value: Any) -> None:
    """As a compiler does it."""
    effort = Effort()
    mistakes = finish(parameters.check_rules("x", rules, path="p.x", effort=effort))
    if mistakes:
        assert all(len(str(mistake)) < 5_000 for mistake in mistakes)
        return
    found, wrong = finish(parameters.resolve({"x": rules}, {"x": value}, path="p", template_path="t", effort=effort))
    assert all(len(str(mistake)) < 5_000 for mistake in wrong)
    if not wrong:
        orjson.dumps(found)
        parameters.find_shape({"x": rules})


@given(RULES, VALUES)
@QUICK
def test_any_rules_and_values_end_in_mistakes_or_values(rules: Any, value: Any) -> None:
    check(rules, value)


@pytest.mark.soak
@given(RULES, VALUES)
@LONG
def test_any_rules_and_values_end_in_mistakes_or_values_for_long(rules: Any, value: Any) -> None:
    check(rules, value)
