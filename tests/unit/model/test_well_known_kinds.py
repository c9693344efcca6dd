"""The data of a source, from objects of any shape."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model import well_known_kinds


@pytest.mark.parametrize(
    ("raw", "kind", "expected"),
    [
        pytest.param({"data": {"a": "b"}}, "ConfigMap", {"a": "b"}, id="data"),
        pytest.param({"data": {"a": 1, "b": "c"}}, "ConfigMap", {"b": "c"}, id="a number"),
        pytest.param({"data": "text"}, "Secret", {}, id="a text in place of the data"),
        pytest.param({"metadata": ["x"], "data": None}, "ConfigMap", {}, id="a list in place of the metadata"),
        pytest.param(
            {"spec": {"template": {}}}, "StackTemplate", {well_known_kinds.TEMPLATE_KEY: "{}"}, id="a template"
        ),
        pytest.param({"spec": "text"}, "StackTemplate", {}, id="a text in place of the spec"),
        pytest.param({"spec": {}}, "StackTemplate", {}, id="no template"),
    ],
)
def test_damage_counts_as_absent(raw: Any, kind: str, expected: dict[str, str]) -> None:
    assert well_known_kinds.find_source_data(raw, kind) == expected
