"""Breaks the rules of tests/mutants/rules.yaml one at a time in a copy of the tree, and prints which story noticed.

The exit status is 1 if a broken rule is not noticed, or if its text no longer exists. Never touches the checkout.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("operator", "tests", "pyproject.toml")
LEFT_OUT = shutil.ignore_patterns("__pycache__", ".hypothesis", "results")
PATIENCE = 3
"""How many times as long as with every rule whole the stories may take: a broken rule can make them endless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One rule, and the way to break it."""

    rule: str
    file: str
    text: str
    becomes: str
    noticed_by: str = ""
    """The test that notices it, where no undisturbed story can: pytest's name of it."""

    def find_in(self, tree: Path) -> str | None:
        """The file with the rule broken, or None where its text does not occur exactly once."""
        path = self.path_in(tree)
        source = path.read_text() if path.exists() else ""
        return source.replace(self.text, self.becomes) if source.count(self.text) == 1 else None

    def path_in(self, tree: Path) -> Path:
        return tree / "operator" / "hearth" / self.file


def load() -> list[Mutant]:
    return [Mutant(**raw) for raw in yaml.safe_load(Path(__file__).with_name("rules.yaml").read_text())]


def copy_tree(place: Path) -> Path:
    """Copy the files that stories need to another place."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name, ignore=LEFT_OUT)
        else:
            shutil.copy(source, place / name)
    return place


def find_failure(tree: Path, *, test: str = "", limit: float | None = None) -> str:
    """The first story or test that fails in that tree; "" if all pass. limit: in seconds."""
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'operator'}:{tree / 'tests'}", "PYTHONDONTWRITEBYTECODE": "1"}
    stories = [sys.executable, str(tree / "tests" / "mutants" / "stories.py")]
    program = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--no-header", test] if test else stories
    try:
        done = subprocess.run(
            program, check=False, cwd=tree, env=environment, capture_output=True, text=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        return "it did not end"
    if done.returncode == 0:
        return ""
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr.strip().splitlines()[-1]


def try_mutant(mutant: Mutant, tree: Path, *, limit: float) -> tuple[bool, str]:
    """Whether the broken rule was noticed, and a line that reports it."""
    broken = mutant.find_in(tree)
    if broken is None:
        return False, f"OUTDATED  {mutant.rule}: its text does not occur exactly once in operator/hearth/{mutant.file}"
    path = mutant.path_in(tree)
    whole = path.read_text()
    path.write_text(broken)
    try:
        failure = find_failure(tree, test=mutant.noticed_by, limit=limit)
    finally:
        path.write_text(whole)
    return bool(failure), f"noticed   {mutant.rule}: {failure}" if failure else f"SURVIVES  {mutant.rule}"


def main(words: list[str]) -> int:
    """Try those whose rule holds one of the words, or all; the exit status."""
    chosen = [each for each in load() if not words or any(word in each.rule for word in words)]
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = copy_tree(Path(folder))
        started = time.monotonic()
        if failure := find_failure(tree):
            print(f"a story fails with every rule whole: {failure}")
            return 1
        seconds = time.monotonic() - started
        print(f"with every rule whole, the stories take {seconds:.0f} s; {len(chosen)} rules follow", flush=True)
        verdicts = []
        for mutant in chosen:
            is_noticed, line = try_mutant(mutant, tree, limit=PATIENCE * seconds)
            verdicts.append(is_noticed)
            print(line, flush=True)
    print(f"{sum(verdicts)} of {len(verdicts)} broken rules were noticed")
    return 0 if all(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
