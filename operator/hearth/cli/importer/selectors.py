"""Label selectors as the API server evaluates them. Must not know what is selected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.cli import object_fields


def is_match(selector: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Return whether labels satisfy a selector; an empty one matches everything, one with an unknown operator nothing."""
    stated = object_fields.mapping(selector, "matchLabels")
    expressions = object_fields.entries(selector, "matchExpressions")
    return stated.items() <= labels.items() and all(is_satisfied(each, labels) for each in expressions)


def is_satisfied(expression: Mapping[str, Any], labels: Mapping[str, Any]) -> bool:
    """Return whether labels satisfy one expression: `{key: tier, operator: In, values: [web]}`."""
    key, values = object_fields.text(expression, "key"), object_fields.texts(expression, "values")
    match expression.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
