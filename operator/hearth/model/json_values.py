"""Number of values in a JSON text that is not parsed yet, by its commas and opening brackets."""

from __future__ import annotations

import itertools
import re

SEPARATOR = re.compile(rb'(?:[^",\[{]++|"(?:[^"\\]++|\\.)*+(?:"|\\?\Z))*+(?:([,\[{])|\Z)', re.DOTALL)
"""Up to the next comma or opening bracket outside of texts, or the end: no byte is looked at twice, even in a cut text."""


def has_more_values(raw: bytes, most: int) -> bool:
    """Return whether there are more than `most` commas and opening brackets outside of texts.

    Each of them is looked at only if the number including those in texts is too high, which it rarely is.
    """
    if sum(map(raw.count, (b",", b"[", b"{"))) <= most:
        return False
    found = itertools.islice(SEPARATOR.finditer(raw), most + 1)
    return sum(1 for each in found if each.lastindex) > most
