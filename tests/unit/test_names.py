"""A parameter or attribute that holds one of our classes shares a word with it, so the name reveals the class."""

from __future__ import annotations

import ast
import collections
import re
from collections.abc import Iterator

from support import repository

SOURCES = repository.OPERATOR / "hearth"
ROLES = {
    # distinguishes several objects of one class
    *("before", "after", "old", "new", "known", "found", "made", "wanted", "desired", "present", "live", "current"),
    *("previous", "former", "first", "last", "next", "other", "others", "each", "ours", "one", "given", "seen"),
    # the position in a structure of these objects
    *("inner", "outer", "root", "parent", "nested", "group", "member", "node", "item", "element", "home"),
}
"""Role words that are more informative than the class name."""
QUANTITIES = {
    *("Duration", "Expression", "ValidExpression", "ConditionValue", "Node", "Shape", "Bound", "Weight"),
    *("Type", "Evaluable", "Severity", "Action", "Kind", "Kinds", "Value", "Element", "Effort", "Request", "Context"),
}
"""Classes for plain values, like `int`: variables are named after the quantity. Context comes from libraries."""
PAIRS = {
    ("pod", "FoundChild"): "a child of that kind",
    ("chosen", "Child"): "which of several",
    ("named", "Child"): "which of several",
    ("bound", "Child"): "which of several: the one that a mark is bound to",
    ("successor", "Child"): "which of several",
    ("replaced", "Child"): "which of several",
    ("cluster", "KubeconfigEntry"): "the name of the list in a kubeconfig",
    ("user", "KubeconfigEntry"): "the name of the list in a kubeconfig",
    ("service", "ManifestDocument"): "a document of that kind",
    ("endpoints", "ManifestDocument"): "a document of that kind",
    ("role", "ManifestDocument"): "a document of that kind",
    ("service", "ObjectRef"): "an object of that kind",
    ("groups", "StackCache"): "the cache of the other kind of Stack",
    ("tenancy", "Mode"): "`tenancy.Mode`: the module is the other half of the name",
    ("members", "ResourceCounts"): "a field of the API",
    ("defaults", "InstanceOptions"): "a field of the API",
    ("target", "MarkedObject"): "a field of the API",
    ("text", "InterpolatedString"): "a text with expressions in it",
    ("reference", "KubeconfigRef"): "the word in full",
    ("worker", "Process"): "a process that works for a pool",
    ("snapshot", "StackObjects"): "all objects of a Stack at one time",
    ("record", "Versioned"): "anything that has a version",
    ("replaced_by", "Successor"): "a field of the API",
    ("problem", "DefinitionRejection"): "also of the cluster of a definition",
    ("cluster_problem", "DefinitionRejection"): "also of the cluster of a definition",
    ("reached", "StackView"): "which of several",
    ("general", "HealthRuleEntry"): "the rule for all kinds without one",
}
"""Exceptions, each with its reason."""


def split(name: str) -> list[str]:
    """Split a name into words, in lower case and singular."""
    spaced = re.sub(r"([a-z0-9])([A-Z])|([A-Z]+)(?=[A-Z][a-z])", r"\1\3_\2", name).lower()
    return [re.sub(r"ies$", "y", re.sub(r"(?<=[^s])s$", "", word)) for word in spaced.split("_") if word]


def share_word(name: str, classes: set[str]) -> bool:
    """Whether a word of the name begins like a word of a class."""
    words = {word for each in classes for word in split(each)}
    return any(
        own == word or (own[:4] == word[:4] and min(len(own), len(word)) > 3) or (len(own) > 2 and word.startswith(own))
        for own in split(name)
        for word in words
    )


def flatten(annotation: ast.expr | None) -> list[ast.expr]:
    """The members of a union."""
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        return flatten(annotation.left) + flatten(annotation.right)
    return [annotation] if annotation is not None else []


def find_class(annotation: ast.expr | None) -> str:
    """The only class of an annotation, ignoring None."""
    members = [each for each in flatten(annotation) if not (isinstance(each, ast.Constant) and each.value is None)]
    match members:
        case [ast.Name(id=name)] | [ast.Attribute(attr=name)]:
            return name
    return ""


def list_annotated(tree: ast.Module) -> Iterator[tuple[str, str, int]]:
    """Name, class and line of all parameters, attributes and locals with an annotation."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg, find_class(node.annotation), node.lineno
        elif isinstance(node, ast.AnnAssign):
            name = node.target.id if isinstance(node.target, ast.Name) else getattr(node.target, "attr", "")
            yield name, find_class(node.annotation), node.lineno


def find_families(trees: list[ast.Module]) -> dict[str, set[str]]:
    """For each of our classes: its bases, and the unions that it belongs to."""
    families: dict[str, set[str]] = {}
    unions: dict[str, set[str]] = collections.defaultdict(set)
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.ClassDef):
            families.setdefault(node.name, set()).update(
                {base.id for base in node.bases if isinstance(base, ast.Name)}, {node.name}
            )
        elif isinstance(node, ast.AnnAssign) and find_class(node.annotation) == "TypeAlias":
            for member in flatten(node.value):
                if isinstance(member, ast.Name) and isinstance(node.target, ast.Name):
                    unions[member.id].add(node.target.id)
    return {name: family | unions[name] for name, family in families.items()}


def test_names_share_a_word_with_their_class() -> None:
    trees = {file: ast.parse(file.read_text()) for file in sorted(SOURCES.rglob("*.py"))}
    families = find_families(list(trees.values()))
    strangers = [
        (f"{file.relative_to(SOURCES)}:{line}", (name.strip("_"), cls))
        for file, tree in trees.items()
        for name, cls, line in list_annotated(tree)
        if cls in families and cls not in QUANTITIES
        if name.strip("_") not in ROLES and not share_word(name, families[cls])
    ]

    assert [each for each in strangers if each[1] not in PAIRS] == []
    assert PAIRS.keys() - {pair for _, pair in strangers} == set()


def test_a_stranger_is_recognized() -> None:
    """Otherwise, the other test would always pass."""
    assert share_word("status", {"ResourceStatus"})
    assert share_word("applied", {"AppliedFields"})
    assert share_word("step", {"Apply", "Step"})
    assert not share_word("binder", {"PartialEvaluator"})
    assert not share_word("subject", {"ResourceContext"})
