"""The worst known definitions: none of them blocks the event loop, uses much memory, or exceeds its share."""

from __future__ import annotations

import contextlib
import gc
import itertools
import time
import tracemalloc
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from hearth.model import limits
from hearth.model.errors import InvalidDefinition, Mistake
from hearth.template.blueprint import Definition
from hearth.template.cel import evaluation
from hearth.template.cel.cost import Cost
from hearth.template.cel.evaluation import PackedInputs, Value
from hearth.template.compiler import compiler
from support.units import blueprints

KINDS = blueprints.ServedKinds(blueprints.CONFIG_MAP)
LONGEST = 0.2
"""Seconds of this thread that one piece may take."""
MEMORY = 64 * 1024 * 1024


def make_resource(data: Any = None, **words: Any) -> Any:
    return {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": data or {}}, **words}


def make_many(count: int, data: Any = None, **words: Any) -> Any:
    return {f"r{number}": make_resource(data, **words) for number in range(count)}


def with_parameter(**resources: Any) -> Any:
    """A template with the parameter `p`, and these resources."""
    return {"parameters": {"p": {}}, "resources": resources}


THOUSAND = range(1_000)
CASES: dict[str, tuple[Any, Any, str]] = {
    "dependencies without end": (
        {
            "resources": {
                f"r{n}": make_resource(dependsOn=[f"r{m}" for m in range(max(0, n - 50), n)]) for n in range(2_000)
            }
        },
        {},
        "",
    ),
    "many knots": (
        {
            "resources": {
                f"r{n}": make_resource(dependsOn=[f"r{n // 50 * 50 + m}" for m in range(50)]) for n in range(2_000)
            }
        },
        {},
        "requires itself",
    ),
    "conditions on conditions": (
        {
            "conditions": {
                f"c{n}": " && ".join(f"conditions.c{m}" for m in range(max(0, n - 29), n)) or "true" for n in THOUSAND
            },
            "resources": {},
        },
        {},
        "",
    ),
    "misspelt parameters": (
        {"parameters": {f"parameterNumber{n}y": {"default": 1} for n in THOUSAND}, "resources": {}},
        {f"parameterNumber{n}x": 1 for n in THOUSAND},
        "is not declared",
    ),
    "misspelt words": (
        {"resources": {"a": make_resource(**{f"word{n}": 1 for n in range(50_000)})}},
        {},
        "is not known",
    ),
    "misspelt resources": ({"resources": make_many(5_000, dependsOn=["other"])}, {}, "there is no resource 'other'"),
    "a text of expressions alone": (
        {"resources": {"a": make_resource({"x": "${1}" * 250_000})}},
        {},
        "more than 500 expr",
    ),
    "an expression without an end": (
        {"resources": {"a": make_resource({"x": '${"' + r"\a" * 250_000 + '"}'})}},
        {},
        "has no closing brace within 4096 characters",
    ),
    "a long text a thousand times": (
        with_parameter(a=make_resource({f"x{n}": "${params.p}" for n in THOUSAND})),
        {"p": "x" * 1_000_000},
        "makes the object larger than 2097152 bytes",
    ),
    "a long text in a text": (
        with_parameter(a=make_resource({"x": "${params.p}" * 400})),
        {"p": "x" * 100_000},
        "makes the object larger than 2097152 bytes",
    ),
    "many maps in a text": (
        with_parameter(a=make_resource({"x": "${params.p} " * 60})),
        {"p": {f"k{n}": [] for n in THOUSAND}},
        "",
    ),
    "a long text in every resource": (
        with_parameter(**make_many(500, {"x": "${params.p}"})),
        {"p": "x" * 1_000_000},
        "have more than 16777216 bytes",
    ),
    "fields of a parameter": (
        {
            "parameters": {"p": {"type": "object", "properties": {f"f{n}": {"type": "string"} for n in range(30_000)}}},
            "resources": {"a": make_resource({"x": "${params.p.f1}"})},
        },
        {"p": {"f1": "v"}},
        "",
    ),
    "a key of a megabyte": (
        {"resources": {"a": make_resource({"k" * 1_000_000: [{"x": "${"}] * 10_000})}},
        {},
        "closing brace",
    ),
    "too many resources": ({"resources": make_many(10_001)}, {}, "has 10001 entries, but at most 10000 are allowed"),
    "too many parameters": (
        {"parameters": {f"p{n}": {"default": 1} for n in range(1_001)}, "resources": {}},
        {},
        "has 1001 entries, but at most 1000 are allowed",
    ),
    "a collection of too many": (
        with_parameter(a=make_resource(forEach="params.p")),
        {"p": ["x"] * 100_000},
        "gives 100000 elements, but a template may have at most 10000 resources",
    ),
    "collections of too many together": (
        with_parameter(**make_many(3, forEach="params.p")),
        {"p": ["x"] * 5_000},
        "gives 5000 elements; with the resources before it, the template has more than 10000",
    ),
    "members of too many expressions": (
        with_parameter(a=make_resource({f"k{n}": "${item}" for n in range(50)}, forEach="params.p")),
        {"p": ["x"] * 5_000},
        "gives 5000 elements of 50 expressions each",
    ),
    "an element of ten megabytes": (
        with_parameter(a=make_resource({"x": "${item}"}, forEach="params.p")),
        {"p": ["x" * 10_000_000]},
        "member '0': expression may take more time or memory than is allowed here",
    ),
    "an element of many values": (
        with_parameter(a=make_resource({f"k{n}": "${item.k1}" for n in range(500)}, forEach="params.p")),
        {"p": [{f"k{n}": "v" for n in range(100_000)}]},
        "",
    ),
    "the same key in every element": (
        with_parameter(a=make_resource(forEach="params.p", key="'x'")),
        {"p": [1] * 10_000},
        "element 1 gives the text 'x', as element 0 does",
    ),
    "keys of a megabyte": (
        with_parameter(a=make_resource(forEach="params.p")),
        {"p": {"k" * 1_000_000: 1}},
        "but a key has at most 40",
    ),
    "a key that takes for ever": (
        with_parameter(
            a=make_resource(
                forEach="params.p", key="string(params.p.map(a, params.p.map(b, params.p.map(c, a + b + c))).size())"
            )
        ),
        {"p": list(range(200))},
        "may take more time or memory than is allowed here",
    ),
    "one name for many members": (
        with_parameter(
            a={
                "forEach": "params.p",
                "manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}},
            }
        ),
        {"p": [1] * 10_000},
        "member '1': names configmap/one, which the resource 'a[0]' also names",
    ),
    "a collection of members that read another": (
        with_parameter(
            a=make_resource(forEach="params.p"), b=make_resource({"x": "${string(size(a))}"}, forEach="params.p")
        ),
        {"p": [1] * 5_000},
        "reads the 5000 members of 'a', for each of its 5000 members",
    ),
    "a collection that waits for another": (
        with_parameter(a=make_resource(forEach="params.p"), b=make_resource(forEach="params.p", dependsOn=["a"])),
        {"p": [1] * 5_000},
        "",
    ),
    "an expression that is too long": (
        {"resources": {"a": make_resource(readyWhen=["a" * 4_097])}},
        {},
        "has 4097 characters, but at most 4096 are allowed",
    ),
}


@pytest.fixture
def no_collection() -> Iterator[None]:
    """The operator schedules garbage collection itself."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(("template", "parameters", "expected"), CASES.values(), ids=CASES)
def test_no_definition_takes_more_than_its_share(
    template: Any, parameters: Any, expected: str, no_collection: None
) -> None:
    pieces = compiler.compile_in_pieces(
        Definition(template=template, parameters=parameters), stack=blueprints.STACK, kinds=KINDS
    )
    longest = 0.0
    mistakes: tuple[Mistake, ...] = ()
    while True:
        begun = time.thread_time()
        try:
            next(pieces)
        except StopIteration:
            break
        except InvalidDefinition as error:
            mistakes = error.mistakes
            break
        finally:
            longest = max(longest, time.thread_time() - begun)
    assert bool(mistakes) == bool(expected)
    assert expected in str(mistakes[:1])
    assert len(mistakes) <= 2 * limits.MISTAKES
    assert longest < LONGEST


class Answering(evaluation.Untimed):
    """Returns a large list for every expression without evaluating it, and counts requests."""

    def __init__(self) -> None:
        self.asked = 0

    def admits(self, cost: Cost) -> bool:
        """Never."""
        return False

    def ask(self, text: str, data: Mapping[str, Any] | PackedInputs) -> Value:
        self.asked += 1
        return Value(packed=b"[" + b"[]," * 230_000 + b"[]]")


def test_large_lists_in_one_text_are_pieces_by_themselves() -> None:
    template = with_parameter(a=make_resource({"x": "${params.p.map(e, e)} ${params.p.filter(e, true)}"}))
    evaluator = Answering()
    pieces = compiler.compile_in_pieces(
        Definition(template=template, parameters={"p": list(THOUSAND)}),
        stack=blueprints.STACK,
        kinds=KINDS,
        evaluator=evaluator,
    )
    asked, rests = [0], 0
    with contextlib.suppress(StopIteration):
        while True:
            next(pieces)
            asked.append(evaluator.asked)
            rests += evaluator.asked == 2
    assert evaluator.asked == 2
    assert all(after - before <= 1 for before, after in itertools.pairwise(asked))
    # One pause after the second response, one after writing each list, and the rest.
    assert rests >= 3


@pytest.mark.parametrize(
    "case", ["a long text a thousand times", "a long text in a text", "a long text in every resource"]
)
def test_what_is_too_large_is_refused_before_it_is_made(case: str) -> None:
    template, parameters, _ = CASES[case]
    tracemalloc.start()
    try:
        with pytest.raises(InvalidDefinition):
            compiler.compile_template(
                Definition(template=template, parameters=parameters), stack=blueprints.STACK, kinds=KINDS
            )
        assert tracemalloc.get_traced_memory()[1] < MEMORY
    finally:
        tracemalloc.stop()
