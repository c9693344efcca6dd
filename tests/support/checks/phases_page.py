"""Checks transitions against the table of phases, and generates the page `docs/phases.md` from it.

Run: PYTHONPATH=operator:tests python -m support.checks.phases_page > docs/phases.md
"""

from __future__ import annotations

from hearth.model import phases
from hearth.model.phases import Phase, PhaseConditions, PhaseRow


def find(text: object) -> Phase | None:
    """The phase that `text` names; None if it names none."""
    return next((phase for phase in Phase if phase == text), None)


def is_legal(before: Phase | None, after: Phase) -> bool:
    """Whether `after` may be written over `before` (None: no phase was ever written)."""
    if before is None:
        return after in phases.FIRST
    return after == before or after in phases.TABLE[before].next


def document() -> str:
    """Generate `docs/phases.md`: the table of phases, and a diagram of the usual transitions."""
    rows = "\n".join(write_row(phase, row) for phase, row in phases.TABLE.items())
    return f"""\
# Phases of a Stack

Generated from the table in `operator/hearth/model/phases.py`. If this page is stale, a test fails and prints the
command that updates it.

| phase | meaning | Ready | Reconciling | Stalled |
|---|---|---|---|---|
{rows}

A dash means that the condition is False or absent. The message of `Ready` lists the resources that the Stack waits for, or the problem.

The diagram shows the usual course. A new definition, a suspension and a deletion can follow any phase before a
deletion, and a failed phase returns to `…InProgress` or `…Complete` when a retry succeeds. The table in the code lists
every permitted transition.

```mermaid
{draw()}
```
"""


def write_row(phase: Phase, row: PhaseRow) -> str:
    """Format the lines of one phase in the table, in Markdown."""
    lines = [write_line(f"`{phase}`", row.meaning, row.conditions)]
    if row.conditions_if_automatic is not None:
        lines.append(write_line(f"`{phase}`, automatic", row.meaning, row.conditions_if_automatic))
    return "\n".join(lines)


def write_line(phase: str, meaning: str, conditions: PhaseConditions) -> str:
    """Format one line of the table in Markdown."""
    ready = (
        conditions.ready
        if conditions.ready == "True"
        else f"{conditions.ready}, {conditions.reason or 'the first problem'}"
    )
    return f"| {phase} | {meaning} | {ready} | {'True' if conditions.reconciling else '–'} | {'True' if conditions.stalled else '–'} |"


def draw() -> str:
    """Draw the diagram in Mermaid syntax."""
    edges = [("[*]", str(phases.FIRST[0]))]
    edges += [(str(phase), str(after)) for phase, row in phases.TABLE.items() for after in row.drawn]
    edges += [(str(phase), "[*]") for phase, row in phases.TABLE.items() if not row.next]
    return "\n".join(["stateDiagram-v2", *(f"    {before} --> {after}" for before, after in edges)])


if __name__ == "__main__":
    print(document(), end="")
