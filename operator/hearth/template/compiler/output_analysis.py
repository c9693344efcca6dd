"""Outputs while a template is examined: any value with expressions, perhaps under a condition."""

from __future__ import annotations

from dataclasses import dataclass, field

from hearth.template.cel.expression_validator import Audience, Examiner, Sound
from hearth.template.chunked_work import Pieces
from hearth.template.compiler import resource_analysis, template_conditions
from hearth.template.compiler.manifest_template import Dissection, Keys
from hearth.template.compiler.template_conditions import Decided
from hearth.template.parser.template_parser import OutputSource
from hearth.template.schema import shapes


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
    sounds = yield from resource_analysis.examine_marks(dissection, shapes.OPEN, examiner, audience)
    draft = OutputDraft(
        name=source.name,
        path=source.path,
        dissection=dissection,
        sounds=sounds,
    )
    if source.when is not None:
        draft.when = template_conditions.examine(source.when, examiner, path=f"{source.path}.when")
    return draft
