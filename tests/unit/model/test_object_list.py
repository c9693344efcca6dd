"""Objects of a list: packed until they are read, and written for another process."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import child, object_list
from hearth.model.kinds import Kind
from hearth.model.object_list import ObjectList
from hearth.sandbox import frames, worker
from hearth.template.blueprint import Known, Pending
from hearth.template.cel import evaluation, expressions
from hearth.template.cel.cost import Cost
from hearth.template.cel.evaluation import Absent, Answer, Failure, PackedInputs, Value

KIND = Kind(group="apps", version="v1", name="Deployment", plural="deployments", namespaced=True)


def make_child(name: str, **data: Any) -> child.Child:
    metadata = {"name": name, "namespace": "a", "uid": f"u-{name}", "resourceVersion": "1", "labels": {"x": "y"}}
    return child.parse_child({"metadata": metadata, "data": data}, kind=KIND, paths=(("data",),))


class InWorker(evaluation.Untimed):
    """Unpacks nothing itself, and evaluates as an evaluator process does."""

    def admits(self, _cost: Cost) -> bool:
        return False

    def ask(self, text: str, data: object) -> Answer | None:
        assert isinstance(data, PackedInputs)
        letter, content = worker.answer(frames.PACKED, text, data.write())
        match letter:
            case frames.VALUE:
                return Value(content)
            case frames.ABSENT:
                return Absent(tuple(content.decode().split("\n")))
        return Failure(content.decode())


def evaluate(text: str, objects: ObjectList, evaluator: evaluation.Evaluator) -> object:
    bound = expressions.bind(expressions.parse(text), path="p", constants={}, collections=("l",), evaluator=evaluator)
    return bound.evaluate({"l": objects})


def test_written_objects_are_read_as_they_were() -> None:
    objects = ObjectList([make_child("a", k="v"), {"metadata": {"name": "gone"}}])

    assert [object_list.read(line) for line in objects.write()] == list(objects)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("l.map(x, x.metadata.name)", Known(["a", "b"])),
        ("string(l.all(x, size(x.data.k) == 1))", Known("true")),
        ("l[1].data.missing", Pending(missing=("l[1].data.missing",))),
        ("l.map(x, x.data.other)", Pending(missing=("l[*].data.other",))),
    ],
)
def test_an_evaluator_process_gives_what_this_process_gives(text: str, expected: object) -> None:
    objects = ObjectList([make_child("a", k="v"), make_child("b", k="w")])

    assert evaluate(text, objects, evaluation.ALONE) == expected
    assert evaluate(text, objects, InWorker()) == expected


def test_equal_lists_have_one_identity_and_others_another() -> None:
    def identify(*objects: child.Child) -> bytes:
        return ObjectList(objects).identify()

    assert identify(make_child("a", k="v")) == identify(make_child("a", k="v"))
    assert identify(make_child("a", k="v")) != identify(make_child("a", k="w"))
    assert identify(make_child("a")) != identify(make_child("b"))
