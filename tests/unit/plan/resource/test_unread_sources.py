"""A nested Stack whose status describes an older version of its sources is not judged by that status."""

from __future__ import annotations

from typing import Any

import pytest

from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import STACK
from hearth.plan.resource import readiness
from hearth.plan.state import source_versions
from support.units import blueprints

FOREIGN = Kind(group="example.org", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
METADATA = {"namespace": "prod", "labels": {}, "annotations": {}}
SOURCE = {"kind": "ConfigMap", "namespace": "prod", "name": "source", "resourceVersion": "5"}


@pytest.mark.parametrize(
    ("entry", "version", "kind", "is_outdated"),
    [
        pytest.param(SOURCE, 6, blueprints.CONFIG_MAP, True, id="an older version"),
        pytest.param(SOURCE, 5, blueprints.CONFIG_MAP, False, id="the present version"),
        pytest.param(SOURCE, 4, blueprints.CONFIG_MAP, False, id="a newer version, not seen here yet"),
        pytest.param(SOURCE | {"name": "other"}, 6, blueprints.CONFIG_MAP, False, id="another object"),
        pytest.param(SOURCE | {"namespace": "dev"}, 6, blueprints.CONFIG_MAP, False, id="another namespace"),
        pytest.param(SOURCE, 6, FOREIGN, False, id="a foreign kind of that name"),
        pytest.param(SOURCE | {"resourceVersion": "9" * 5000}, 6, blueprints.CONFIG_MAP, False, id="a forged number"),
        pytest.param(SOURCE | {"resourceVersion": {}}, 6, blueprints.CONFIG_MAP, False, id="no version"),
        pytest.param("text", 6, blueprints.CONFIG_MAP, False, id="no entry"),
    ],
)
def test_a_status_counts_once_it_describes_the_sources(entry: Any, version: int, kind: Kind, is_outdated: bool) -> None:
    nested = blueprints.make_child(
        {"metadata": {**METADATA, "name": "inner"}}, kind=STACK, uid="1", status={"sources": [entry]}
    )
    source = blueprints.make_child({"metadata": {**METADATA, "name": "source"}}, kind=kind, uid="2", version=version)

    found = readiness.find_unread_source(nested, source_versions.read(nested.fields), [source])

    assert (found is not None) == is_outdated
    if found is not None:
        assert found.message == "its operator has not read the latest change of configmap/source yet"
