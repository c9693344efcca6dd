"""Division of Stacks: even, complete, and in stable buckets."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest

from hearth.model import sharding
from hearth.model.sharding import BUCKETS, WHOLE, Share

UIDS = [str(uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC834 % 2**128)) for number in range(20_000)]


@pytest.mark.parametrize(
    ("uid", "expected"),
    [
        # Published FNV-1a hashes of these texts: cbf29ce484222325, af63dc4c8601ec8c, 85944171f73967e8.
        pytest.param("", 0xCB, id="nothing"),
        pytest.param("a", 0xAF, id="a letter"),
        pytest.param("foobar", 0x85, id="a word"),
    ],
)
def test_a_bucket_is_the_beginning_of_a_published_hash(uid: str, expected: int) -> None:
    assert sharding.bucket_of(uid) == expected
    assert sharding.label_of(uid) == str(expected)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 64, 255, 256])
def test_every_stack_is_in_exactly_one_share(count: int) -> None:
    shares = [Share(index=index, count=count) for index in range(count)]

    assert sorted(bucket for share in shares for bucket in share.list_buckets()) == list(range(BUCKETS))
    for uid in UIDS[:200]:
        (share,) = [share for share in shares if share.has_bucket(uid)]
        assert sharding.bucket_of(uid) in share.list_buckets()


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_shares_are_about_equal(count: int) -> None:
    found = Counter(next(i for i in range(count) if Share(index=i, count=count).has_bucket(uid)) for uid in UIDS)

    assert all(0.9 < found[index] * count / len(UIDS) < 1.1 for index in range(count))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param(WHOLE, Share(index=3, count=4), True, id="the whole has all"),
        pytest.param(Share(index=0, count=2), Share(index=1, count=4), True, id="a half and its quarter"),
        pytest.param(Share(index=0, count=2), Share(index=2, count=4), False, id="a half and the other's quarter"),
        pytest.param(Share(index=0, count=2), Share(index=1, count=3), True, id="a half and the middle third"),
    ],
)
def test_shares_of_different_divisions_overlap_where_they_have_stacks_in_common(
    one: Share, other: Share, expected: bool
) -> None:
    assert one.overlaps(other) is expected
    assert other.overlaps(one) is expected
