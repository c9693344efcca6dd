"""What is known of a template after its validation, before its blueprint is assembled."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from hearth.model import value_class
from hearth.template.cel.expression_validator import ExpressionValidator
from hearth.template.compiler.output_analysis import AnalyzedOutput
from hearth.template.compiler.resource_analysis import AnalyzedResource
from hearth.template.compiler.sensitivity import SensitivityTracker
from hearth.template.compiler.template_conditions import Conditions
from hearth.template.parser.template_parser import TemplateSource


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """A validated template with the values of its parameters, before any expression of a resource is bound."""

    source: TemplateSource
    params: dict[str, Any] = field(repr=False)
    is_known: bool
    """Whether all parameters are valid. If not, expressions are not evaluated: their mistakes would only follow."""
    sensitivity: SensitivityTracker
    resources: list[AnalyzedResource]
    outputs: list[AnalyzedOutput]
    conditions: Conditions
    edges: dict[str, list[str]]
    validator: ExpressionValidator
