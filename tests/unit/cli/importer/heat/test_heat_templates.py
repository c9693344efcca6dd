"""`hearth import --from-heat` on templates of every shape, in tests/data/heat."""

from __future__ import annotations

import collections
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click.testing
import pytest

from hearth.cli import main
from hearth.cli.importer.heat import heat_types
from hearth.model import object_fields
from hearth.model.child import Object
from hearth.template.text import kubectl_yaml
from support import repository
from support.real import openstack_controllers

FOLDER = repository.ROOT / "tests" / "data" / "heat"
SHAPES: dict[str, tuple[int, int, int]] = {
    "conditions": (5, 0, 0),
    "external": (5, 0, 1),
    "functions": (1, 0, 0),
    "group": (3, 0, 0),
    "identity": (5, 2, 0),
    "inner": (2, 0, 0),
    "nested": (7, 0, 0),
    "network": (4, 1, 0),
    "random": (6, 1, 0),
    "regions": (8, 0, 0),
    "scaling": (2, 1, 2),
    "server": (2, 2, 0),
    "software": (5, 5, 4),
    "trunk": (10, 1, 0),
    "unsupported": (0, 0, 5),
    "volume": (4, 0, 0),
    "wait": (3, 1, 0),
}
"""By template, the number of resources that are converted, converted with losses, and not converted."""
ENVIRONMENTS = {"nested", "trunk"}
SCHEMAS = {
    each["spec"]["names"]["kind"]: each["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for each in openstack_controllers.load_definitions()
}


class Imported:
    def __init__(self, result: click.testing.Result) -> None:
        assert isinstance(result.exception, SystemExit | None), result.exception
        self.code, self.text, self.errors = result.exit_code, result.stdout, result.stderr

    @property
    def report(self) -> Object:
        (line,) = (each for each in self.errors.splitlines() if each.startswith("{"))
        return dict(json.loads(line))

    @property
    def spec(self) -> Object:
        (document,) = kubectl_yaml.parse_documents(self.text)
        return dict(document.value["spec"])

    @property
    def resources(self) -> Object:
        return dict(self.spec["template"]["resources"])

    def find_losses(self, path: str) -> list[str]:
        """The losses that are reported for a resource of the template."""
        return [loss for each in self.report["resources"] if each["path"] == path for loss in each["losses"]]


def convert(template: Path | str, *options: str) -> Imported:
    """Import a template: a file, or the name of one in the test folder."""
    path = template if isinstance(template, Path) else FOLDER / f"{template}.yaml"
    environment = ["-e", str(FOLDER / "environment.yaml")] if template in ENVIRONMENTS else []
    command = ["import", "--from-heat", str(path), *environment, "--report", "json", *options]
    return Imported(click.testing.CliRunner().invoke(main.main, command))


def convert_text(folder: Path, text: str, *options: str) -> Imported:
    """Import a template from a text."""
    file = folder / "template.yaml"
    file.write_text(f"heat_template_version: wallaby\n{text}")
    return convert(file, *options)


@pytest.fixture(scope="module")
def schemas(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The schemas of the controllers' kinds in the layout of kubeconform."""
    folder = tmp_path_factory.mktemp("schemas")
    (folder / heat_types.GROUP).mkdir()
    for kind, schema in SCHEMAS.items():
        (folder / heat_types.GROUP / f"{kind.lower()}_{heat_types.VERSION}.json").write_text(json.dumps(schema))
    return folder


@pytest.mark.parametrize(("template", "counts"), SHAPES.items(), ids=SHAPES)
def test_each_shape_becomes_a_stack_without_mistakes(
    template: str, counts: tuple[int, int, int], schemas: Path, tmp_path: Path
) -> None:
    found = convert(template)
    assert tuple(found.report["counts"].values()) == counts
    (tmp_path / "stack.yaml").write_text(found.text)
    command = ["stack", "lint", str(tmp_path / "stack.yaml"), "--schemas", str(schemas)]
    result = click.testing.CliRunner().invoke(main.main, command)
    assert (result.exit_code, result.stdout) == (0, "1 Stack: no mistake\n"), result.output


def test_most_resources_and_files_are_converted() -> None:
    total: collections.Counter[str] = collections.Counter()
    done: collections.Counter[str] = collections.Counter()
    codes = []
    for template in SHAPES:
        found = convert(template)
        codes.append(found.code)
        for each in found.report["resources"]:
            total[each["type"]] += 1
            done[each["type"]] += each["state"] != "not converted"
    assert sum(done.values()) >= 0.7 * sum(total.values())
    assert codes.count(0) >= 0.95 * len(codes)
    never = {type_ for type_ in total if not done[type_]}
    assert never == {
        *("OS::Aodh::GnocchiAggregationByResourcesAlarm", "OS::Designate::Zone", "OS::Heat::ScalingPolicy"),
        *("OS::Heat::StructuredDeployment", "OS::Mistral::Workflow", "OS::Octavia::LoadBalancer", "Some::Other::Type"),
    }


# ---------------------------------------------------------------- the table of types


def list_paths(rules: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The paths of the fields that rules set."""
    for rule in rules.values():
        if isinstance(rule, str):
            yield tuple(rule.split("."))
            continue
        yield from (tuple(each.split(".")) for each in (*rule.get("set", ()), *rule.get("empty", ())))
        if "within" in rule:
            yield from list_paths(rule["within"])
        elif "to" in rule and "use" not in rule:
            yield tuple(rule["to"].split("."))
            if "each" in rule:
                yield from ((*rule["to"].split("."), *inner) for inner in list_paths(rule["each"]))


def has_field(schema: Mapping[str, Any], path: tuple[str, ...]) -> bool:
    """Whether a schema has a field, in the elements of lists as well."""
    for step in path:
        schema = schema.get("items", schema)
        if step not in schema.get("properties", {}):
            return False
        schema = schema["properties"][step]
    return True


ROWS = {type_: row for type_, row in heat_types.read_table().items() if "lost" not in row}


@pytest.mark.parametrize("type_", ROWS)
def test_each_row_sets_and_reads_fields_of_its_kind(type_: str) -> None:
    row = ROWS[type_]
    schema = SCHEMAS[row["kind"]]
    root = (*row.get("root", "spec.resource").split("."), *((row["append"],) if "append" in row else ()))
    paths = [
        *list_paths(row["properties"]),
        *(tuple(each.split(".")) for each in (*row.get("set", ()), *row.get("requires", ()))),
    ]
    assert [path for path in paths if not has_field(schema, (*root, *path))] == []
    attributes = object_fields.mapping(row, "attributes").values()
    stated = [each if isinstance(each, str) else each["path"] for each in attributes if "use" not in each]
    read = [tuple(step.partition("[")[0] for step in each.split(".")) for each in stated]
    assert [path for path in read if not has_field(schema, path)] == []


# ---------------------------------------------------------------- functions


@pytest.mark.parametrize(
    ("output", "value"),
    [
        ("element", "${params.map.k.deep[1]}"),
        ("picked", "${params.list[params.number]}"),
        ("joined", "${(params.list + ['z', string(params.number)]).join(',')}"),
        ("split", "${params.text.split('-')[1]}"),
        ("digest", "${sha256(params.text)}"),
        ("known", "900150983cd24fb0d6963f7d28e17f72"),
        ("replaced", "${params.text.replace('a', string(params.number))}"),
        ("strict", '${params.number}[1,{"a":2}]'),
        ("repeated", "${params.list.map(each, {'name': ('n-' + each)})}"),
        ("product", ["1a", "1b", "2a", "2b"]),
        ("pairs", ["1a", "2b"]),
        ("merged", "${merge(params.map, {'k': 1})}"),
        ("renamed", {"K1": "v1", "k2": "${params.text}"}),
        ("yaql", "${size(params.list.filter(each, each != 'x'))}"),
        ("chosen", "${(conditions.enabled ? dyn(params.text) : dyn(null))}"),
        ("contained", "${'x' in params.list}"),
        ("filtered", "${params.list.filter(each, !(each in ['x']))}"),
        ("url", "http://u:${params.text}@[::1]:${params.number}/a?q=a+b#f"),
        ("concatenated", "${params.list + ['z']}"),
        ("unique", "${cel.bind(first, params.list, first + ['x', 'z'].filter(each, !(each in first)))}"),
        ("selected", "${params.list[0]}"),
        ("identity", "${stack.name}/${stack.uid}"),
    ],
)
def test_each_function_has_a_form(output: str, value: Any) -> None:
    assert functions().spec["template"]["outputs"][output]["value"] == value


def functions() -> Imported:
    """The template with all functions, converted once."""
    if "found" not in _CONVERTED:
        _CONVERTED["found"] = convert("functions")
    return _CONVERTED["found"]


_CONVERTED: dict[str, Imported] = {}


def test_a_function_without_a_form_is_reported_and_stays_as_a_comment() -> None:
    found = functions()
    assert "outputs.lost_digest: digest: md5 has no equivalent; sha256 has" in found.report["losses"]
    assert "lostDigest" not in found.spec["template"]["outputs"]
    assert "      # lost_digest:\n      #   value:\n      #     digest:\n" in found.text


# ---------------------------------------------------------------- resources of OpenStack


def test_a_server_refers_to_objects_of_the_template_and_imports_others() -> None:
    found = convert("server")
    web = found.resources["web"]
    assert web["updatePolicy"] == {"replace": "DeleteFirst"}
    assert web["manifest"]["spec"]["resource"] == {
        "imageRef": "${image.metadata.name}",
        "flavorRef": "${flavor.metadata.name}",
        "keypairRef": "${mineKeyPair.metadata.name}",
        "metadata": [{"key": "stage", "value": "${params.stage}"}, {"key": "size", "value": "${string(params.size)}"}],
        "ports": [{"portRef": "${webPort.metadata.name}"}],
        "userData": {"secretRef": "${webUserData.metadata.name}"},
    }
    assert found.resources["mineKeyPair"]["manifest"]["spec"]["import"] == {"filter": {"name": "mine"}}
    assert found.resources["webUserData"]["manifest"]["stringData"]["value"] == (
        '#!/bin/sh\necho "$${HOME:-/root} ${params.stage} at ${address.status.resource.floatingIP}"\n'
    )
    assert found.resources["webRules"]["manifest"]["spec"]["resource"]["rules"][1] == {
        "protocol": "tcp",
        "portRange": {"min": 80, "max": 443},
        "remoteIPPrefix": "10.0.0.0/8",
        "direction": "ingress",
        "ethertype": "IPv4",
    }


def test_a_rule_that_would_admit_more_is_left_out() -> None:
    found = convert("server")
    assert len(found.resources["webRules"]["manifest"]["spec"]["resource"]["rules"]) == 2
    (loss,) = found.find_losses("web_rules")
    assert loss.startswith("properties.rules[2]: remote_mode: ")


def test_what_joins_two_resources_is_a_field_of_one() -> None:
    server = convert("volume").resources["server"]["manifest"]["spec"]["resource"]
    assert server["volumes"] == [{"volumeRef": "${disk.metadata.name}", "device": "/dev/vdb"}]
    assert server["bootVolume"] == {"volumeRef": "${serverVolume.metadata.name}"}
    trunk = convert("trunk").resources
    assert trunk["address"]["manifest"]["spec"]["resource"]["portRef"] == "${parent.metadata.name}"
    assert trunk["pool"]["manifest"]["spec"]["resource"]["portRef"] == "${server.spec.resource.ports[0].portRef}"
    assert [each["portRange"] for each in trunk["group"]["manifest"]["spec"]["resource"]["rules"]] == [
        {"min": 22, "max": 22}
    ]


def test_an_external_resource_is_never_written() -> None:
    spec = convert("external").resources["server"]["manifest"]["spec"]
    assert (spec["managementPolicy"], spec["import"]) == ("unmanaged", {"id": "${params.id}"})


def test_a_server_without_a_network_needs_a_parameter(tmp_path: Path) -> None:
    found = convert_text(tmp_path, "resources: {a: {type: OS::Nova::Server, properties: {image: i, flavor: f}}}")
    assert found.spec["parametersFrom"] == [{"configMapRef": {"name": "template-parameters"}}]
    assert found.find_losses("a") == [
        "properties.networks: Nova would choose a network; set the parameter defaultNetwork"
    ]


# ---------------------------------------------------------------- Heat's own resources


def test_members_of_a_group_are_stacks_with_values_of_the_template() -> None:
    spec = convert("group").resources["workers"]["manifest"]["spec"]
    assert spec["replicas"] == "${params.count}"
    assert "${rules.status.id}" in spec["parameters"].values()
    assert (spec["rollingUpdate"], spec["removalPolicies"]) == (
        {"maxBatchSize": 1, "minInService": 1},
        [{"resources": ["7"]}],
    )
    member = spec["template"]["manifest"]
    assert member["spec"]["parameters"]["value"] == "worker-${key}"
    assert (
        member["spec"]["template"]["resources"]["member"]["manifest"]["spec"]["resource"]["name"] == "${params.value}"
    )


def test_attributes_of_members_are_read_from_their_list() -> None:
    found = convert("group")
    assert found.resources["workersMembers"]["externalRef"]["metadata"] == {
        "selector": {"matchLabels": {"hearth.dev/stack": "${stack.name}-workers"}}
    }
    assert found.resources["workersMembers"]["readyWhen"] == [
        "size(workersMembers) >= params.count",
        "workersMembers.all(each, each.status.conditions.exists(it, it.type == 'Ready' && it.status == 'True'))",
    ]
    outputs = found.spec["template"]["outputs"]
    assert outputs["addresses"]["value"] == "${workersMembers.map(each, each.status.outputs.firstAddress)}"
    assert outputs["first"]["value"].endswith("['hearth.dev/resource'] == '0')[0].status.outputs.firstAddress}")


def test_hidden_values_reach_nested_stacks_in_secrets() -> None:
    found = convert("nested")
    inner = found.resources["inner"]["manifest"]["spec"]
    assert inner["parameters"]["network"] == "${net.status.id}"
    assert inner["parametersFrom"] == [{"secretRef": {"name": "${innerParameters.metadata.name}"}}]
    assert found.resources["innerParameters"]["manifest"]["stringData"] == {"password": "${params.password}"}
    assert inner["template"]["parameters"]["password"] == {"type": "string", "sensitive": True}


def test_environments_set_parameters_types_hooks_and_restrictions() -> None:
    spec = convert("nested").spec
    assert spec["parameters"] == {"password": "unspeakable", "zone": "b"}
    assert spec["environment"] == {
        "breakpoints": [
            {"resource": "net", "at": ["PreCreate", "PostUpdate"]},
            {"resource": "inner/port", "at": ["PreDelete"]},
        ],
        "restrictedActions": [{"resource": "mapped", "deny": ["Replace"]}],
    }


def test_later_environments_take_precedence_and_merge(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("parameters: {one: 1, map: {a: 1}}\nparameter_defaults: {two: 2}")
    (tmp_path / "b.yaml").write_text(
        "parameters: {one: 3, map: {b: 2}, unknown: x}\nparameter_merge_strategies: {map: merge}\nevent_sinks: []"
    )
    text = "parameters: {one: {type: number}, two: {type: number}, map: {type: json}}\nresources: {a: {type: OS::Heat::TestResource}}"
    found = convert_text(tmp_path, text, "-e", str(tmp_path / "a.yaml"), "-e", str(tmp_path / "b.yaml"))
    assert found.spec["parameters"] == {"one": 3, "map": {"a": 1, "b": 2}}
    assert found.spec["template"]["parameters"]["two"]["default"] == 2
    assert "parameters.unknown: is not a parameter of the template" in found.report["losses"]
    assert any("event_sinks has no equivalent" in each for each in found.report["losses"])


def test_configurations_are_user_data() -> None:
    found = convert("software")
    text = found.resources["serverUserData"]["manifest"]["stringData"]["value"]
    assert (
        "#!/bin/bash\nexport greeting='${string(params.greeting).replace(\"'\", \"'\\\\''\")}'\nexport other='2'\necho"
        in text
    )
    assert text.count("Content-Type: multipart/mixed") == 2
    assert found.resources["plain"]["manifest"]["spec"]["resource"]["userData"] == {"secretRef": "${all.metadata.name}"}
    assert found.resources["after"]["dependsOn"] == ["server"]
    assert [each["path"] for each in found.report["resources"] if each["state"] == "not converted"] == [
        "late",
        "by_puppet",
        "on_delete",
        "applied",
    ]


def test_a_random_text_is_made_of_what_the_api_server_draws() -> None:
    found = convert("random").resources
    assert found["passwordSeed"]["manifest"] == {"apiVersion": "v1", "kind": "Secret", "immutable": True}
    value = found["password"]["manifest"]["stringData"]["value"]
    assert value.startswith("${cel.bind(digest, sha256((passwordSeed.metadata.uid + stack.name)), digest + ")
    assert found["userPassword"]["manifest"]["stringData"] == {
        "password": "${string(base64.decode(password.data.value))}"
    }


def test_a_wait_condition_counts_the_keys_of_its_config_map() -> None:
    found = convert("wait").resources
    assert found["condition"]["readyWhen"] == ["size(condition.?data.orValue({})) >= 2"]
    assert found["serverUserData"]["manifest"]["stringData"]["value"] == ": --data-binary '{}'"
    assert found["after"]["dependsOn"] == ["condition"]


def test_a_stack_of_another_region_has_a_kubeconfig() -> None:
    found = convert("regions").resources
    assert found["there"]["manifest"]["spec"]["kubeConfig"] == {"secretRef": {"name": "region-two"}}
    assert found["here"]["manifest"]["spec"]["timeout"] == "60m"


def test_conditions_and_constraints() -> None:
    template = convert("conditions").spec["template"]
    assert template["conditions"]["both"] == "(conditions.live && conditions.two && !(params.stage == 'other'))"
    assert (template["resources"]["sometimes"]["when"], template["resources"]["never"]["when"]) == (
        "conditions.both",
        "false",
    )
    assert template["outputs"]["net"]["when"] == "conditions.both"
    rules = convert("server").spec["template"]["parameters"]
    assert rules["image"] == {"type": "string", "description": "Machine: what the server is made of. Image"}
    assert (rules["stage"]["enum"], rules["size"]["maximum"]) == (["test", "live"], 9)


def test_reads_of_a_resource_that_may_be_missing_are_optional() -> None:
    template = convert("conditions").spec["template"]
    fields = template["resources"]["reader"]["manifest"]["spec"]["resource"]
    assert fields["name"] == "${sometimes.?status.resource.name}"
    assert "? dyn(sometimes.?metadata.name.orValue('')) : dyn(" in fields["networkRef"]
    outputs = template["outputs"]
    assert (outputs["net"]["value"], outputs["maybe"]["value"]) == ("${sometimes.status.id}", "${sometimes.?status.id}")


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (
            "type: string, constraints: [{length: {min: 1, max: 3}}, {allowed_pattern: '[a-z]+'}]",
            {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^(?:[a-z]+)$"},
        ),
        (
            "type: string, constraints: [{allowed_pattern: a}, {allowed_pattern: b}]",
            {"type": "string", "pattern": "^(?:a)$", "allOf": [{"pattern": "^(?:b)$"}]},
        ),
        ("type: number, default: 1.5", {"type": "number", "default": 1.5}),
        (
            "type: number, default: '2', constraints: [{modulo: {step: 2, offset: 0}}]",
            {"type": "integer", "multipleOf": 2, "default": 2},
        ),
        ("type: boolean, default: 'on'", {"type": "boolean", "default": True}),
        (
            "type: comma_delimited_list, default: 'a, b', constraints: [{allowed_values: [a, b]}]",
            {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "default": ["a", "b"]},
        ),
        ("type: json, default: '{\"a\": 1}'", {"default": {"a": 1}}),
        (
            "type: string, default: 80, label: L, description: D.",
            {"type": "string", "description": "L. D", "default": "80"},
        ),
    ],
)
def test_parameters(rule: str, expected: Object, tmp_path: Path) -> None:
    found = convert_text(tmp_path, f"parameters: {{a: {{{rule}}}}}\nresources: {{}}")
    assert (found.spec["template"]["parameters"]["a"], found.report["losses"]) == (expected, [])


@pytest.mark.parametrize(
    "rule",
    [
        "type: string, constraints: [{custom_constraint: my.own}]",
        "type: string, constraints: [{allowed_pattern: '(?=a)b'}]",
        "type: number, constraints: [{modulo: {step: 2, offset: 1}}]",
        "type: number, default: x",
        "type: string, immutable: true",
        "type: odd",
    ],
)
def test_lost_rules_of_parameters_are_reported(rule: str, tmp_path: Path) -> None:
    found = convert_text(tmp_path, f"parameters: {{a: {{{rule}}}}}\nresources: {{}}")
    assert [each.startswith("parameters.a: ") for each in found.report["losses"]] == [True]


# ---------------------------------------------------------------- the report, and hostile files


def test_nothing_is_dropped_silently(tmp_path: Path) -> None:
    text = """
description: about all
unknown: section
resources:
  a:
    type: OS::Neutron::Net
    metadata: {m: 1}
    update_policy: {u: 1}
    deletion_policy: Snapshot
    odd: field
    depends_on: [b]
    properties: {name: n, qos_policy: gold, odd_property: 1}
  b: {type: Some::Type, properties: {p: 1}}
"""
    found = convert_text(tmp_path, text)
    assert "    # about all\n" in found.text
    assert "      # b:\n      #   type: Some::Type\n      #   properties:\n      #     p: 1\n" in found.text
    assert found.report["losses"] == ["unknown: is not known"]
    assert {each.partition(":")[0] for each in found.find_losses("a")} == {
        *("metadata", "update_policy", "deletion_policy", "odd", "depends_on.b"),
        *("properties.qos_policy", "properties.odd_property"),
    }
    assert "      # qos_policy: gold\n" in found.text


def test_strict_fails_on_any_loss() -> None:
    assert (convert("group", "--strict").code, convert("server", "--strict").code) == (0, 1)


def test_a_comment_cannot_become_content(tmp_path: Path) -> None:
    found = convert_text(tmp_path, 'description: "a\\nspec: {}\\n---\\u2028b"\nresources: {a: {type: "X\\n  b: {}"}}')
    assert set(found.spec["template"]) == {"resources"}


def test_files_outside_of_the_directories_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("unspeakable")
    folder, other = tmp_path / "inner", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    (other / "part.sh").write_text("shared")
    (folder / "link").symlink_to(tmp_path / "secret")
    names = [
        "../secret",
        str(tmp_path / "secret"),
        f"file://{tmp_path}/secret",
        "link",
        "http://localhost/secret",
        "missing",
        "part.sh",
        "\\0",
    ]
    outputs = "\n".join(f'  o{at}: {{value: {{get_file: "{name}"}}}}' for at, name in enumerate(names))
    found = convert_text(
        folder, f"resources: {{n: {{type: ../secret.yaml}}}}\noutputs:\n{outputs}\n", "--registry-dir", str(other)
    )
    assert "unspeakable" not in found.text + found.errors
    assert found.spec["template"]["outputs"] == {"o6": {"value": "shared"}}
    assert found.code == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "AWSTemplateFormatVersion: 2010-09-09\nResources: {}",
            "is a CloudFormation template: heat_template_version is missing",
        ),
        ("resources: {}", "is not a Heat template: heat_template_version is missing"),
        ("heat_template_version: a\nresources: []", "resources must be a map, found a list"),
        ("heat_template_version: a\nresources: {a: {type: 1}}", "resources.a.type must be text, found the number 1"),
        ("- a", "must be a single map, found a list"),
        ("a: [", "is not valid YAML"),
    ],
)
def test_other_files_are_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(text)
    found = convert(tmp_path / "a.yaml")
    assert (found.code, message in found.errors) == (1, True), found.errors


@pytest.mark.parametrize(
    "resources",
    [
        "{a: {type: template.yaml}}",
        "{a: {type: OS::Heat::Value, properties: {value: {get_attr: [a, value]}}}}",
        "{a: {type: OS::Heat::MultipartMime, properties: {parts: [{config: {get_resource: a}}]}}}",
        "{a: {type: OS::Heat::SoftwareConfig, properties: {config: {get_resource: a}}}}",
    ],
)
def test_what_contains_itself_is_not_converted(resources: str, tmp_path: Path) -> None:
    found = convert_text(tmp_path, f"resources: {resources}\noutputs: {{o: {{value: {{get_attr: [a, value]}}}}}}")
    assert found.code == 0
    assert "not converted" in {each["state"] for each in found.report["resources"]} or found.report["losses"]


def test_texts_that_double_again_and_again_end(tmp_path: Path) -> None:
    value = "0123456789" * 10
    values = [f"  v0: {{type: OS::Heat::Value, properties: {{value: {value}}}}}"]
    for at in range(1, 30):
        replaced = f"{{get_attr: [v{at - 1}, value]}}"
        values.append(
            f"  v{at}: {{type: OS::Heat::Value, properties: {{value: {{str_replace: {{template: aa, params: {{a: {replaced}}}}}}}}}}}"
        )
    found = convert_text(
        tmp_path, "resources:\n" + "\n".join(values) + "\noutputs: {o: {value: {get_attr: [v29, value]}}}"
    )
    assert any("characters" in each for each in found.report["losses"])
