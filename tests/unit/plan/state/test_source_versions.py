"""The sources in a status: the oldest version of each, from statuses of any shape, and no more than a status may list."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model.kinds import ObjectRef
from hearth.plan.state import source_versions

TEMPLATE = ObjectRef(group="", kind="ConfigMap", namespace="prod", name="template")
ENTRY = {"kind": "ConfigMap", "namespace": "prod", "name": "template", "resourceVersion": "5"}


@pytest.mark.parametrize(
    "sources",
    [
        pytest.param("text", id="no list"),
        pytest.param(["text"], id="no entry"),
        pytest.param([ENTRY | {"kind": "Pod"}], id="a kind that no definition is read from"),
        pytest.param([ENTRY | {"name": "x" * 5000}], id="a long name"),
        pytest.param([ENTRY | {"namespace": "x" * 5000}], id="a long namespace"),
        pytest.param([ENTRY | {"resourceVersion": "9" * 5000}], id="a long version"),
        pytest.param([ENTRY | {"resourceVersion": {}}], id="no version"),
    ],
)
def test_an_entry_that_no_operator_wrote_is_ignored(sources: Any) -> None:
    assert source_versions.read({"status": {"sources": sources}}) == {}


@pytest.mark.parametrize(
    ("own", "nested", "expected"),
    [
        pytest.param("5", "7", "5", id="the Stack itself has not read the change"),
        pytest.param("7", "5", "5", id="a nested Stack has not read the change"),
        pytest.param("7", "10", "7", id="versions are compared as numbers"),
    ],
)
def test_a_source_has_the_oldest_version_that_a_status_describes(own: str, nested: str, expected: str) -> None:
    listed = source_versions.encode({TEMPLATE: own}, [{TEMPLATE: nested}])

    assert listed == [ENTRY | {"resourceVersion": expected}]
    assert source_versions.read({"status": {"sources": listed}}) == {TEMPLATE: expected}


def test_a_status_with_too_many_sources_lists_those_of_the_stack_first() -> None:
    own = ObjectRef(group="", kind="Secret", namespace="prod", name="z")
    forged = [ENTRY | {"name": f"a{index}"} for index in range(5000)]
    nested = [source_versions.read({"status": {"sources": forged}})] * 3

    listed = source_versions.encode({own: "1"}, [*nested, {TEMPLATE: "5"}])

    assert len(listed) == source_versions.MAX_SOURCES
    assert listed[0]["name"] == "z"


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({"observedDefinitionRevision": 3}, True, id="an instance"),
        pytest.param({"sources": [ENTRY]}, False, id="another kind that lists sources"),
        pytest.param({"observedDefinitionRevision": "3"}, False, id="another type"),
    ],
)
def test_an_instance_is_known_by_the_revision_in_its_status(status: Any, expected: bool) -> None:
    assert source_versions.is_instance({"status": status}) == expected
