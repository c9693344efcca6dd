"""Quantities are read, written and calculated as Kubernetes does it."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.template.text import quantity


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", Fraction(1)),
        ("1500m", Fraction(3, 2)),
        ("2Gi", Fraction(2 * 1024**3)),
        ("1.5Ki", Fraction(1536)),
        ("1e3", Fraction(1000)),
        ("1E3", Fraction(1000)),
        ("1E", Fraction(10**18)),
        ("-5M", Fraction(-5_000_000)),
        ("+.5", Fraction(1, 2)),
        ("3n", Fraction(3, 10**9)),
    ],
)
def test_reading(text: str, expected: Fraction) -> None:
    assert quantity.parse(text) == expected


@pytest.mark.parametrize("text", ["", "abc", "1 Gi", "1gi", "1Kib", "--1", "1e", "1K", "1e999999999", "１"])
def test_what_is_no_quantity(text: str) -> None:
    assert not quantity.is_quantity(text)
    with pytest.raises(ValueError, match="is not a quantity; write"):
        quantity.parse(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.5", "500m"),
        ("2000", "2k"),
        ("1e3", "1k"),
        ("0", "0"),
        ("0Gi", "0"),
        ("-2Ki", "-2Ki"),
        ("100", "100"),
    ],
)
def test_normal_form(text: str, expected: str) -> None:
    assert quantity.normalize(text) == expected


@given(st.integers(-(10**15), 10**15), st.sampled_from(["", "m", "k", "Ki", "Mi", "Gi", "M"]))
def test_the_normal_form_means_the_same(number: int, unit: str) -> None:
    normal = quantity.normalize(f"{number}{unit}")
    assert quantity.parse(normal) == quantity.parse(f"{number}{unit}")
    assert quantity.normalize(normal) == normal


def test_calculating() -> None:
    assert quantity.add("1Gi", "512Mi") == "1536Mi"
    assert quantity.add("1Gi", "1") == "1073741825"
    assert quantity.subtract("2", "500m") == "1500m"
    assert [quantity.compare("1Gi", "1G"), quantity.compare("1", "1000m"), quantity.compare("1", "2")] == [1, 0, -1]
    assert quantity.as_float("500m") == 0.5
    assert quantity.as_integer("2k") == 2000
    assert [quantity.sign("-1"), quantity.sign("0")] == [-1, 0]


def test_a_fraction_is_no_integer() -> None:
    assert not quantity.is_integer("500m")
    assert not quantity.is_integer("10E")
    with pytest.raises(ValueError, match="is not a 64-bit integer"):
        quantity.as_integer("500m")


@pytest.mark.parametrize("text", ["1" * 65, "0." + "1" * 100_000, "1" * 100_000 + "Gi", "1e" + "9" * 5_000])
def test_what_is_longer_than_any_quantity_is_none(text: str) -> None:
    assert not quantity.is_quantity(text)
    with pytest.raises(ValueError, match="is not a quantity"):
        quantity.parse(text)
