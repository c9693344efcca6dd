"""Outputs during the validation of a template: any value with expressions, with an optional condition."""

from __future__ import annotations

from dataclasses import dataclass, field

from hearth.model.chunked_work import ChunkedWork
from hearth.template.cel.expression_validator import AllowedNames, ExpressionValidator, ValidExpression
from hearth.template.compiler import resource_analysis, template_conditions
from hearth.template.compiler.manifest_template import Keys, ParsedManifest
from hearth.template.compiler.template_conditions import ConditionValue
from hearth.template.parser.template_parser import OutputSource
from hearth.template.schema import shapes


@dataclass(slots=True, kw_only=True)
class AnalyzedOutput:
    """A validated output."""

    name: str
    path: str
    parsed: ParsedManifest
    expressions: dict[Keys, list[str | ValidExpression]] = field(default_factory=dict)
    when: ConditionValue | None = None


def analyze_output(
    source: OutputSource, validator: ExpressionValidator, allowed: AllowedNames
) -> ChunkedWork[AnalyzedOutput]:
    """Validate one output."""
    dissection = ParsedManifest(source.value, path=f"{source.path}.value")
    validator.mistakes += dissection.mistakes
    expressions = yield from resource_analysis.validate_strings(dissection, shapes.OPEN, validator, allowed)
    analyzed = AnalyzedOutput(
        name=source.name,
        path=source.path,
        parsed=dissection,
        expressions=expressions,
    )
    if source.when is not None:
        analyzed.when = template_conditions.examine(source.when, validator, path=f"{source.path}.when")
    return analyzed
