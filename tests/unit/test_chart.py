"""The chart agrees with the program and with the other files that it shares. What Helm makes of it: tests/ecosystem."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

import hearth
from support.ecosystem import chart_files

CHART = chart_files.CHART
VALUES = chart_files.read_values()
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def test_the_files_that_the_chart_shares_are_up_to_date() -> None:
    """CRDs, rights, the flags in the schema and the table in the documentation: `make chart` writes them."""
    wanted = chart_files.make_all()
    stale = [str(path) for path, text in wanted.items() if not path.exists() or path.read_text() != text]

    assert stale == [], "run `make chart`"
    assert set(CHART.glob("files/*/*")) <= set(wanted), "run `make chart`"


def test_the_default_values_match_their_schema() -> None:
    """And a value that does not exist is refused."""
    jsonschema.validate(VALUES, SCHEMA)

    with pytest.raises(jsonschema.ValidationError, match="'replica' was unexpected"):
        jsonschema.validate({**VALUES, "replica": 3}, SCHEMA)
    with pytest.raises(jsonschema.ValidationError, match="is not one of"):
        jsonschema.validate({**VALUES, "settings": {"tenancy": "lax"}}, SCHEMA)


def test_every_value_is_documented_and_has_a_type() -> None:
    """What the schema has and the values have is the same, down to the last one."""
    for path, schema, value in walk(SCHEMA, VALUES):
        assert schema.get("description"), path
        assert "type" in schema or "enum" in schema, path
        if "properties" in schema:
            assert schema["additionalProperties"] is False, path
            assert list(value) == list(schema["properties"]), path


def test_every_flag_is_a_value() -> None:
    """In the order of `hearth run --help`."""
    assert list(VALUES["settings"]) == [chart_files.find_key(each) for each in chart_files.find_flags()]


def test_the_chart_has_the_version_of_the_program() -> None:
    """One number for both: what is tested together is released together."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (hearth.__version__, hearth.__version__)


def walk(schema: dict[str, Any], value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Path, schema and default of every value, and of every group of values."""
    yield path, schema, value
    for name, each in schema.get("properties", {}).items():
        yield from walk(each, value[name], f"{path}.{name}")
