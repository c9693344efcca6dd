"""Definitions of kro: their fields, their expressions, and complete imports by `hearth import --from-kro`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click.testing
import pytest

from hearth.cli import main
from hearth.cli.importer import kro_expressions
from hearth.cli.importer.kro_expressions import Words
from hearth.cli.importer.kro_schema import SchemaReader
from hearth.template.text import kubectl_yaml
from support import console_blocks, repository

# ---------------------------------------------------------------- fields of kro's SimpleSchema as rules of JSON Schema

TYPES = {
    "Person": {"name": "string | required=true", "role": "Role"},
    "Role": {"title": 'string | default="boss"'},
    "Endless": {"inner": "Endless"},
}
ROLE = {"type": "object", "properties": {"title": {"type": "string", "default": "boss"}}}


@pytest.mark.parametrize(
    ("stated", "rules"),
    [
        ("string", {"type": "string"}),
        ("float", {"type": "number"}),
        ("integer | default=3 minimum=1 maximum=9", {"type": "integer", "default": 3, "minimum": 1, "maximum": 9}),
        ("integer | default=3 | minimum=1", {"type": "integer", "default": 3, "minimum": 1}),
        ("string | default=default", {"type": "string", "default": "default"}),
        ('string | default=""', {"type": "string", "default": ""}),
        ('string | default="8080"', {"type": "string", "default": "8080"}),
        ("boolean | default=true", {"type": "boolean", "default": True}),
        ('string | enum="a, b" default="a"', {"type": "string", "enum": ["a", "b"], "default": "a"}),
        ('integer | enum="1,2"', {"type": "integer", "enum": [1, 2]}),
        (
            'string | pattern="^[\\\\w.-]+$" description="An \\"address\\" | of mail"',
            {"type": "string", "pattern": "^[\\w.-]+$", "description": 'An "address" | of mail'},
        ),
        ('string | minLength=2 maxLength="4"', {"type": "string", "minLength": 2, "maxLength": 4}),
        ("[]string", {"type": "array", "items": {"type": "string"}}),
        (
            "[]integer | default=[80, 443] uniqueItems=true minItems=1",
            {"type": "array", "items": {"type": "integer"}, "default": [80, 443], "uniqueItems": True, "minItems": 1},
        ),
        (
            "map[string][]string",
            {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}},
        ),
        ("object", {"type": "object"}),
        ("Role", {**ROLE, "default": {}}),
        ("[]Role", {"type": "array", "items": ROLE}),
        (
            {"person": "Person"},
            {
                "type": "object",
                "properties": {
                    "person": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "role": {**ROLE, "default": {}}},
                        "required": ["name"],
                    }
                },
            },
        ),
    ],
)
def test_a_field(stated: Any, rules: Any) -> None:
    found = SchemaReader(TYPES).read(stated)
    assert (found.rules, found.unknown) == (rules, ())


@pytest.mark.parametrize(
    ("stated", "unknown"),
    [
        ("string | immutable=true", [": immutable=true"]),
        ("text", [": text is not a type"]),
        ("[]text", [": text is not a type"]),
        ("string | default=a and more", [": 'and more' is not a marker; quote values that contain spaces"]),
        ({"a": {"b": "string | immutable=true"}}, [".a.b: immutable=true"]),
        ({"a": 'string | printColumn="A"'}, ['.a: printColumn="A"']),
        (3, [": the number 3 is not a type"]),
    ],
)
def test_what_has_no_counterpart_is_named(stated: Any, unknown: list[str]) -> None:
    assert list(SchemaReader(TYPES).read(stated).unknown) == unknown


def test_a_column_and_a_required_field_are_told() -> None:
    found = SchemaReader({}).read('string | required=true printColumn="Image"')
    assert (found.column, found.is_required) == ("Image", True)


def test_types_that_stand_for_any_number_of_fields_end() -> None:
    doubling = {f"T{level}": {"a": f"T{level + 1}", "b": f"T{level + 1}"} for level in range(60)}
    assert any("too many fields" in each for each in SchemaReader(doubling, left=1_000).read("T0").unknown)
    assert any("contains itself" in each for each in SchemaReader(TYPES, left=100).read("Endless").unknown)


# ---------------------------------------------------------------- expressions in the words of Hearth

RENAMED = {"region": "item"}


@pytest.mark.parametrize(
    ("stated", "made"),
    [
        ("${schema.spec.name}", "${params.name}"),
        ("${schema.metadata.name}-${schema.spec.a.b}", "${stack.name}-${params.a.b}"),
        ("${schema.metadata.namespace}", "${stack.namespace}"),
        ("${other.schema.spec}", "${other.schema.spec}"),
        ("${'schema.spec.name' + schema.spec.name}", "${'schema.spec.name' + params.name}"),
        ('${"a\\"schema.spec" + schema.spec.b}', '${"a\\"schema.spec" + params.b}'),
        ("${region + web.region}", "${item + web.region}"),
        ("${schema.spec.list.map(region, region)}", "${params.list.map(item, item)}"),
        ("${schema.spec.on ? 1 : omit()}", "${params.on ? 1 : null}"),
        ("${x ? schema.spec.a : region}", "${x ? params.a : item}"),
        ("${x?schema.spec.a:y}", "${x?params.a:y}"),
        ("${x.?schema . spec}", "${x.?schema . spec}"),
        ("${json.marshal(schema.spec)}", "${toJson(params)}"),
        ('${"%x".format([hash.sha256(json.marshal(config.data))])}', "${sha256(toJson(config.data))}"),
        ("${schema.spec.a.merge(schema.spec.b)}", "${merge(params.a, params.b)}"),
        ("${{'a': 1}.merge({'b': 2}).merge(c)}", "${merge(merge({'a': 1}, {'b': 2}), c)}"),
        ("${a.?b.sort().join(',')}", "${sort(a.?b).join(',')}"),
        ("${x ? f(a)[0].c.sort() : []}", "${x ? sort(f(a)[0].c) : []}"),
        ("${[1, 2].sum() + 1}", "${sum([1, 2]) + 1}"),
        ("${a.map(x, x.merge(y))}", "${a.map(x, merge(x, y))}"),
        ("echo $HOME", "echo $HOME"),
    ],
)
def test_an_expression(stated: str, made: str) -> None:
    assert kro_expressions.translate(stated, Words(roots=RENAMED)) == made


@pytest.mark.parametrize(
    ("value", "reads"),
    [
        ({"a": ["${web.spec.x}", "${db.?spec.x + cache.spec.?x}"]}, {"web"}),
        ("${has(web.spec) ? schema.web : 'db'}", {"web"}),
        ("${web}", {"web"}),
        ("web", set()),
    ],
)
def test_what_an_expression_cannot_do_without(value: object, reads: set[str]) -> None:
    assert kro_expressions.find_reads(value, {"web", "db", "cache"}) == reads


def test_what_may_be_missing_is_read_as_such() -> None:
    change = kro_expressions.make_optional({"web"})
    assert change("web.spec.?x.orValue(db.spec.?x)") == "web.?spec.?x.orValue(db.spec.?x)"
    assert change("a.web.spec.?x + web.spec.x + web.?spec") == "a.web.spec.?x + web.spec.x + web.?spec"


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ("job.status.completionTime != null", "has(job.status.completionTime)"),
        ("job.status.succeeded>0&&job.status.endTime!=null", "job.status.succeeded>0&&has(job.status.endTime)"),
        ("job.status.completionTime == null || x", "!has(job.status.completionTime) || x"),
        ("job.status.?completionTime != null", "job.status.?completionTime != null"),
        ("params.job.status != null", "params.job.status != null"),
        ("job != null", "job != null"),
        ("job.status.x == nullable", "job.status.x == nullable"),
        ("job.status.x ==", "job.status.x =="),
    ],
)
def test_a_comparison_with_null_asks_whether_the_field_exists(stated: str, expected: str) -> None:
    assert kro_expressions.make_presence_checks({"job"})(stated) == expected


def test_conditions_reach_all_that_read() -> None:
    stated = {"a": ["x"], "b": [], "c": ["y", "x"], "d": []}
    reads = {"a": {"a"}, "b": {"a", "d"}, "c": {"b"}, "d": {"b"}}
    assert kro_expressions.spread(stated, reads) == {"a": ["x"], "b": ["x"], "c": ["y", "x"], "d": ["x"]}
    assert kro_expressions.join(["a || b", "c"]) == "(a || b) && (c)"


# ---------------------------------------------------------------- `hearth import --from-kro`

PAGE = repository.DOCS / "migration" / "kro.md"
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
    option = ["--group", group] if group else []
    return click.testing.CliRunner().invoke(main.main, ["import", "--from-kro", *map(str, files), *option])


def read(result: click.testing.Result) -> list[Any]:
    """The imported definition."""
    return [document.value for document in kubectl_yaml.parse_documents(result.stdout)]


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write_file(text: str) -> Path:
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.yaml"
        file.write_text(text)
        return file

    return write_file


def test_a_definition_and_its_instance(write: Any) -> None:
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
        (
            "note: ResourceGraphDefinition caches: parameters that are optional in kro are required here unless you set "
            "a default: size"
        ),
        (
            "note: ResourceGraphDefinition caches: reader sets its own namespace: this must be the namespace of the "
            "instance unless you set spec.account and spec.boundary: Cluster"
        ),
        "note: apply twice: the objects can only be created once their kinds are served",
        "note: 1 StackDefinition, 1 object; nothing to fix",
    ]


def test_what_has_no_counterpart_is_named_by_the_import(write: Any) -> None:
    text = DEFINITION.replace("size: integer,", "size: integer | immutable=true,").replace(
        "${string(schema.spec.size)}", "${random.seededString(3, schema.metadata.uid)}"
    )
    result = run(write(text.replace("kind: Cache\n", "kind: Cache\n    scope: Cluster\n    validation: []\n")))
    assert result.exit_code == 0
    lost = [line for line in result.stderr.splitlines() if line.startswith("warning: no equivalent: ")]
    assert [any(word in line for line in lost) for word in ("immutable=true", "random", "scope", "validation")] == [
        True
    ] * 4
    assert f"{len(lost)} to fix" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            DEFINITION + "---" + INSTANCE.replace("Cache", "Disk"),
            "Disk a is not an instance of a kind in these files; pass its ResourceGraphDefinition as well",
        ),
        (INSTANCE, "contains no ResourceGraphDefinition of kro.run; pass the definition of Cache as well"),
        (DEFINITION.replace("    kind: Cache\n", ""), "spec.schema.kind is missing"),
        (DEFINITION.replace("kro.run/v1alpha1", "example.org/v1"), "contains no ResourceGraphDefinition of kro.run"),
    ],
)
def test_what_cannot_be_converted_is_refused(write: Any, text: str, message: str) -> None:
    result = run(write(text))
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr


def test_the_group_of_kro_stays_unless_another_is_stated(write: Any) -> None:
    result = run(write(DEFINITION), group=None)
    assert read(result)[0]["metadata"]["name"] == "caches.kro.run"
    assert "set your own group with --group" in result.stderr
    assert "is not an API group" in run(write(DEFINITION), group="Nothing").stderr


def test_the_example_of_the_page_is_converted_as_a_whole(write: Any) -> None:
    files = console_blocks.read_files(PAGE.read_text())
    result = run(write(files["rgd.yaml"]))
    assert result.stderr == "note: 1 StackDefinition, 0 objects; nothing to fix\n"


CONFIG = {"apiVersion": "v1", "kind": "ConfigMap"}
ROOMS = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: rooms}
spec:
  schema:
    apiVersion: v1alpha1
    kind: Room
    spec: {owner_name: string}
    status: {door_code: "${settings.data.owner}"}
  resources:
    - id: settings
      template: {apiVersion: v1, kind: ConfigMap, data: {owner: "${schema.spec.owner_name}"}}
---
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: houses}
spec:
  schema: {apiVersion: v1alpha1, kind: House, spec: {owner: string}, status: {code: "${kitchen.status.door_code}"}}
  resources:
    - id: kitchen
      template: {apiVersion: kro.run/v1alpha1, kind: Room, metadata: {name: k}, spec: {owner_name: "${schema.spec.owner}"}}
    - id: note
      template: {apiVersion: v1, kind: ConfigMap, data: {code: "${kitchen.status.?door_code.orValue('')}"}}
---
apiVersion: kro.run/v1alpha1
kind: Room
metadata: {name: h}
spec: {owner_name: blue}
"""


