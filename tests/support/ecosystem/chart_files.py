"""Files that the chart shares with the rest of the repository: copies of CRDs, RBAC rules and alerts, flags as its schema,
kinds for Artifact Hub.

They are copies because a chart must contain all of its files, and GitOps tools lose symbolic links.

    make chart        writes them
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import release_olm
import yaml

from hearth.cli.commands import run as run_command
from support import repository

CHART = repository.MANIFESTS / "chart"
DOCUMENT = repository.DOCS / "installation.md"
SOURCES = (
    *(
        "crds/*.yaml",
        "manifests/rbac/*.yaml",
        "manifests/strict/rbac.yaml",
        "manifests/definitions/*.yaml",
        "manifests/observability/alerts.yaml",
        "manifests/page/*.yaml",
    ),
    *(
        f"manifests/install/{each}.yaml"
        for each in ("accounts", "networkpolicy", "poddisruptionbudget", "protection", "rbac", "webhook")
    ),
)
"""Patterns of the files that the templates read."""
KINDS = re.compile(r"(?<=  artifacthub\.io/crds: \|\n)(?:    .*\n)*")
"""The annotation of Chart.yaml that lists the kinds."""
START, END = "<!-- values of the chart, by `make chart` -->\n", "<!-- end of the values -->\n"


def main() -> None:
    """Write all of them."""
    wanted = make_all()
    for stale in set(CHART.glob("files/*/*")) - set(wanted):
        stale.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    sys.stdout.write(f"{len(wanted)} files of the chart are up to date\n")


def make_all() -> Mapping[Path, str]:
    """The content of each generated file, by path."""
    schema = make_schema()
    table = "\n".join(["| value | default | |", "|---|---|---|", *make_rows(schema, read_values())])
    before, _, rest = DOCUMENT.read_text().partition(START)
    _, _, after = rest.partition(END)
    return {
        **{CHART / "files" / path.parent.name / path.name: path.read_text() for path in find_sources()},
        CHART / "Chart.yaml": make_metadata(),
        CHART / "values.schema.json": json.dumps(schema, indent=2) + "\n",
        DOCUMENT: f"{before}{START}{table}\n{END}{after}",
    }


def find_sources() -> list[Path]:
    """The files that are copied."""
    found = (path for pattern in SOURCES for path in repository.ROOT.glob(pattern))
    return sorted(path for path in found if path.name != "kustomization.yaml")


def read_values() -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return values


def make_metadata() -> str:
    """Chart.yaml with the kinds of the CRDs, as Artifact Hub lists them."""
    kinds = [release_olm.describe_kind(each) for each in release_olm.read_objects(repository.ROOT.glob("crds/*.yaml"))]
    text = textwrap.indent(yaml.safe_dump(kinds, sort_keys=False, width=100, allow_unicode=True), "    ")
    return KINDS.sub(lambda _: text, (CHART / "Chart.yaml").read_text())


# ------------------------------------------------------------ the schema


def make_schema() -> dict[str, Any]:
    """The schema in the chart, from the current flags of the program."""
    schema: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
    flags = {find_key(each): make_flag(each) for each in find_flags()}
    schema["properties"]["settings"]["properties"] = flags
    return schema


def find_flags() -> list[click.Option]:
    """The flags of `hearth run`."""
    return [each for each in run_command.run.params if isinstance(each, click.Option)]


def find_key(flag: click.Option) -> str:
    """The chart value that sets a flag: `--max-backoff` is `maxBackoff`."""
    first, *rest = flag.opts[0].removeprefix("--").split("-")
    return first + "".join(word.capitalize() for word in rest)


def make_flag(flag: click.Option) -> dict[str, Any]:
    """The schema of its value. Null leaves the default of the program."""
    described = f"`{'`, `'.join((*flag.opts, *flag.secondary_opts))}`: {flag.help}"
    default = flag.show_default if isinstance(flag.show_default, str) else flag.default
    if isinstance(default, str | int) and not isinstance(default, bool):
        described += f" Null: {default}."
    kind: dict[str, Any] = {"type": ["string", "null"]}
    if flag.is_flag:
        kind = {"type": ["boolean", "null"]}
    elif isinstance(flag.type, click.IntRange):
        kind = {"type": ["integer", "null"], "minimum": flag.type.min}
        kind |= {} if flag.type.max is None else {"maximum": flag.type.max}
    elif isinstance(flag.type, click.Choice):
        kind = {"enum": [*flag.type.choices, None]}
    return {**kind, "description": described}


# ------------------------------------------------------------ the table


def make_rows(schema: Mapping[str, Any], values: Any, path: str = "") -> list[str]:
    """A row of the table for each value without nested values."""
    if "properties" not in schema:
        text = json.dumps(values, separators=(", ", ": "))
        return [f"| `{path}` | `{text}` | {schema['description'].replace('|', chr(92) + '|')} |"]
    return [
        row
        for name, each in schema["properties"].items()
        for row in make_rows(each, values[name], f"{path}.{name}" if path else name)
    ]


if __name__ == "__main__":
    main()
