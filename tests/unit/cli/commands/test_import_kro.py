"""`hearth import --from-kro`: definitions of kro in, StackDefinitions out, what has no counterpart on standard error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click.testing
import pytest

from hearth.cli import main
from hearth.template.text import kubectl_yaml
from support import console_blocks

PAGE = Path(__file__).resolve().parents[4] / "docs" / "migration" / "kro.md"
DEFINITION = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: caches}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Cache
    spec: {size: integer, replica: {enabled: boolean | default=false}}
    status: {address: "${replica.metadata.name}", either: "${replica.spec.?clusterIP.orValue(main.metadata.name)}"}
    additionalPrinterColumns:
      - {name: Address, type: string, jsonPath: .status.address, priority: 1}
      - {name: Age, type: date, jsonPath: .metadata.creationTimestamp}
  resources:
    - id: main
      lifecycle: ${policy().withRetain()}
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: "${schema.metadata.name}"}, data: {size: "${string(schema.spec.size)}"}}
    - id: replica
      includeWhen: ["${schema.spec.replica.enabled}"]
      template: {apiVersion: v1, kind: Service, metadata: {name: "${main.metadata.name}-r"}, spec: {ports: [{port: 80}]}}
    - id: reader
      template: {apiVersion: v1, kind: ConfigMap, metadata: {name: r, namespace: other}, data: {a: "${replica.metadata.name}"}}
"""
INSTANCE = """
apiVersion: kro.run/v1alpha1
kind: Cache
metadata: {name: a, namespace: prod, uid: x, labels: {kro.run/owned: "true", team: web}, finalizers: [kro.run/finalizer]}
spec: {size: 3}
status: {state: ACTIVE}
"""


def run(*files: Path, group: str | None = "platform.example") -> click.testing.Result:
    """The command."""
    option = ["--group", group] if group else []
    return click.testing.CliRunner().invoke(main.main, ["import", "--from-kro", *map(str, files), *option])


def read(result: click.testing.Result) -> list[Any]:
    """What it wrote."""
    return [document.value for document in kubectl_yaml.parse_documents(result.stdout)]


@pytest.fixture
def write(tmp_path: Path) -> Any:
    """Write a file."""

    def write_file(text: str) -> Path:
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.yaml"
        file.write_text(text)
        return file

    return write_file


def test_a_definition_and_its_instance(write: Any) -> None:
    """Names, conditions, policies and columns; of the instance what a user wrote."""
    result = run(write(DEFINITION), write(INSTANCE))
    assert result.exit_code == 0, result.output
    definition, instance = read(result)
    assert definition["metadata"] == {"name": "caches.platform.example"}
    spec = definition["spec"]
    assert (spec["group"], spec["names"]) == ("platform.example", {"kind": "Cache", "plural": "caches"})
    assert spec["columns"] == [{"name": "Address", "output": "address", "priority": 1}]
    resources = spec["template"]["resources"]
    assert resources["main"]["deletionPolicy"] == "Retain"
    assert [resources[name].get("when") for name in resources] == [None, *["params.replica.enabled"] * 2]
    assert spec["template"]["outputs"] == {
        "address": {"when": "params.replica.enabled", "value": "${replica.metadata.name}"},
        "either": {"value": "${replica.?spec.?clusterIP.orValue(main.metadata.name)}"},
    }
    assert instance == {
        "apiVersion": "platform.example/v1alpha1",
        "kind": "Cache",
        "metadata": {"name": "a", "namespace": "prod", "labels": {"team": "web"}},
        "spec": {"size": 3},
    }
    assert result.stderr.splitlines() == [
        "note: ResourceGraphDefinition caches: what kro lets be left out must be set, unless you give it a default: size",
        (
            "note: ResourceGraphDefinition caches: reader chooses a namespace of its own: without spec.account and boundary: "
            "Cluster that must be the one of the instance"
        ),
        "note: apply the StackDefinitions first, and the objects once their kinds are served: apply twice",
        "note: 1 StackDefinition, 1 object; nothing to mend",
    ]


def test_what_has_no_counterpart_is_named(write: Any) -> None:
    """By the import where kro has more, and by the compiler where an expression cannot be evaluated."""
    text = DEFINITION.replace("size: integer,", "size: integer | immutable=true,").replace(
        "${string(schema.spec.size)}", "${random.seededString(3, schema.metadata.uid)}"
    )
    result = run(write(text.replace("kind: Cache\n", "kind: Cache\n    scope: Cluster\n    validation: []\n")))
    assert result.exit_code == 0
    lost = [line for line in result.stderr.splitlines() if line.startswith("warning: has no counterpart: ")]
    assert [any(word in line for line in lost) for word in ("immutable=true", "random", "scope", "validation")] == [
        True
    ] * 4
    assert f"{len(lost)} to mend" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (INSTANCE, "Cache a is no object of a kind of these files; pass its ResourceGraphDefinition as well"),
        (INSTANCE, "contains no ResourceGraphDefinition of kro.run"),
        (DEFINITION.replace("    kind: Cache\n", ""), "spec.schema.kind is missing"),
        (DEFINITION.replace("kro.run/v1alpha1", "example.org/v1"), "contains no ResourceGraphDefinition of kro.run"),
    ],
)
def test_what_cannot_be_converted_is_refused(write: Any, text: str, message: str) -> None:
    result = run(write(text))
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr


def test_the_group_of_kro_stays_unless_another_is_stated(write: Any) -> None:
    """Which only works once kro's own kind is gone."""
    result = run(write(DEFINITION), group=None)
    assert read(result)[0]["metadata"]["name"] == "caches.kro.run"
    assert "choose a group of your own with --group" in result.stderr
    assert "is no API group" in run(write(DEFINITION), group="Nothing").stderr


def test_the_example_of_the_page_is_converted_as_a_whole(write: Any) -> None:
    """It has most of what definitions have."""
    files = console_blocks.read_files(PAGE.read_text())
    result = run(write(files["rgd.yaml"]))
    assert result.stderr == "note: 1 StackDefinition, 0 objects; nothing to mend\n"