def test_kinds_that_use_one_another_are_renamed_together(write: Any) -> None:
    result = run(write(ROOMS))

    assert "nothing to fix" in result.stderr, result.stderr
    _, houses, room = read(result)
    template = houses["spec"]["template"]
    assert template["resources"]["kitchen"]["manifest"] == {
        "apiVersion": "platform.example/v1alpha1",
        "kind": "Room",
        "metadata": {"name": "k"},
        "spec": {"ownerName": "${params.owner}"},
    }
    assert template["outputs"]["code"]["value"] == "${kitchen.status.outputs.doorCode}"
    assert (
        template["resources"]["note"]["manifest"]["data"]["code"] == "${kitchen.status.outputs.?doorCode.orValue('')}"
    )
    assert room["spec"] == {"ownerName": "blue"}


SPREAD = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: apps}
spec:
  schema:
    apiVersion: v1alpha1
    kind: App
    spec: {ingress: {enabled: boolean | default=false, host: string}, optional: {deep: {a: integer}}}
    additionalPrinterColumns:
      - {name: Ingress, jsonPath: .spec.ingress.enabled, type: boolean}
      - {name: Host, jsonPath: .spec.ingress.host, type: string}
      - {name: Deep, jsonPath: .spec.optional.deep.a, type: integer}
  resources:
    - {id: one, template: {apiVersion: kro.run/v1alpha1, kind: Part, metadata: {name: one}}}
    - {id: two, template: {apiVersion: kro.run/v1alpha1, kind: Part, metadata: {name: two}}}
    - {id: three, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {a: "${spc.version}"}}}
    - {id: four, template: {apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {a: "${spc.version}"}}}
