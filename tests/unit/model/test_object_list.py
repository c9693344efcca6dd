"""Expressions over objects of a list, which are packed until they are read."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import child
from hearth.model.kinds import Kind
from hearth.model.object_list import ObjectList
from hearth.template.blueprint import EvaluationError, Known, Pending
from hearth.template.cel import expressions

KIND = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)


def make_child(name: str, **data: Any) -> child.Child:
    metadata = {"name": name, "namespace": "a", "uid": f"u-{name}", "resourceVersion": "1", "labels": {"x": "y"}}
    return child.parse_child({"metadata": metadata, "data": data}, kind=KIND, paths=(("data",),))


def evaluate(text: str, objects: ObjectList) -> object:
    bound = expressions.bind(expressions.parse(text), path="p", constants={}, collections=("l",))
    return bound.evaluate({"l": objects})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("l.map(x, x.metadata.name)", Known(["a", "b"])),
        ("string(l.all(x, size(x.data.k) == 1))", Known("true")),
        ("l[1].data.missing", Pending(missing=("l[1].data.missing",))),
        ("l.map(x, x.data.other)", Pending(missing=("l[*].data.other",))),
    ],
)
def test_an_expression_reads_the_objects_of_a_list(text: str, expected: object) -> None:
    assert evaluate(text, ObjectList([make_child("a", k="v"), make_child("b", k="w")])) == expected


def test_a_list_that_is_too_large_to_be_read_is_refused_unread() -> None:
    objects = ObjectList([make_child(f"a{number}", k="v" * 60_000) for number in range(50)])

    assert evaluate("size(l)", objects) == EvaluationError(
        path="p",
        message="expression reads l, 2.9 MiB of objects; at most 2.4 MiB of lists can be read at once, with all fields "
        "that Stacks read: read fewer fields, or make the list shorter: `size(l)`",
    )


def test_five_thousand_objects_are_read() -> None:
    assert evaluate(
        "l.all(x, has(x.data.k))", ObjectList([make_child(f"a{number}", k="v") for number in range(5_000)])
    ) == Known(True)
