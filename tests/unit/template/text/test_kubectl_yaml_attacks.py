"""What YAML tried and did not get: an object of Python, a call, a file."""

from __future__ import annotations

from pathlib import Path

import hypothesis
import pytest
import yaml
from hypothesis import strategies

from hearth.template.text import kubectl_yaml

TAGS = (
    "!!python/object/apply:os.mkdir [{path}]",
    "!!python/object/apply:pathlib.Path.mkdir {{self: {path}}}",
    "!!python/object/new:subprocess.Popen [[mkdir, {path}]]",
    "!!python/name:os.mkdir ''",
    "!!python/module:antigravity ''",
    "!!python/object:hearth.model.kinds.Kind {{plural: x}}",
    "!<tag:yaml.org,2002:python/object/apply:os.mkdir> [{path}]",
    "!!python/tuple [1, 2]",
    "!include {path}",
    "!!set {{a: null}}",
    "!!omap [a: 1]",
    "!!timestamp 2024-01-01",
)


@pytest.mark.parametrize("text", TAGS)
def test_a_tag_makes_no_object_of_python(text: str, tmp_path: Path) -> None:
    """It is refused, or what it stands before is taken as it is written."""
    target = tmp_path / "made"

    values = read(text.format(path=target))

    assert all(map(is_plain, values))
    assert not target.exists()


@hypothesis.given(
    tag=strategies.from_regex(r"[!a-z/:.]{1,20}", fullmatch=True), value=strategies.sampled_from(("[a]", "{a: b}", "1"))
)
def test_all_that_the_tag_the_values_are_those_of_json(tag: str, value: str) -> None:
    """Or it is refused with a message."""
    assert all(map(is_plain, read(f"!{tag} {value}")))


def read(text: str) -> list[object]:
    """The values of the documents; none where they are refused."""
    try:
        return [each.value for each in kubectl_yaml.parse_documents(text)]
    except yaml.YAMLError as error:
        assert kubectl_yaml.describe(error)  # noqa: PT017 -- both ends are right, each with a condition of its own
        return []


def is_plain(value: object) -> bool:
    """Whether a value is one of JSON's."""
    if isinstance(value, dict):
        return all(type(key) is str and is_plain(each) for key, each in value.items())
    return all(map(is_plain, value)) if isinstance(value, list) else type(value) in (str, int, float, bool, type(None))