"""


def test_each_cause_is_named_once_and_nested_fields_keep_their_columns(write: Any) -> None:
    result = run(write(SPREAD))
    (definition,) = read(result)
    assert definition["spec"]["columns"] == [{"name": "Ingress", "output": "ingressEnabled"}]
    assert definition["spec"]["template"]["outputs"] == {"ingressEnabled": {"value": "${params.ingress.enabled}"}}
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert [sum(cause in line for line in warnings) for cause in (": Part is defined by", "'spc'", ".spec.")] == [
        1,
        1,
        2,
    ]
    assert (
        "spec.template.resources.three.manifest.data.a, spec.template.resources.four.manifest.data.a: " in result.stderr
    )


def test_a_file_without_a_definition_has_one_mistake(write: Any) -> None:
    result = run(write("apiVersion: kro.run/v1alpha1\nkind: Graph\nmetadata: {name: rgd}\n"))
    (line,) = result.stderr.splitlines()
    assert line.endswith("contains no ResourceGraphDefinition of kro.run; pass the definition of Graph as well")


def test_a_kind_of_kro_whose_definition_is_missing_is_named(write: Any) -> None:
    _, _, house = ROOMS.partition("---")
    result = run(write(house.rpartition("---")[0]))
    assert "spec.resources[0].template: Room is defined by a ResourceGraphDefinition" in result.stderr


def test_names_that_no_template_allows_are_changed(write: Any) -> None:
    text = """
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {name: as}
spec:
  schema:
    apiVersion: v1alpha1
    kind: A
    spec: {stack: string | default=blue, aws_region: string | default=eu, awsRegion: string | default=us, Size: integer | default=1}
    status: {where: "${params.metadata.name}"}
  resources:
    - id: params
      template: {apiVersion: v1, kind: ConfigMap, data: {a: "${schema.spec.stack}${schema.spec.?aws_region}${schema.spec.awsRegion}"}}
    - id: key
      template: {apiVersion: v1, kind: ConfigMap, data: {size: "${string(schema.spec.Size)}"}}
    - id: aVeryLongNameOfMoreThanFortyLettersAndDigits
      forEach: [{item: "${['a', 'b']}"}]
      template: {apiVersion: v1, kind: ConfigMap, data: {a: "${params.data.a}${item}${key.data.size}"}}
