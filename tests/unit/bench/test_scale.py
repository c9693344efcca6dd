"""The cost model of very large trees computes correctly, and the simulated engine runs."""

from __future__ import annotations

import dataclasses

import pytest

from bench.scale import scale_model, scale_tables, simulated
from bench.scale.scale_costs import FIGURES, Costs
from bench.scale.scale_model import Tree

COSTS = Costs()


@pytest.mark.parametrize(
    ("tree", "levels"),
    [
        pytest.param(Tree(resources=1_000_000), [1, 100, 10_000], id="three levels"),
        pytest.param(Tree(resources=50, per_stack=50), [1], id="one Stack"),
        pytest.param(Tree(resources=101, per_stack=10, fan_out=5), [1, 3, 11], id="not filled"),
    ],
)
def test_the_levels_of_a_tree(tree: Tree, levels: list[int]) -> None:
    assert tree.levels == levels
    assert tree.children == tree.resources + sum(levels) - 1


def test_the_writes_of_a_small_stack() -> None:
    assert scale_model.find_load(Tree(resources=4, per_stack=4), costs=COSTS).writes == 4 + 3 + 2


def test_the_slower_one_says_how_long_it_takes() -> None:
    slow = dataclasses.replace(COSTS, apply=2 * COSTS.write)
    loads = [scale_model.find_load(Tree(resources=1_000_000), shards=shards, costs=slow) for shards in (1, 4, 100)]

    assert [load.bottleneck for load in loads] == ["operator", "API server", "API server"]
    assert loads[1].seconds < loads[0].seconds
    assert loads[1].seconds < loads[2].seconds


def test_so_many_statuses_a_second_tell_of_progress() -> None:
    small, large = (scale_model.count_statuses(Tree(resources=each), shards=1, costs=COSTS) for each in (10**5, 10**6))

    assert small > 2 * Tree(resources=10**5).stacks
    assert large == pytest.approx(10 * small, rel=0.01)


def test_a_limit_is_reached_where_the_load_says_so() -> None:
    limit = next(each for each in scale_model.LIMITS if each.name == "memory of a process")

    found = scale_model.find_break(limit, shards=1, costs=COSTS)

    def memory(resources: int) -> float:
        return scale_model.find_load(Tree(resources=resources), costs=COSTS).process_memory

    assert found is not None
    assert memory(found - found // 500) <= limit.most < memory(found + found // 500)
    assert scale_model.find_break(dataclasses.replace(limit, most=1e18), shards=1, costs=COSTS) is None


def test_what_is_reached_first_stands_first() -> None:
    found = list(scale_model.find_breaks(shards=10, costs=COSTS).values())

    reached = [each for each in found if each is not None]
    assert found == sorted(reached) + [None] * (len(found) - len(reached))


def test_every_cost_is_explained() -> None:
    assert [figure.name for figure in FIGURES] == [each.name for each in dataclasses.fields(Costs)]
    assert all(figure.says and figure.source for figure in FIGURES)


def test_the_engine_runs_a_small_tree() -> None:
    tree = Tree(resources=4, per_stack=2, fan_out=2)

    phases = {each.phase: each for each in simulated.run(tree, shards=2, costs=COSTS, say=lambda text: None)}

    assert tree.stacks == 3
    assert [phases[phase].requests.get("apply") for phase in ("created", "changed")] == [tree.children, tree.children]
    assert phases["created"].requests["finalizer"] == tree.stacks
    assert phases["restarted"].writes == 0
    assert phases["deleted"].requests["delete"] == tree.children
    assert phases["created"].virtual_seconds > tree.children * COSTS.write


def test_the_engine_runs_a_small_tree_of_groups() -> None:
    tree = Tree(resources=8, per_stack=4, fan_out=2)

    found = simulated.run(tree, shards=1, costs=COSTS, say=lambda text: None, in_groups=True)

    phases = {each.phase: each for each in found}
    assert [phases[phase].requests.get("apply") for phase in ("created", "changed")] == [tree.children, tree.children]
    assert "ResourceGroup" in phases["created"].largest
    assert phases["restarted"].writes == 0
    assert phases["deleted"].requests["delete"] == tree.children


def test_a_tree_that_is_not_even_is_not_run() -> None:
    with pytest.raises(simulated.Uneven, match="1,003 resources do not divide into Stacks of 100"):
        simulated.run(Tree(resources=1_003), shards=1, costs=COSTS, say=lambda text: None)


def test_the_page_gets_its_tables() -> None:
    page = "# Scale\n\n<!-- Totals -->\nold\n<!-- end -->\n\nThe rest.\n<!-- Another -->\nkept\n<!-- end -->\n"
    shown = scale_tables.make_all([], 1000, 100, 100, costs=COSTS)

    filled = scale_tables.fill(page, shown)

    assert "old" not in filled
    assert "| writes to create it |" in filled
    assert filled.endswith("The rest.\n<!-- Another -->\nkept\n<!-- end -->\n")
    assert scale_tables.fill(filled, shown) == filled
