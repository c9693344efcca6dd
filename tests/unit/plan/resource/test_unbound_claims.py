"""Texts in manifests and statuses that name claims."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.plan.resource import unbound_claims


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        pytest.param(None, [], id="no status"),
        pytest.param({"outputs": {"claim": "a", "size": 3, "more": ["b", {"c": "d"}]}}, ["a", "b", "d"], id="outputs"),
        pytest.param({"conditions": [{"type": "Ready"}], "outputs": None}, ["Ready"], id="conditions"),
    ],
)
def test_all_texts_of_a_status_may_be_names_of_claims(value: Any, texts: list[str]) -> None:
    assert sorted(unbound_claims.list_texts(value)) == sorted(texts)