"""
    result = run(write(text))

    assert "nothing to fix" in result.stderr, result.stderr
    template = read(result)[0]["spec"]["template"]
    assert list(template["parameters"]) == ["stackValue", "awsRegion2", "awsRegion", "size"]
    assert list(template["resources"]) == ["paramsObject", "keyObject", "aVeryLongNameOfMoreThanFortyLettersAndDi"]
    data = [each["manifest"]["data"] for each in template["resources"].values()]
    assert data[0] == {"a": "${params.stackValue}${params.?awsRegion2}${params.awsRegion}"}
    assert data[2] == {"a": "${paramsObject.data.a}${item}${keyObject.data.size}"}
    assert "aws_region is awsRegion2" in result.stderr


@pytest.mark.parametrize(
    ("read", "required", "has_default"),
    [
        ("${schema.spec.values.account.role}", ["account"], False),
        ("${has(schema.spec.values.account) ? schema.spec.values.account.role : ''}", None, True),
        ("${schema.spec.values.?account.role.orValue('')}", None, True),
    ],
)
def test_what_an_expression_needs_is_required(
    write: Any, read: str, required: list[str] | None, has_default: bool
) -> None:
    text = f"""
apiVersion: kro.run/v1alpha1
kind: ResourceGraphDefinition
metadata: {{name: as}}
spec:
  schema:
    apiVersion: v1alpha1
    kind: A
    spec:
      values: {{log: {{level: string | default=info}}, account: {{name: string | default=sa, role: string | required=true}}}}
  resources:
    - id: a
      template: {{apiVersion: v1, kind: ConfigMap, data: {{a: "{read}"}}}}
