"""Batch sizes, the growth of a group, and percentages of members: tables of cases."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.model import rolling_batches


@pytest.mark.parametrize(
    ("stated", "members", "expected"),
    [
        pytest.param(1, 10, 1, id="one"),
        pytest.param(4, 10, 4, id="a number"),
        pytest.param(20, 10, 20, id="more than there are"),
        pytest.param("25%", 8, 2, id="a share"),
        pytest.param("25%", 10, 2, id="a share is rounded down"),
        pytest.param("25%", 3, 1, id="a share of few is at least one"),
        pytest.param("1%", 50, 1, id="a small share"),
        pytest.param("100%", 7, 7, id="all"),
        pytest.param("50%", 0, 1, id="a share of none"),
    ],
)
def test_a_batch_is_a_number_or_a_share(stated: int | str, members: int, expected: int) -> None:
    assert rolling_batches.find_batch_size(stated, members=members) == expected


@pytest.mark.parametrize(
    ("size", "batch", "in_service", "expected"),
    [
        pytest.param(10, 3, 1, 0, id="enough stay in service"),
        pytest.param(10, 3, 7, 0, id="just enough stay in service"),
        pytest.param(10, 3, 8, 1, id="one is missing"),
        pytest.param(10, 4, 8, 2, id="two are missing"),
        pytest.param(6, 4, 8, 4, id="the minimum is above the size, so all stay"),
        pytest.param(10, 1, 20, 1, id="all stay, one at a time"),
        pytest.param(10, 20, 0, 0, id="none must stay"),
        pytest.param(10, 20, 10, 10, id="all at once and all stay: twice as many"),
        pytest.param(10, 20, 1, 1, id="all at once, one stays"),
        pytest.param(1, 1, 1, 1, id="the only one stays"),
        pytest.param(1, 1, 0, 0, id="the only one may go"),
        pytest.param(0, 3, 0, 0, id="an empty group"),
        pytest.param(0, 3, 3, 0, id="an empty group with a minimum"),
        pytest.param(3, 2, 2, 1, id="two of three change while two stay"),
    ],
)
def test_a_group_grows_by_what_is_missing(size: int, batch: int, in_service: int, expected: int) -> None:
    assert rolling_batches.find_surge(size, batch=batch, in_service=in_service) == expected


@pytest.mark.parametrize(
    ("batch", "available", "in_service", "expected"),
    [
        pytest.param(3, 10, 1, 3, id="a whole batch"),
        pytest.param(3, 10, 8, 2, id="the minimum leaves two"),
        pytest.param(3, 10, 10, 0, id="the minimum leaves none"),
        pytest.param(3, 5, 8, 0, id="fewer than the minimum already"),
        pytest.param(0, 10, 0, 0, id="no room"),
        pytest.param(20, 10, 0, 10, id="no more than there are"),
    ],
)
def test_the_minimum_limits_the_next_batch(batch: int, available: int, in_service: int, expected: int) -> None:
    assert rolling_batches.find_next(batch=batch, available=available, in_service=in_service) == expected


@pytest.mark.parametrize(
    ("size", "outdated", "batch", "in_service", "expected"),
    [
        pytest.param(10, 10, 3, 1, [3, 3, 3, 1], id="three of ten, one in service"),
        pytest.param(6, 6, 3, 1, [3, 3], id="three of six, one in service"),
        pytest.param(12, 10, 3, 1, [3, 3, 3, 1], id="two of twelve are new"),
        pytest.param(6, 6, 4, 8, [4, 2], id="four of six, all in service"),
        pytest.param(10, 10, 4, 8, [4, 4, 2], id="four of ten, eight in service"),
        pytest.param(10, 10, 20, 0, [10], id="all at once"),
        pytest.param(10, 10, 1, 20, [1] * 10, id="one at a time, all in service"),
        pytest.param(10, 10, 1, 0, [1] * 10, id="one at a time"),
        pytest.param(10, 10, 2, 8, [2] * 5, id="two at a time, eight in service"),
        pytest.param(10, 10, 2, 9, [2] * 5, id="two at a time, nine in service"),
        pytest.param(10, 10, 5, 5, [5, 5], id="one half after the other"),
        pytest.param(10, 3, 2, 8, [2, 1], id="only three are outdated"),
        pytest.param(10, 0, 2, 8, [], id="nothing is outdated"),
        pytest.param(3, 3, 2, 2, [2, 1], id="two of three, two in service"),
        pytest.param(1, 1, 1, 1, [1], id="the only one"),
        pytest.param(0, 0, 1, 0, [], id="an empty group"),
        pytest.param(1000, 1000, 50, 0, [50] * 20, id="a thousand in batches of fifty"),
    ],
)
def test_the_batches_of_an_update(size: int, outdated: int, batch: int, in_service: int, expected: list[int]) -> None:
    found = rolling_batches.plan_batches(size, outdated=outdated, batch=batch, in_service=in_service)
    assert list(found) == expected


@given(
    size=st.integers(0, 60),
    share=st.floats(0, 1),
    batch=st.integers(1, 80),
    in_service=st.integers(0, 80),
)
def test_batches_end_and_keep_the_minimum(size: int, share: float, batch: int, in_service: int) -> None:
    outdated, minimum = int(size * share), min(in_service, size)
    surge = rolling_batches.find_surge(size, batch=batch, in_service=minimum)
    batches = list(rolling_batches.plan_batches(size, outdated=outdated, batch=batch, in_service=in_service))
    assert sum(batches) == outdated
    assert all(1 <= each <= batch for each in batches)
    assert all(size + surge - each >= minimum for each in batches)
    assert surge <= batch
