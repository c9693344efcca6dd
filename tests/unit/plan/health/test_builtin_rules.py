"""The built-in table of health rules, on objects as their controllers write them (tests/data/health)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hearth.model.child_fields import project_fields
from hearth.model.kinds import Kind
from hearth.plan.health import health_rules, rule_parser
from hearth.plan.health.health_rules import HealthState
from hearth.template.text import kubectl_yaml
from support import repository

DATA = repository.DATA / "health"
GENERATION = 2


def find_kind(of: str) -> Kind:
    """The kind for `group/version Kind`."""
    api_version, name = of.split(" ")
    group, _, version = api_version.rpartition("/")
    return Kind(group=group, version=version, name=name, plural=name.lower() + "s", namespaced=True)


def read_rows() -> Iterator[Any]:
    """Every row, with its kind and object."""
    for file in sorted(DATA.glob("*.yaml")):
        for document in kubectl_yaml.parse_documents(file.read_text()):
            for each in document.value:
                kind = find_kind(each["of"])
                for row in each["rows"]:
                    yield pytest.param(kind, row, id=f"{kind.key} {row['is']}")


ROWS = list(read_rows())


def make_object(kind: Kind, row: dict[str, Any]) -> dict[str, Any]:
    """The object of a row, with the common fields of all objects."""
    metadata = {"name": "a", "uid": "1", "generation": GENERATION}
    made = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    return made | {key: row[key] for key in ("spec", "status") if key in row}


@pytest.mark.parametrize(("kind", "row"), ROWS)
def test_an_object_is_judged_as_its_community_judges_it(kind: Kind, row: dict[str, Any]) -> None:
    whole, expected = make_object(kind, row), row["expect"]
    verdict = health_rules.assess(whole, kind=kind)
    said: dict[str, object] = {"state": verdict.state.value, "reason": verdict.reason, "message": verdict.message}
    said["terminal"] = verdict.terminal
    assert {key: said[key] for key in ({"terminal": False} | expected)} == {"terminal": False} | expected
    assert verdict.reason
    assert (
        health_rules.assess(project_fields(whole, kind=kind, paths=health_rules.DEFAULT_RULES.paths(kind)), kind=kind)
        == verdict
    )


def test_there_are_forty_kinds_and_each_in_several_states() -> None:
    by_kind: dict[str, set[str]] = {}
    for param in ROWS:
        kind, row = param.values
        by_kind.setdefault(kind.key, set()).add(row["expect"]["state"] + str(row["expect"].get("reason")))
    assert len(by_kind) >= 40
    only_there = {"ProviderConfig.aws.upbound.io", "ImageConfig.pkg.crossplane.io"}
    assert {key for key, states in by_kind.items() if len(states) < 2} == only_there
    assert all(param.values[1]["source"] for param in ROWS)


def test_none_of_the_rows_is_judged_by_the_general_rule() -> None:
    missing = {param.values[0].key for param in ROWS if health_rules.built_in().find(param.values[0]) is None}
    assert missing == set()


@pytest.mark.parametrize("status", [None, [], "x", {"conditions": "x"}, {"conditions": [1, {"type": 3}]}, {"phase": 7}])
def test_no_shape_breaks_a_rule(status: Any) -> None:
    for kind in {param.values[0].key: param.values[0] for param in ROWS}.values():
        verdict = health_rules.assess({"metadata": {"generation": 2}, "spec": {}, "status": status}, kind=kind)
        assert verdict.reason
        assert verdict.state is HealthState.FAILED or not verdict.terminal


def test_every_rule_reads_its_status_only_where_it_must() -> None:
    table, _ = rule_parser.read(health_rules.read_built_in())
    entries = [*table.health.entries.values(), *(entry for _, entry in table.health.patterns)]
    assert [path for entry in entries for path in entry.paths if len(path) < 2] == []
