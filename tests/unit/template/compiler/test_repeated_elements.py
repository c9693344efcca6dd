"""An element of a list that stands for the same thing as an earlier one is a mistake of the definition, wherever it comes from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hearth.template.blueprint import Definition, Known
from hearth.template.compiler import compiler
from hearth.template.schema import literal_validator, shapes
from support.units.templates.invalid_templates import KINDS, STACK, find_mistakes

SAME = "as the element [0]; change or remove one of them"
POD = literal_validator.find_built_in("v1/Pod")


def in_kind(kind: str, spec: str, rest: str = "", *, api_version: str = "v1") -> str:
    """A template whose resource `a` is of that kind; `number` gives 80 and `text` gives A, by parameters."""
    return f"""
parameters: {{number: {{type: integer, default: 80}}, text: {{type: string, default: A}}}}
resources:
  a:
    {rest}
    manifest: {{apiVersion: {api_version}, kind: {kind}, spec: {spec}}}
"""


@pytest.mark.parametrize(
    ("template", "path", "message"),
    [
        pytest.param(
            in_kind("Pod", "{containers: [{name: a}, {name: b}, {name: a}]}"),
            ".spec.containers[2]", f"has the same name a {SAME}", id="a container"),
        pytest.param(
            in_kind("Pod", "{containers: [{name: a, env: [{name: X, value: a}, {name: X, value: b}]}]}"),
            ".spec.containers[0].env[1]", f"has the same name X {SAME}", id="a variable"),
        pytest.param(
            in_kind("Pod", "{containers: [{name: a, ports: [{containerPort: 1}, {containerPort: 1, protocol: TCP}]}]}"),
            ".spec.containers[0].ports[1]", f"has the same containerPort 1 and protocol TCP {SAME}", id="a key with its default"),
        pytest.param(
            in_kind("Pod", "{volumes: [{name: v}, null, {name: v}]}"),
            ".spec.volumes[2]", f"has the same name v {SAME}", id="beside null, which is left out"),
        pytest.param(
            in_kind("CronJob", "{jobTemplate: {spec: {template: {spec: {initContainers: [{name: i}, {name: i}]}}}}}", api_version="batch/v1"),
            ".spec.jobTemplate.spec.template.spec.initContainers[1]", f"has the same name i {SAME}", id="deep within"),
        pytest.param(
            in_kind("Service", "{ports: [{port: 80}, {port: '${params.number}'}]}"),
            ".spec.ports[1]", f"has the same port and protocol {SAME}", id="by a parameter"),
        pytest.param(
            in_kind("Service", "{ports: '${[{\"port\": 1}, {\"port\": 1}]}'}"),
            ".spec.ports[1]", f"has the same port and protocol {SAME}", id="by an expression that gives the list"),
        pytest.param(
            in_kind("Pod", "'${{\"containers\": [{\"name\": params.text}, {\"name\": \"A\"}]}}'"),
            ".spec.containers[1]", f"has the same name {SAME}", id="by an expression that gives all of it"),
        pytest.param(
            in_kind("Pod", "{containers: [{name: a}, {name: '${item}'}]}", "forEach: '[\"b\", \"a\"]'"),
            ".spec.containers[1]", f"member '1': has the same name {SAME}", id="in one member of a collection"),
        pytest.param(
            in_kind("Stack", "{template: {resources: {in: {manifest: {apiVersion: v1, kind: Pod, spec: {volumes: [{name: v}, {name: v}]}}}}}}", api_version="hearth.dev/v1alpha1"),
            ".spec.template.resources.in.manifest.spec.volumes[1]", f"has the same name v {SAME}", id="in a nested Stack"),
        pytest.param(
            in_kind("ResourceGroup", "{template: {manifest: {apiVersion: v1, kind: Pod, spec: {volumes: [{name: v}, {name: v}]}}}}", api_version="hearth.dev/v1alpha1"),
            ".spec.template.manifest.spec.volumes[1]", f"has the same name v {SAME}", id="in a group"),
    ],
)  # fmt: skip
def test_it_is_found_with_its_path(template: str, path: str, message: str) -> None:
    """The second one, and what tells the elements apart."""
    found = find_mistakes(template)

    assert (f"spec.template.resources.a.manifest{path}", message) in found


def test_all_are_found_at_once() -> None:
    """With the finalizers, which are keys by themselves."""
    spec = "{containers: [{name: a, env: [{name: X}, {name: X}, {name: X}]}, {name: a}]}"
    template = in_kind("Pod", spec).replace("spec:", "metadata: {finalizers: [x/y, x/y]}, spec:")

    paths = [path.removeprefix("spec.template.resources.a.manifest") for path, _ in find_mistakes(template)]

    assert paths == [
        ".metadata.finalizers[1]",
        ".spec.containers[1]",
        ".spec.containers[0].env[1]",
        ".spec.containers[0].env[2]",
    ]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("{ports: [{port: 53, protocol: TCP}, {port: 53, protocol: UDP}]}", id="another protocol"),
        pytest.param("{ports: [{port: 80}, {port: '${params.number + 1}'}]}", id="another value"),
        pytest.param("{ports: [{port: 80}, '${params.number > 1 ? null : {\"port\": 80}}']}", id="one that is left out"),
        pytest.param("{externalIPs: [1.1.1.1, 1.1.1.1]}", id="a list that is replaced as a whole"),
        pytest.param("{ports: [{name: a}, {name: b}]}", id="the key is missing: the API server says so"),
        pytest.param("{ports: [80, 80]}", id="no maps"),
    ],
)  # fmt: skip
def test_what_is_not_the_same_is_none(spec: str) -> None:
    """Nothing is called a duplicate that the API server accepts, or refuses for another reason."""
    assert not any("same" in message or "repeats" in message for _, message in find_mistakes(in_kind("Service", spec)))


def test_a_schema_with_keys_of_its_own_counts() -> None:
    """Of a custom kind, also where a list may be null."""
    parts = {
        "type": "array", "nullable": True, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id"],
        "items": {"type": "object", "properties": {"id": {"type": "boolean", "default": True}}},
    }  # fmt: skip
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"parts": parts}}}}
    shape = shapes.make_shape(schema, find=lambda _: None, memory={}, name="Widget")

    found = literal_validator.find_repeated({"spec": {"parts": [{"id": True}, {"id": 1}, {}]}}, shape)

    assert found == [(".spec.parts[2]", f"has the same id True {SAME}")]


def test_a_value_of_another_resource_is_compared_as_soon_as_it_is_known() -> None:
    """Without showing it: it may be a secret."""
    raw: dict[str, Any] = {
        "resources": {
            "key": {"manifest": {"apiVersion": "v1", "kind": "Secret"}},
            "web": {
                "manifest": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "spec": {"containers": [{"name": "a"}, {"name": "${key.data.name}"}]},
                }
            },
        }
    }
    blueprint = compiler.compile_template(Definition(template=raw, parameters={}), stack=STACK, kinds=KINDS)
    web = blueprint.resources["web"]
    assert web.find_repeated is not None

    same, other = (web.manifest.evaluate({"key": {"data": {"name": name}}}) for name in ("a", "b"))

    assert isinstance(same, Known)
    assert isinstance(other, Known)
    assert web.find_repeated(same.value) == [(".spec.containers[1]", f"has the same name {SAME}")]
    assert web.find_repeated(other.value) == []


def test_what_cannot_repeat_anything_costs_nothing() -> None:
    """A value of a variable, for example: only a key tells elements apart."""
    raw = in_kind("Pod", "{containers: [{name: a, env: [{name: X, value: '${b.metadata.name}'}]}]}")
    raw += "  b: {manifest: {apiVersion: v1, kind: ConfigMap}}\n"
    import yaml

    definition = Definition(template=yaml.safe_load(raw), parameters={})
    blueprint = compiler.compile_template(definition, stack=STACK, kinds=KINDS)

    assert blueprint.resources["a"].find_repeated is None


PORTS = st.lists(
    st.fixed_dictionaries(
        {}, optional={"containerPort": st.integers(1, 3), "protocol": st.sampled_from(["TCP", "UDP"]), "name": st.text(max_size=1)}
    ),
    max_size=6,
)  # fmt: skip


@given(ports=PORTS)
def test_ports_are_the_same_by_number_and_protocol(ports: list[dict[str, Any]]) -> None:
    """Each that has the number and the protocol of an earlier one, and no other."""
    keys = [(each["containerPort"], each.get("protocol", "TCP")) for each in ports if "containerPort" in each]

    found = literal_validator.find_repeated({"spec": {"containers": [{"name": "a", "ports": ports}]}}, POD)

    assert len(found) == len(keys) - len(set(keys))
