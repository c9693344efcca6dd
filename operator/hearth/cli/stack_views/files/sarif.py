"""Mistakes in files as SARIF 2.1.0, which code hosts show beside the lines. Pure.

Source: https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/sarif-v2.1.0-os.html
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

import hearth
from hearth.cli.stack_views.files import stack_files
from hearth.model.child import Object

SCHEMA: Final = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
RULES: Final = {
    "invalid-parameter": "A parameter is missing, unknown, or not of its type.",
    "invalid-dependency": "A resource depends on one that does not exist, or on itself.",
    "invalid-condition": "A condition or a rule of readiness is no valid expression.",
    "invalid-manifest": "A manifest has an invalid field or expression.",
    "invalid-definition": "The definition of the Stack is not valid.",
}
"""What each rule reports; the place of a mistake decides its rule."""
PLACES: Final = (
    (re.compile(r"spec\.(template\.)?parameters\b"), "invalid-parameter"),
    (re.compile(r".*\.dependsOn(\[\d+\])?$"), "invalid-dependency"),
    (re.compile(r"spec\.template\.conditions\b"), "invalid-condition"),
    (re.compile(r"spec\.template\.(resources\.[^.]+\.)?manifest\b"), "invalid-manifest"),
    (
        re.compile(r"spec\.template\.(resources\.[^.]+\.)?(when|forEach|key|readyWhen|failedWhen)\b"),
        "invalid-condition",
    ),
)
"""By pattern of a path; the first that matches counts."""


def report(mistakes: Sequence[Object]) -> Object:
    """Return the log of one run. mistakes: with file, line, kind, stack, path and message."""
    rules = [{"id": name, "shortDescription": {"text": text}} for name, text in RULES.items()]
    driver = {"name": "kubectl-stack-lint", "version": hearth.__version__, "rules": rules}
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": [*map(describe, mistakes)]}
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def describe(mistake: Object) -> Object:
    """Return one result."""
    rule = find_rule(mistake["path"])
    place: Object = {
        # Relative to the folder in which the command runs, as code hosts expect it.
        "artifactLocation": {"uri": quote(mistake["file"].removeprefix("./"))},
        "region": {"startLine": mistake["line"]},
    }
    return {
        "ruleId": rule,
        "ruleIndex": list(RULES).index(rule),
        "level": "error",
        "message": {"text": stack_files.describe_mistake(mistake)},
        "locations": [{"physicalLocation": place, "logicalLocations": [{"fullyQualifiedName": mistake["path"]}]}],
    }


def find_rule(path: str) -> str:
    """Return the rule that reports mistakes at a path."""
    return next((rule for pattern, rule in PLACES if pattern.match(path)), "invalid-definition")
