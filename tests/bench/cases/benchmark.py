"""What every benchmark is: a name, a sentence, and how it is measured."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bench.instruments.figures import Phase
from bench.instruments.lab import BenchmarkOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One of the catalogue."""

    id: str
    work: str
    """In words."""
    measure: Callable[[BenchmarkOptions, str], Awaitable[list[Phase]]]
    """Given what is wished and the name of the benchmark."""
    is_usual: bool = True
    """Whether it runs where none is named; one that takes many minutes does not."""