"""
    result = run(write(text))

    assert "nothing to fix" in result.stderr, result.stderr
    values = next(kubectl_yaml.parse_documents(result.stdout)).value["spec"]["template"]["parameters"]["values"]
    assert (values.get("required"), "default" in values) == (required, has_default)


# ---------------------------------------------------------------- hostile files


def make_hostile(*, field: str = "string", types: str = "{}", resources: str = "[]") -> str:
    """A definition of one field."""
    schema = f"{{apiVersion: v1alpha1, kind: A, spec: {{a: '{field}'}}, types: {types}}}"
    head = "apiVersion: kro.run/v1alpha1\nkind: ResourceGraphDefinition\nmetadata: {name: as}\n"
    return f"{head}spec: {{schema: {schema}, resources: {resources}}}\n"


def make_resources(conditions: list[str]) -> str:
    """A chain of resources with these conditions: each resource reads the next one."""
    made = (
        {
            "id": f"r{at}",
            "includeWhen": ["${" + text + "}"],
            "template": CONFIG | {"data": {"a": f"${{r{at + 1}.data.a}}"}},
        }
        for at, text in enumerate(conditions)
    )
    return json.dumps([*made, {"id": f"r{len(conditions)}", "template": CONFIG | {"data": {"a": "${r0.data.a}"}}}])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (make_hostile(field="T", types="{T: {a: T}}"), "contains itself"),
        (make_hostile(field="T", types="{T: '[]T'}"), "contains itself"),
        (make_hostile(field="[]" * 2_000 + "string"), "contains itself"),
        (make_hostile(field="string | " + "a" * 60_000), "is not a marker"),
        (make_hostile(field="string | " + "a=[ " * 15_000), "a=["),
        (make_hostile(resources=make_resources([f"{at} > 0" for at in range(1_500)])), "more than 64 conditions"),
        (make_hostile(resources=make_resources(["a.merge(" * 400 + "a" + ")" * 400])), "recursion"),
    ],
    ids=["type in itself", "list of itself", "lists", "word", "brackets", "conditions", "calls"],
)
def test_a_hostile_definition_has_one_cause_and_a_short_report(write: Any, text: str, message: str) -> None:
    result = run(write(text))
    assert isinstance(result.exception, SystemExit | None)
    assert message in result.stderr
    assert len(result.stderr) < 20_000
