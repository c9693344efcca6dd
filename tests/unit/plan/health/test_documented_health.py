"""Health of objects of many projects' kinds, as their projects document them, to our knowledge (tests/data/documented_health)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from hearth.model.child_fields import project_fields
from hearth.model.kinds import Kind
from hearth.plan.health.health_rules import HealthRules, HealthState, SingleSchema
from hearth.template.text import kubectl_yaml

DATA = Path(__file__).parents[3] / "data" / "documented_health"
META = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
OPEN: Final = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
STATES: Final = {
    "healthy": HealthState.READY,
    "suspended": HealthState.READY,
    "progressing": HealthState.PROGRESSING,
    "degraded": HealthState.FAILED,
}


def describe(values: list[Any]) -> dict[str, Any]:
    """The schema of a field with these values, as a CustomResourceDefinition declares it."""
    values = [item for value in values for item in (value if isinstance(value, list) else [value])]
    keys = {key for value in values if isinstance(value, dict) for key in value}
    fields = {
        key: describe([value[key] for value in values if isinstance(value, dict) and key in value]) for key in keys
    }
    if not fields:
        return {"type": "boolean" if any(isinstance(value, bool) for value in values) else "string"}
    # A list and a map are declared by their items: which of them it is does not matter here.
    return {"type": "object", "properties": fields, "items": {"type": "object", "properties": fields}}


def read_rows() -> Iterator[Any]:
    """Every row, with its kind, and the rules that know the kind's schema: of the fields that its rows have."""
    for file in sorted(DATA.glob("*.yaml")):
        for document in kubectl_yaml.parse_documents(file.read_text()):
            for each in document.value:
                api_version, name = each["of"].split(" ")
                group, _, version = api_version.rpartition("/")
                kind = Kind(group=group, version=version, name=name, plural=name.lower() + "s", namespaced=True)
                said = [row["status"] for row in each["rows"] if row.get("status")]
                properties = {"metadata": {"$ref": META}, "spec": OPEN} | ({"status": describe(said)} if said else {})
                rules = HealthRules(schemas=SingleSchema({"type": "object", "properties": properties}))
                for row in each["rows"]:
                    yield pytest.param(kind, rules, row, id=f"{kind.key} {row['is']}")


ROWS = list(read_rows())


def make_object(kind: Kind, row: dict[str, Any]) -> dict[str, Any]:
    """The object of a row, with what every object has."""
    metadata = {"name": "a", "uid": "1", "generation": row.get("generation", 1)}
    metadata |= {"annotations": row["annotations"]} if "annotations" in row else {}
    made = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    return made | {key: row[key] for key in ("spec", "status") if key in row}


@pytest.mark.parametrize(("kind", "rules", "row"), ROWS)
def test_an_object_has_the_health_that_its_project_documents(
    kind: Kind, rules: HealthRules, row: dict[str, Any]
) -> None:
    """Whole, and cut down to the fields that the cache keeps; where Hearth differs, the row says why."""
    whole = make_object(kind, row)
    verdict = rules.assess(whole, kind=kind)
    expected = HealthState(row["hearth"]) if "hearth" in row else STATES[row["says"]]
    assert (verdict.state, verdict.message) == (expected, verdict.message)
    kept = project_fields(whole, kind=kind, paths=rules.paths(kind))
    assert rules.assess(kept, kind=kind) == verdict


def test_hearth_differs_rarely_and_says_why() -> None:
    """At most two rows of a hundred where a failure is not merely read as progressing, and seven where it is."""
    rows = [param.values[2] for param in ROWS]
    differing = [row for row in rows if "hearth" in row]
    assert all(row["because"] for row in differing)
    assert not [row for row in differing if row["hearth"] == "failed"]
    assert len([row for row in differing if row["says"] != "degraded"]) * 50 <= len(rows)
    assert len([row for row in differing if row["says"] == "degraded"]) * 100 <= len(rows) * 7
