"""The metrics of two processes as those of one: equal samples are added up. Must not know what they mean."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

PREFIX = "hearth_"
OF_ONE_PROCESS = frozenset({"hearth_build", "hearth_build_info", "hearth_leader"})
"""Metrics that describe a single process. So do all those of the libraries, e.g. its memory."""
HELP = "# HELP "


def merge(own: bytes, other: bytes) -> bytes:
    """Return the metrics of this process with those of the other, both in the text format of Prometheus."""
    if not other:
        return own
    added = read_families(other.decode(errors="replace"))
    lines: list[str] = []
    for name, family in read_families(own.decode()).items():
        lines += merge_family(family, added.pop(name, []) if is_shared(name) else [])
    for name, family in added.items():
        if is_shared(name):
            lines += family
    return "".join(f"{line}\n" for line in lines).encode()


def is_shared(family: str) -> bool:
    """Return whether the samples of a family may be added up."""
    return family.startswith(PREFIX) and family not in OF_ONE_PROCESS


def read_families(text: str) -> dict[str, list[str]]:
    """Return the lines of each family by its name."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith(HELP):
            name = line.removeprefix(HELP).partition(" ")[0]
        found.setdefault(name, []).append(line)
    return found


def merge_family(own: list[str], other: list[str]) -> Iterator[str]:
    """Yield the lines of a family: each sample with the sum of its values."""
    added = dict(read_samples(other))
    for line in own:
        key = line.rpartition(" ")[0]
        yield add(line, added.pop(key)) if key in added else line
    yield from (f"{key} {value!r}" for key, value in added.items())


def read_samples(lines: list[str]) -> Iterator[tuple[str, float]]:
    """Yield each sample as its name with labels, and its value."""
    for line in lines:
        key, _, value = line.rpartition(" ")
        # The other process may send anything.
        with contextlib.suppress(ValueError):
            if not line.startswith("#") and key:
                yield key, float(value)


def add(line: str, value: float) -> str:
    """Return the line with a larger value."""
    key, _, before = line.rpartition(" ")
    return f"{key} {float(before) + value!r}"
