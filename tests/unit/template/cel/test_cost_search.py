"""No expression costs more than its bound: the worst expressions that a search found, and a search for worse ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hearth.model import limits
from hearth.template.cel import expressions, value_sizes
from support import soak
from support.expressions import cost_search
from support.expressions.cost_search import FORMS, Finding, Search, Shape, Trial

MOST = 3
"""How many times its bound an expression may take on a machine that others use too; alone it takes less than all of it."""
SAMPLED = 12
"""Forms of the sample in the ordinary tests."""
HALF = Shape(unit="a", length=55_000, odd=0.99999)
WHOLE = Shape(unit="a", length=110_000, odd=2.0)
CUBE = Shape(unit="a", length=60, odd=2.0)


def quote(levels: int) -> str:
    """A text that doubles its escapes on each level."""
    return "strings.quote(" * levels + "s0" + ")" * levels


HOURS = Shape(unit="1h", length=1_000_000, odd=2.0)
FRACTION = Shape(unit="1", start="2020-01-01T00:00:00.", length=1_000_000, odd=2.0)
QUOTES = Shape(unit='"', length=16, odd=2.0)
ONES = f"[{','.join('1' * 2_000)}]"
WORST = [
    pytest.param(Trial("s0.replace(s1, 'x')", {"s0": WHOLE, "s1": HALF}), id="replace-what-nearly-matches-everywhere"),
    pytest.param(Trial("s0.split(s1)", {"s0": WHOLE, "s1": HALF}), id="split-at-what-nearly-matches-everywhere"),
    pytest.param(Trial("s0.indexOf(s1)", {"s0": WHOLE, "s1": HALF}), id="search-what-nearly-matches-everywhere"),
    pytest.param(Trial(quote(18), {"s0": QUOTES}), id="quotes-in-quotes"),
    pytest.param(Trial(f"{ONES}.map(x, x).size()"), id="a-stated-list-copied-at-each-step"),
    pytest.param(Trial(f"{ONES}.filter(x, x > 0).size()"), id="a-stated-list-filtered"),
    pytest.param(Trial(f"{ONES[:2000]}1].exists(x, {ONES[:1500]}1] == [x])"), id="a-stated-list-made-at-each-step"),
    pytest.param(Trial("quantity('1e-400').isLessThan(quantity('1e400'))"), id="numbers-of-many-digits"),
    pytest.param(Trial("l0.all(x, isQuantity('9.999999999e-399'))", {"l0": CUBE}), id="quantities-in-a-loop"),
    pytest.param(Trial("l0.map(x, quantity('1e-400'))", {"l0": CUBE}), id="quantities-made-in-a-loop"),
    pytest.param(Trial("s0.matches(s1)", {"s0": Shape(unit="\N{GRINNING FACE}", length=303), "s1": Shape(unit="\N{GRINNING FACE}", length=303)}), id="a-text-as-its-own-pattern"),
    pytest.param(Trial("'a'.matches(r'\\pL?')"), id="a-class-of-many-characters"),
    pytest.param(Trial("has(m0.a)", {"m0": Shape(unit='"', length=2_781, odd=0.5)}), id="a-map-that-is-only-converted"),
    pytest.param(Trial("l0.filter(x, x != n0)", {"l0": Shape(length=360), "n0": CUBE}), id="filter"),
    pytest.param(Trial("duration(s0)", {"s0": HOURS}), id="a-duration-of-many-parts"),
    pytest.param(Trial("timestamp(s0)", {"s0": FRACTION}), id="a-time-of-many-digits"),
    pytest.param(Trial("s0.charAt(999990)", {"s0": HOURS}), id="the-last-character-of-many"),
    pytest.param(Trial("isQuantity(s0)", {"s0": HOURS}), id="a-quantity-of-many-characters"),
    pytest.param(Trial("quantity(s0).asApproximateFloat()", {"s0": HOURS}), id="a-float-of-many-characters"),
    pytest.param(Trial(" && ".join(["duration(s0) == duration(s0)"] * 100), {"s0": replace(HOURS, length=16_000)}), id="many-durations-of-a-small-text"),
    pytest.param(Trial("[" + ",".join(["s0"] * 1_000) + "]", {"s0": Shape(length=1_000)}), id="a-text-written-often"),
]  # fmt: skip
"""Trials that the search found, with earlier or current bounds."""


def check(found: Finding | None) -> None:
    """Fail if it took more than its bound."""
    assert found is None or found.ratio < MOST, str(found)


@pytest.mark.parametrize("trial", WORST)
def test_what_takes_longest_is_bounded(trial: Trial) -> None:
    check(cost_search.examine(trial, slowness=cost_search.measure_slowness(), repeats=7))


@pytest.mark.parametrize("trial", WORST)
def test_no_value_is_larger_than_its_bound(trial: Trial) -> None:
    assert cost_search.measure_excess(trial) <= 1.0


@pytest.mark.parametrize(
    "text",
    [quote(1), f"{ONES}.map(x, x)", f"{ONES}.filter(x, x > 0)", f"{ONES[:2000]}1].exists(x, {ONES[:1500]}1] == x)"],
)
def test_no_small_input_excuses_what_the_expression_makes_itself(text: str) -> None:
    estimator = expressions.parse(text).estimator

    assert estimator is not None
    assert not estimator.is_surely_small(value_sizes.weigh({"s0": "a"}, most_nodes=limits.SMALL_INPUT_NODES))


def test_each_function_is_searched() -> None:
    from hearth.template.cel import cost

    written = " ".join(form for forms in FORMS.values() for form in forms)
    named = [name for name in cost.FUNCTIONS if name.replace(".", "").isalnum() and name not in ("in", "type")]

    assert [name for name in named if f"{name}(" not in written] == []


@pytest.mark.parametrize("seed", range(2))
def test_a_search_finds_nothing_that_takes_longer(seed: int) -> None:
    search = Search(seed)
    for form in search.random.sample([form for forms in FORMS.values() for form in forms], SAMPLED):
        check(search.climb(form, depth=seed, starts=4, steps=8))


@pytest.mark.parametrize("seed", range(40))
def test_a_search_finds_no_value_larger_than_its_bound(seed: int) -> None:
    search = Search(seed)
    for form in search.random.sample([form for forms in FORMS.values() for form in forms], SAMPLED):
        trial = search.make_trial(form, 2)
        assert cost_search.measure_excess(trial) <= 1.0, trial


@pytest.mark.soak
def test_a_long_search_finds_nothing_that_takes_longer() -> None:
    search = Search(soak.seed())
    rounds = soak.amount(1, full=20)
    soak.PROGRESS.start(rounds * 4 * sum(len(forms) for forms in FORMS.values()))
    found = []
    for each in search.run(depths=(0, 1, 2, 3) * rounds, starts=15, steps=60):
        soak.PROGRESS.advance()
        found.append(each)
        check(each)

    print("\n".join(str(each) for each in sorted(found, key=lambda each: -each.ratio)[:10]))
