"""Paths of the repository's parts, so that tests still find them after a move."""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
MANIFESTS: Final = ROOT / "manifests"
EXAMPLES: Final = MANIFESTS / "examples"
OPERATOR: Final = ROOT / "operator"
"""The Python project with the package `hearth` and its command."""
TESTS: Final = ROOT / "tests"
DATA: Final = TESTS / "data"
CONTROL_PLANE: Final = TESTS / "control_plane" / "controlplane.py"
"""The program that starts a control plane."""
