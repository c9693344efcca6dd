"""Outputs while a template is examined: any value with expressions, perhaps under a condition."""

from __future__ import annotations

from dataclasses import dataclass, field

from hearth.template import conditions, drafts, shapes
from hearth.template.checks import OutputSource
from hearth.template.conditions import Decided
from hearth.template.manifest import Dissection, Keys
from hearth.template.usage import Audience, Examiner, Sound
from hearth.template.work import Pieces


@dataclass(slots=True, kw_only=True)
class OutputDraft:
    """An output, examined."""

    name: str
    path: str
    dissection: Dissection
    sounds: dict[Keys, list[str | Sound]] = field(default_factory=dict)
    when: Decided | None = None


def examine_output(source: OutputSource, examiner: Examiner, audience: Audience) -> Pieces[OutputDraft]:
    """Look at one output."""
    dissection = Dissection(source.value, path=f"{source.path}.value")
    examiner.mistakes += dissection.mistakes
    sounds = yield from drafts.examine_marks(dissection, shapes.OPEN, examiner, audience)
    draft = OutputDraft(
        name=source.name,
        path=source.path,
        dissection=dissection,
        sounds=sounds,
    )
    if source.when is not None:
        draft.when = conditions.examine(source.when, examiner, path=f"{source.path}.when")
    return draft
