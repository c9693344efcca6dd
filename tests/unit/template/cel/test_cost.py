"""The cost bound of an expression, by its text and input sizes, and the process that evaluates it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.model import limits
from hearth.template.blueprint import EvaluationError, Known, Pending
from hearth.template.cel import cost, evaluation, expressions, value_sizes
from hearth.template.cel.cost import Cost
from hearth.template.cel.evaluation import Answer, Excess, Failure, PackedInputs, Unwritable, Value
from hearth.template.cel.value_sizes import Weight
from hearth.template.cel.weighted_cache import WeightedCache

CONDITIONS = [{"type": name, "status": "True", "message": "all is well"} for name in ("Ready", "Available", "Synced")]
WEB = {"metadata": {"name": "web", "labels": {"a": "b"}}, "status": {"conditions": CONDITIONS, "replicas": 3}}
TEXT = "a" * 800_000


def make_bomb(levels: int) -> str:
    """A short expression that repeatedly doubles a list."""
    text = f"size(a{levels})"
    for level in range(levels, 0, -1):
        text = f"cel.bind(a{level}, a{level - 1}+a{level - 1}, {text})"
    return text.replace("a0", "[1]")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("web.status.replicas >= 1", id="comparison"),
        pytest.param("web.metadata.name + '-' + web.metadata.labels.a", id="few-concatenations"),
        pytest.param("has(web.a.b) ? web.a.b : web.?c.?d.orValue('x')", id="optional"),
        pytest.param("int(web.a) * 2 % 3 + size(web.b)", id="arithmetic"),
        pytest.param("string(base64.decode(web.a)).lowerAscii().startsWith('x')", id="text"),
        pytest.param("quantity(web.a).add(quantity('1Gi')).isGreaterThan(quantity('2'))", id="quantities"),
        pytest.param("math.greatest(web.a, 3)", id="math"),
        pytest.param("[web.a, web.b][0]", id="list"),
        pytest.param("timestamp(web.a).getFullYear()", id="time"),
    ],
)
def test_ordinary_expressions_need_no_bound(text: str) -> None:
    assert expressions.parse(text).estimator is None


ORDINARY = [
    pytest.param("web.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')", id="exists"),
    pytest.param("web.status.conditions.all(c, c.status == 'True')", id="all"),
    pytest.param("web.status.conditions.exists_one(c, c.type == 'Ready')", id="exists-one"),
    pytest.param("web.status.conditions.filter(c, c.type == 'Ready')[0].message", id="filter"),
    pytest.param("web.status.conditions.map(c, c.type + '=' + c.status).join(',')", id="map-and-join"),
    pytest.param("web.metadata.name.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')", id="pattern"),
    pytest.param("web.metadata.name.matches('^[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}$')", id="uuid"),
    pytest.param("web.metadata.name.replace('w', 'vv').split('v')", id="replace-and-split"),
    pytest.param("'%s-%d'.format([web.metadata.name, web.status.replicas])", id="format"),
    pytest.param("cel.bind(n, web.metadata.name, n + '-' + n)", id="bind"),
    pytest.param("['Ready', 'Synced'].all(t, web.status.conditions.exists(c, c.type == t))", id="loop-in-loop"),
]


@pytest.mark.parametrize("text", ORDINARY)
def test_what_templates_usually_do_stays_in_the_process(text: str) -> None:
    bound = expressions.bind(expressions.parse(text), path="p", constants={})

    assert isinstance(bound.evaluate({"web": WEB}), Known)


@pytest.mark.parametrize("text", ORDINARY)
def test_what_rules_usually_do_is_allowed_in_them(text: str) -> None:
    assert expressions.is_bounded(expressions.parse(text))


COSTLY = [
    pytest.param(make_bomb(21), {}, id="doubling-by-bind"),
    pytest.param("web.list.exists(i, web.text.replace('a', 'bb').size() < 0)", {"list": [1] * 1000, "text": TEXT}, id="replace-in-a-loop"),
    pytest.param("web.text.replace('a', web.text)", {"text": TEXT}, id="replace-by-much"),
    pytest.param("web.list.map(i, i)", {"list": list(range(9000))}, id="a-list-copied-at-each-step"),
    pytest.param("web.list.filter(i, i > 3)", {"list": list(range(9000))}, id="filter"),
    pytest.param("web.list.join(web.text)", {"list": ["a"] * 1000, "text": TEXT}, id="join"),
    pytest.param("web.list.map(i, web.text)", {"list": [1] * 100, "text": TEXT}, id="copies"),
    pytest.param("web.text.matches('((a{0,10}){0,10}){0,10}b')", {"text": TEXT}, id="unfolded-pattern"),
    pytest.param("web.text.matches('(\\\\p{L}|a){200}b')", {"text": "a"}, id="large-pattern"),
    pytest.param("web.text.matches(web.pattern + '')", {"text": TEXT, "pattern": "a"}, id="unknown-pattern"),
    pytest.param("web.text.matches(web.pattern)", {"text": "a", "pattern": "(" * 800_000}, id="long-pattern"),
    pytest.param("web.text + web.text + web.text + web.text + web.text + web.text", {"text": TEXT}, id="large-concatenations"),
    pytest.param("web.list.exists(i, web.list.exists(j, web.list == [i, j]))", {"list": list(range(500))}, id="loops-in-loops"),
    pytest.param("web.text.split('').size() > 0", {"text": TEXT}, id="split"),
    pytest.param("'%s%s'.format([web.text, web.text])", {"text": TEXT}, id="format"),
    pytest.param("web.list == web.list", {"list": [0] * 500_000}, id="many-values"),
    # CEL reads `a\0z` as `a`.
    pytest.param("web.map[web.key].map(i, i)", {"map": {"a": list(range(9000))}, "key": "a\0z"}, id="key-with-NUL"),
    pytest.param("web.map[web.key].map(i, i)", {"map": {"a\0z": list(range(9000))}, "key": "a"}, id="NUL-in-a-key"),
    pytest.param("web.list[web.key].map(i, i)", {"list": [list(range(9000))], "key": 0.0}, id="fraction-as-position"),
    pytest.param("web.list.all(i, i.a||i.b||" + "i.a||" * 300 + "true)", {"list": [{}] * 9000}, id="long-estimate"),
]  # fmt: skip


@dataclass
class Elsewhere(evaluation.Untimed):
    """A port that answers with given values."""

    answer: Answer | None = None
    asked: list[tuple[str, Mapping[str, Any] | PackedInputs]] = field(default_factory=list)

    def admits(self, cost: Cost) -> bool:
        """Decide by the bound."""
        return evaluation.is_small(cost)

    def ask(self, text: str, data: Mapping[str, Any] | PackedInputs) -> Answer | None:
        """The given answer."""
        self.asked.append((text, data))
        return self.answer


@pytest.mark.parametrize(("text", "fields"), COSTLY)
def test_what_may_take_long_is_never_evaluated_in_the_process(text: str, fields: dict[str, Any]) -> None:
    port = Elsewhere()
    bound = expressions.bind(expressions.parse(text), path="p", constants={}, evaluator=port)

    outcome = bound.evaluate({"web": expressions.enlarge(fields)})

    assert isinstance(outcome, Pending)
    assert outcome.is_evaluating
    assert [asked for asked, _ in port.asked] == [text]


class Late(Elsewhere):
    """A port whose Stack has no time left in this turn."""

    def begin_work(self, resource: str = "") -> float | None:
        """None."""
        return None


@pytest.mark.parametrize("text", ["web.spec == web.spec", "web.spec.l.all(x, x < 9)", "web.metadata.name"])
def test_small_expressions_are_evaluated_elsewhere_once_the_time_of_the_turn_is_used_up(text: str) -> None:
    port = Late(Value(b"true"))
    bound = expressions.bind(expressions.parse(text), path="p", constants={}, evaluator=port)

    outcome = bound.evaluate({"web": {"metadata": {"name": "web"}, "spec": {"l": [1, 2]}}})

    assert (outcome, [asked for asked, _ in port.asked]) == (Known(True), [text])


@pytest.mark.parametrize(("text", "fields"), COSTLY)
def test_without_anywhere_else_what_may_take_long_is_broken(text: str, fields: dict[str, Any]) -> None:
    bound = expressions.bind(expressions.parse(text), path="spec.x", constants={})

    outcome = bound.evaluate({"web": expressions.enlarge(fields)})

    assert isinstance(outcome, EvaluationError)
    assert outcome.path == "spec.x"
    assert outcome.message.startswith("expression may take more time or memory than is allowed here; simplify it: `")


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        pytest.param(Value(b'{"a":[1]}'), Known({"a": [1]}), id="value"),
        pytest.param(
            Failure("no such overload"),
            EvaluationError(path="spec.x", message="`web.a.map(i, i)` fails: no such overload"),
            id="failure",
        ),
        pytest.param(
            Unwritable("gives nan"),
            EvaluationError(path="spec.x", message="`web.a.map(i, i)` gives nan"),
            id="unwritable",
        ),
        pytest.param(
            Excess("took more than 1 s of CPU"),
            EvaluationError(
                path="spec.x", message="expression took more than 1 s of CPU; simplify it: `web.a.map(i, i)`"
            ),
            id="excess",
        ),
    ],
)
def test_an_answer_from_elsewhere_is_an_outcome(answer: Answer, outcome: object) -> None:
    bound = expressions.bind(
        expressions.parse("web.a.map(i, i)"), path="spec.x", constants={}, evaluator=Elsewhere(answer)
    )

    assert bound.evaluate({"web": {"a": list(range(5000))}}) == outcome


def test_a_failure_elsewhere_waits_for_what_is_not_there_yet() -> None:
    bound = expressions.bind(
        expressions.parse("web.a.map(i, i + web.b)"), path="p", constants={}, evaluator=Elsewhere(Failure("no key"))
    )

    assert bound.evaluate({"web": {"a": list(range(5000))}}) == Pending(missing=("web.b",))


def test_an_expression_takes_of_a_large_object_what_it_reads() -> None:
    port = Elsewhere()
    fields = expressions.enlarge({"list": list(range(5000)), "other": [0] * 50_000, "text": TEXT})
    bound = expressions.bind(expressions.parse("web.list.map(i, i)"), path="p", constants={}, evaluator=port)

    bound.evaluate({"web": fields})

    assert port.asked == [("web.list.map(i, i)", {"web": {"list": list(range(5000))}})]


def test_large_constants_are_narrowed_once() -> None:
    params = expressions.enlarge({"name": "web", "other": [0] * 50_000})
    bound = expressions.bind(expressions.parse("params.name + '-x'"), path="p", constants={"params": params})

    assert bound.constants == {"params": {"name": "web"}}
    assert bound.evaluate({}) == Known("web-x")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(make_bomb(21), id="doubling"),
        pytest.param(
            "web.a.map(x, web.a.map(y, web.a.map(z, web.a.map(u, web.a.map(v, x + y + z + u + v)))))", id="five-loops"
        ),
    ],
)
def test_a_rule_that_may_take_long_is_not_bounded(text: str) -> None:
    assert not expressions.is_bounded(expressions.parse(text))


def test_an_expression_has_a_longest_length() -> None:
    with pytest.raises(ValueError, match=r"the expression has 4097 characters, but at most 4096 are allowed; split it"):
        expressions.parse("a" * (limits.EXPRESSION_LENGTH + 1))


NARROWED = [
    pytest.param({"a": {"b": 1, "c": 2}}, [("a", "b")], {"a": {"b": 1}}, id="a-field"),
    pytest.param({"a": {"b": 1, "c": 2}, "d": 3}, [("a", "b"), ("a", "c")], {"a": {"b": 1, "c": 2}}, id="two-fields"),
    pytest.param({"a": {"b": 1}}, [("a", "x")], {"a": {}}, id="absent"),
    pytest.param({"a": 5}, [("a", "x")], {"a": 5}, id="no-map"),
    pytest.param({"a": None}, [("a", "x")], {"a": None}, id="null"),
    pytest.param({"b": 5}, [("a", "x")], {}, id="nothing"),
    pytest.param({"a": 5}, [()], {"a": 5}, id="all"),
]


@pytest.mark.parametrize(("value", "paths", "narrowed"), NARROWED)
def test_only_what_is_read_is_taken(value: Any, paths: Any, narrowed: Any) -> None:
    assert value_sizes.narrow(value, paths) == narrowed


@pytest.mark.parametrize(
    ("pattern", "least", "most"),
    [
        pytest.param("abc", 3, 3, id="plain"),
        pytest.param("a{3}", 3, 6, id="repeated"),
        pytest.param("a{3}b{3}", 6, 12, id="one after the other"),
        pytest.param("(a{1,30}){20}", 20 * 59, 1_500, id="nested"),
        pytest.param("((a{100}){100}){100}", 1_000, 10_000, id="more-than-re2-takes"),
        pytest.param("[]a]{9}[^]a]\\{9", 9, 2_000, id="brackets"),
        pytest.param("(?i)a{9}", 18, 200, id="any case"),
        pytest.param("(a\\Q)\\Eb){9}", 27, 1_000_000, id="quotation"),
        pytest.param("\\pL{9}\\p{Greek}{9}\\x{61}{9}", 2 * 9 * 1_200, 30_000, id="classes of Unicode"),
    ],
)
def test_a_pattern_unfolds(pattern: str, least: int, most: int) -> None:
    assert least <= cost.count_instructions(pattern) <= most


# ---------------------------------------------------------------- the size of values, and a cache that it bounds

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(VALUES, max_size=8))
def test_the_largest_is_as_large_as_each(values: list[Any]) -> None:
    found = [value_sizes.weigh(each, most_nodes=12) for each in values]
    expected = Weight(max((each.nodes for each in found), default=1), max((each.text for each in found), default=0))
    assert value_sizes.weigh_largest(values, most_nodes=12) == expected


def test_scalars_are_one_node_without_text() -> None:
    assert value_sizes.weigh([1, 2.0, True, None, "é"], most_nodes=100) == Weight(6, 4)


def make_full() -> WeightedCache[str, int]:
    """A cache without free space."""
    cache: WeightedCache[str, int] = WeightedCache(most=3, most_weight=100)
    for number, key in enumerate("abc"):
        cache.keep(key, number, weight=30)
    return cache


def test_what_was_not_used_for_longest_gives_way_to_what_is_heavy() -> None:
    cache = make_full()
    cache.find("a")
    cache.keep("d", 3, weight=60)

    assert [cache.find(key) for key in "abcd"] == [0, None, None, 3]
    assert cache.weight == 90


def test_entries_are_counted_too() -> None:
    cache = make_full()
    cache.keep("d", 3, weight=0)

    assert (len(cache), cache.weight) == (3, 60)


def test_an_entry_above_the_limit_evicts_nothing() -> None:
    cache = make_full()

    assert cache.keep("d", 3, weight=101) == 3
    assert (len(cache), cache.weight) == (3, 90)


def test_a_replaced_entry_is_counted_once() -> None:
    cache = make_full()
    cache.keep("a", 4, weight=40)

    assert [cache.find(key) for key in "abc"] == [4, 1, 2]
    assert cache.weight == 100


def test_parsed_expressions_take_a_bounded_part_of_the_memory() -> None:
    for number in range(100):
        expressions.parse("[" + ",".join(["a.map(x, x, x)"] * 250) + f", {number}]")

    assert expressions._parsed.weight <= limits.PARSED_BYTES
    assert 10 < len(expressions._parsed) < 100


def test_an_expression_that_needs_no_bound_is_short() -> None:
    comparisons = [" && ".join(["web.spec == web.spec"] * count) for count in (1, 5, 150)]

    assert [expressions.parse(text).estimator is None for text in comparisons] == [True, True, False]
