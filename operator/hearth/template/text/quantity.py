"""Kubernetes quantities (`1500m`, `2Gi`, `1e3`): exact parsing, formatting and arithmetic.

In expressions, a quantity is text, so the result of a calculation can be used in a manifest directly.
"""

from __future__ import annotations

import re
from fractions import Fraction

_FORM = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?")
_BINARY = {f"{letter}i": Fraction(1024) ** power for power, letter in enumerate("KMGTPE", start=1)}
_DECIMAL = {"n": -3, "u": -2, "m": -1, "": 0, "k": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}
LONGEST = 64
"""Maximum length in characters. The longest quantity that Kubernetes accepts has about thirty. Calculation time grows
with length."""
_NANO = Fraction(1, 10**9)
"""Kubernetes rounds finer values up."""
_LARGEST_EXPONENT = 60
"""Far above any quantity; a calculation takes longer with larger exponents."""


def _match(text: str) -> re.Match[str] | None:
    return _FORM.fullmatch(text) if len(text) <= LONGEST else None


def is_quantity(text: str) -> bool:
    """Return whether Kubernetes accepts `text` as a quantity."""
    form = _match(text)
    return form is not None and not _is_exponent_out_of_range(form[2] or "")


def parse(text: str) -> Fraction:
    """Parse `text` into a number. Raises ValueError."""
    form = _match(text)
    if form is None or _is_exponent_out_of_range(form[2] or ""):
        raise ValueError(f"'{text[:LONGEST]}' is not a quantity; write a number with a unit, e.g. 500m or 2Gi")
    number, suffix = Fraction(form[1]), form[2] or ""
    if suffix in _BINARY:
        return number * _BINARY[suffix]
    if suffix in _DECIMAL:
        return number * Fraction(1000) ** _DECIMAL[suffix]
    return number * Fraction(10) ** int(suffix[1:])


def write(number: Fraction, *, binary: bool) -> str:
    """Format `number` as its shortest exact text, with the largest unit that leaves it whole.

    A value finer than a billionth is rounded up.
    """
    number = Fraction(-(-number // _NANO)) * _NANO
    if binary and number.denominator == 1:
        for suffix, factor in reversed(_BINARY.items()):
            if number and number % factor == 0:
                return f"{number // factor}{suffix}"
        return str(number)
    for suffix, power in reversed(_DECIMAL.items()):
        scaled = number / Fraction(1000) ** power
        if scaled.denominator == 1 and (scaled or not suffix):
            return f"{scaled}{suffix}"
    raise AssertionError("every multiple of a billionth is whole in billionths")


def is_binary(text: str) -> bool:
    """Return whether `text` counts in powers of 1024. A sum does if its first operand does."""
    return text.endswith("i")


def normalize(text: str) -> str:
    """Return the text that Kubernetes would store for `text`. Raises ValueError."""
    return write(parse(text), binary=is_binary(text))


def compare(left: str, right: str) -> int:
    """Return -1, 0 or 1 if `left` is less than, equal to or greater than `right`."""
    difference = parse(left) - parse(right)
    return (difference > 0) - (difference < 0)


def add(left: str, right: str) -> str:
    """Return their sum, in the units of `left`."""
    return write(parse(left) + parse(right), binary=is_binary(left))


def subtract(left: str, right: str) -> str:
    """Return their difference, in the units of `left`."""
    return write(parse(left) - parse(right), binary=is_binary(left))


def is_integer(text: str) -> bool:
    """Return whether `text` is an integer of at most 64 bits."""
    number = parse(text)
    return number.denominator == 1 and -(2**63) <= number < 2**63


def as_integer(text: str) -> int:
    """Return the integer. Raises ValueError for any other text."""
    if not is_integer(text):
        raise ValueError(f"'{text}' is not a 64-bit integer; use asApproximateFloat()")
    return int(parse(text))


def as_float(text: str) -> float:
    """Return the nearest float."""
    return float(parse(text))


def sign(text: str) -> int:
    """Return -1, 0 or 1."""
    return compare(text, "0")


def _is_exponent_out_of_range(suffix: str) -> bool:
    is_exponent = len(suffix) > 1 and suffix[0] in "eE" and suffix not in _BINARY
    return is_exponent and abs(int(suffix[1:])) > _LARGEST_EXPONENT
