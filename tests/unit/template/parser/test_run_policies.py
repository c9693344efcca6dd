"""What a resource may state about work that runs to completion, and which mistakes it gets."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import chunked_work
from hearth.model.errors import Mistake
from hearth.template.blueprint import Completion, RunRetry
from hearth.template.parser import template_parser
from hearth.template.parser.template_parser import ResourceSource

PATH = "spec.template.resources.a"
MANIFEST = {"apiVersion": "batch/v1", "kind": "Job"}


def read(**words: Any) -> tuple[ResourceSource, list[Mistake]]:
    """A resource that says this, and what is wrong with it."""
    reader = template_parser.TemplateParser("spec.template")
    source = chunked_work.finish(reader.read({"resources": {"a": {"manifest": MANIFEST, **words}}}))
    return source.resources["a"], reader.mistakes


@pytest.mark.parametrize(
    ("words", "completion", "retry"),
    [
        pytest.param({}, None, None, id="nothing is stated"),
        pytest.param({"completion": "Once"}, Completion.ONCE, None, id="once"),
        pytest.param({"retry": {}}, None, RunRetry(), id="an empty retry is one"),
        pytest.param(
            {"completion": "Rerun", "retry": {"limit": 0, "maxBackoff": "10m"}},
            Completion.RERUN,
            RunRetry(limit=0, max_backoff=600.0),
            id="all of it",
        ),
    ],
)
def test_what_is_stated(words: dict[str, Any], completion: Completion | None, retry: RunRetry | None) -> None:
    """The words of the API as values."""
    source, mistakes = read(**words)
    assert (source.completion, source.retry, mistakes) == (completion, retry, [])


@pytest.mark.parametrize(
    ("words", "where", "what"),
    [
        ({"completion": "once"}, "completion", "must be one of Once, Rerun"),
        ({"completion": True}, "completion", "must be one of"),
        ({"retry": 3}, "retry", "must be a map"),
        ({"retry": {"limits": 3}}, "retry.limits", "'limits' is not known"),
        ({"retry": {"limit": -1}}, "retry.limit", "must be a whole number from 0"),
        ({"retry": {"limit": True}}, "retry.limit", "must be a whole number"),
        ({"retry": {"limit": 2**80}}, "retry.limit", "must be a whole number"),
        ({"retry": {"maxBackoff": "soon"}}, "retry.maxBackoff", "must be a duration, e.g. 90s or 10m"),
        ({"retry": {"maxBackoff": 5}}, "retry.maxBackoff", "must be a duration"),
        ({"retry": {"maxBackoff": "9" * 400 + "h"}}, "retry.maxBackoff", "must be a duration"),
    ],
    ids=str,
)
def test_a_mistake_is_named_by_its_path(words: dict[str, Any], where: str, what: str) -> None:
    """With what to write instead."""
    _, [mistake] = read(**words)
    assert mistake.path == f"{PATH}.{where}"
    assert what in mistake.message
