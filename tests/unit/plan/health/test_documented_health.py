"""Health of objects from many projects, according to our knowledge of their documentation
(tests/data/documented_health).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from hearth.model.child_fields import project_fields
from hearth.model.kinds import Kind
from hearth.plan.health.health_rules import HealthRules, HealthState, SingleSchema
from hearth.template.text import kubectl_yaml
from support import repository

DATA = repository.DATA / "documented_health"
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
    # The declaration describes the items; whether they form a list or a map does not matter here.
    return {"type": "object", "properties": fields, "items": {"type": "object", "properties": fields}}


@dataclass(frozen=True, slots=True)
class Row:
    """One documented state of a kind."""

    kind: Kind
    rules: HealthRules
    """Rules that know a schema of the kind with the fields in its rows."""
    raw: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.kind.key} {self.raw['is']}"


def read_rows(file: Path) -> Iterator[Row]:
    """Every row of a file."""
    for document in kubectl_yaml.parse_documents(file.read_text()):
        for each in document.value:
            api_version, name = each["of"].split(" ")
            group, _, version = api_version.rpartition("/")
            kind = Kind(group=group, version=version, name=name, plural=name.lower() + "s", namespaced=True)
            said = [row["status"] for row in each["rows"] if row.get("status")]
            properties = {"metadata": {"$ref": META}, "spec": OPEN} | ({"status": describe(said)} if said else {})
            rules = HealthRules(schemas=SingleSchema({"type": "object", "properties": properties}))
            yield from (Row(kind, rules, row) for row in each["rows"])


FILES = sorted(DATA.glob("*.yaml"))


def make_object(kind: Kind, row: dict[str, Any]) -> dict[str, Any]:
    """The object of a row, with the common fields of all objects."""
    metadata = {"name": "a", "uid": "1", "generation": row.get("generation", 1)}
    metadata |= {"annotations": row["annotations"]} if "annotations" in row else {}
    made = {"apiVersion": kind.api_version, "kind": kind.name, "metadata": metadata}
    return made | {key: row[key] for key in ("spec", "status") if key in row}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_objects_have_the_health_that_their_projects_document(file: Path) -> None:
    assert {str(row): wrong for row in read_rows(file) if (wrong := find_difference(row))} == {}


def find_difference(row: Row) -> str:
    """The difference from the row, or ""."""
    whole = make_object(row.kind, row.raw)
    verdict = row.rules.assess(whole, kind=row.kind)
    expected = HealthState(row.raw["hearth"]) if "hearth" in row.raw else STATES[row.raw["says"]]
    if verdict.state is not expected:
        return f"{verdict.state}: {verdict.message}, expected {expected}"
    kept = row.rules.assess(project_fields(whole, kind=row.kind, paths=row.rules.paths(row.kind)), kind=row.kind)
    return "" if kept == verdict else f"{kept} of the fields that the cache keeps, {verdict} of the whole"


def test_a_difference_is_found() -> None:
    """Otherwise, the test above could not fail."""
    row = next(row for row in read_rows(FILES[0]) if row.raw["says"] == "healthy" and "hearth" not in row.raw)

    assert "expected" in find_difference(dataclasses.replace(row, raw={**row.raw, "says": "degraded"}))


def test_hearth_differs_rarely_and_says_why() -> None:
    rows = [row.raw for file in FILES for row in read_rows(file)]
    assert len(rows) > 5_000
    differing = [row for row in rows if "hearth" in row]
    assert all(row["because"] for row in differing)
    assert not [row for row in differing if row["hearth"] == "failed"]
    assert len([row for row in differing if row["says"] != "degraded"]) * 50 <= len(rows)
    assert len([row for row in differing if row["says"] == "degraded"]) * 100 <= len(rows) * 7
