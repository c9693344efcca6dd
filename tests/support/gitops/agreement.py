"""The table of docs/gitops.md: what each tool that waits finds in the phases of a Stack. Made by running the tools.

Must not know how they are run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from hearth.model import names, phases
from hearth.model.child import Object
from hearth.model.phases import Phase
from support import repository
from support.gitops import recorded_statuses

PAGE: Final = repository.DOCS / "gitops.md"
TOOLS: Final = ("kubectl wait", "kstatus: Flux, Helm 4", "Argo CD")
HEADER: Final = f"| phase | {' | '.join(TOOLS)} |"
LINE: Final = re.compile(r"^\| (?P<phase>[^|]+) \| (?P<found>[^|]+(?: \| [^|]+){2}) \|$", re.MULTILINE)


def list_rows() -> Mapping[str, Object]:
    """Return by the name of each row an object in that phase, in the order of docs/phases.md."""
    rows = {"not seen yet": next(raw for each, raw in recorded_statuses.record().items() if is_new(each))}
    for phase, row in phases.TABLE.items():
        if phase is Phase.DELETE_COMPLETE:
            # It is never stored: the Stack is removed at that moment.
            continue
        rows[f"`{phase}`"] = recorded_statuses.find(names.STACK, phase)
        if row.conditions_if_automatic is not None:
            rows[f"`{phase}`, automatic"] = recorded_statuses.find(names.STACK, phase, is_automatic=True)
    return rows


def is_new(situation: recorded_statuses.Situation) -> bool:
    """Return whether it is a Stack that the operator has not seen yet."""
    return situation.kind == names.STACK and not situation.phase


def read_page(tool: str) -> dict[str, str]:
    """Return what the page says of a tool, by row."""
    table = PAGE.read_text().partition(HEADER)[2].partition("\n\n")[0]
    column = TOOLS.index(tool)
    found = {line["phase"]: line["found"].split(" | ")[column] for line in LINE.finditer(table)}
    return {phase: text for phase, text in found.items() if set(phase) != {"-"}}
