"""Every mistake of a definition is named at once, with its path and the next step."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from hearth.model import errors
from hearth.template import compiler
from hearth.template.blueprint import Definition, StackIdentity
from support.typed_kinds import TypedKinds

STACK = StackIdentity(name="shop", namespace="prod", uid="u-1")
KINDS = TypedKinds()
RESOURCES = "spec.template.resources"


def find_mistakes(template: Any, parameters: Any = None) -> list[tuple[str, str]]:
    """Path and message of every mistake."""
    raw = yaml.safe_load(template) if isinstance(template, str) else template
    try:
        compiler.compile_template(Definition(template=raw, parameters=parameters or {}), stack=STACK, kinds=KINDS)
    except errors.InvalidDefinition as error:
        return [(mistake.path, mistake.message) for mistake in error.mistakes]
    return []


def in_resource(resource: str, more: str = "") -> str:
    """A template with the resource `a` as given, a sound ConfigMap `config`, and an absent one `gone`."""
    return f"""
parameters:
  count: {{type: integer, default: 3}}
  name: {{type: string, default: x}}
conditions: {{never: "params.count > 5"}}
resources:
  config: {{manifest: {{apiVersion: v1, kind: ConfigMap, metadata: {{name: conf}}, data: {{k: v}}}}}}
  gone: {{when: conditions.never, manifest: {{apiVersion: v1, kind: ConfigMap}}}}
  a: {resource}
{more}
"""


def in_deployment(spec: str, metadata: str = "{}") -> str:
    """A template whose resource `a` is a Deployment of that spec."""
    return in_resource(f"{{manifest: {{apiVersion: apps/v1, kind: Deployment, metadata: {metadata}, spec: {spec}}}}}")


A = f"{RESOURCES}.a"
SPEC = f"{A}.manifest.spec"
META = f"{A}.manifest.metadata"
SOUND = "manifest: {apiVersion: v1, kind: ConfigMap}"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ([], [("spec.template", "must be a map with resources, found a list")]),
        ("{}", [("spec.template.resources", "is missing; state the resources by name, or {} for none")]),
        (
            "resources: []",
            [("spec.template.resources", "must be a map by name, found a list")],
        ),
        (
            in_resource(f"{{{SOUND}}}", "resorces: {}"),
            [("spec.template.resorces", "'resorces' is not known; did you mean 'resources'?")],
        ),
        (
            in_resource(f"{{{SOUND}, deletionPolicy: Retain}}"),
            [
                (
                    f"{A}.deletionPolicy",
                    "'deletionPolicy' is not known; a resource has manifest, dependsOn, when, readyWhen and failedWhen",
                )
            ],
        ),
        (
            in_resource(f"{{{SOUND}, dependson: [config]}}"),
            [(f"{A}.dependson", "'dependson' is not known; did you mean 'dependsOn'?")],
        ),
        (
            in_resource(f"{{{SOUND}}}", "outputs: {x: {valeu: 1}, y: 3}"),
            [
                ("spec.template.outputs.x.valeu", "'valeu' is not known; did you mean 'value'?"),
                ("spec.template.outputs.x.value", "is missing; state what the output gives"),
                ("spec.template.outputs.y", "must be a map with a value, found the number 3; write value: … below it"),
            ],
        ),
        (in_resource("3"), [(A, "must be a map with a manifest, found the number 3")]),
        (in_resource("{}"), [(f"{A}.manifest", "is missing; state the object")]),
        (in_resource("{manifest: []}"), [(f"{A}.manifest", "must be a map, found a list")]),
        (
            in_resource("{manifest: {}}"),
            [
                (f"{A}.manifest.apiVersion", "is missing; write e.g. apiVersion: apps/v1"),
                (f"{A}.manifest.kind", "is missing; write e.g. kind: Deployment"),
            ],
        ),
        (
            in_resource("{manifest: {apiVersion: 1, kind: ConfigMap}}"),
            [(f"{A}.manifest.apiVersion", "must be text, found the number 1")],
        ),
        (
            in_resource(f"{{{SOUND}, dependsOn: config}}"),
            [(f"{A}.dependsOn", "must be a list of names of resources, found the text 'config'")],
        ),
        (in_resource(f"{{{SOUND}, dependsOn: [1]}}"), [(f"{A}.dependsOn[0]", "must be text, found the number 1")]),
    ],
    ids=[
        "no map",
        "no resources",
        "resources as a list",
        "unknown word",
        "a word of later",
        "a word in other letters",
        "outputs",
        "a resource that is none",
        "no manifest",
        "a manifest that is none",
        "an empty manifest",
        "a version that is a number",
        "dependsOn without a list",
        "dependsOn a number",
    ],
)
def test_structure(template: Any, expected: list[tuple[str, str]]) -> None:
    """What a template is made of."""
    assert find_mistakes(template) == expected


NAME_RULE = "names begin with a small letter and have at most 40 letters and digits, e.g. redisMaster"


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            f"resources: {{My-Web: {{{SOUND}}}}}",
            [(f"{RESOURCES}.My-Web", f"cannot be the name of a resource; {NAME_RULE}")],
        ),
        (
            f"resources: {{{'a' * 41}: {{{SOUND}}}}}",
            [(f"{RESOURCES}.{'a' * 41}", f"cannot be the name of a resource; {NAME_RULE}")],
        ),
        (f"resources: {{1: {{{SOUND}}}}}", [(f"{RESOURCES}[1]", f"cannot be the name of a resource; {NAME_RULE}")]),
        (
            f"resources: {{params: {{{SOUND}}}}}",
            [(f"{RESOURCES}.params", "'params' is a word of the expression language; call the resource otherwise")],
        ),
        (
            f"resources: {{namespace: {{{SOUND}}}}}",
            [
                (
                    f"{RESOURCES}.namespace",
                    "'namespace' is a word of the expression language; call the resource otherwise",
                )
            ],
        ),
        (
            f"resources: {{math: {{{SOUND}}}}}",
            [(f"{RESOURCES}.math", "'math' is a word of the expression language; call the resource otherwise")],
        ),
        (
            in_resource(f"{{{SOUND}}}", "outputs: {in: {value: 1}}"),
            [("spec.template.outputs.in", "'in' is a word of the expression language; call the output otherwise")],
        ),
    ],
    ids=["capital and dash", "too long", "a number", "ours", "CEL's", "a namespace of functions", "after a dot"],
)
def test_names(template: str, expected: list[tuple[str, str]]) -> None:
    """So that an expression can name them bare."""
    assert find_mistakes(template) == expected


def test_a_parameter_may_be_called_namespace() -> None:
    """It always stands after a dot."""
    assert not find_mistakes(f"parameters: {{namespace: {{default: x}}}}\nresources: {{a: {{{SOUND}}}}}")


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        (
            in_deployment("{replcas: 3}"),
            [(f"{SPEC}.replcas", "there is no field 'replcas' in DeploymentSpec; did you mean 'replicas'?")],
        ),
        (
            in_deployment("{template: {spec: {containers: [{nam: x}, {image: 3}]}}}"),
            [
                (
                    f"{SPEC}.template.spec.containers[0].nam",
                    "there is no field 'nam' in Container; did you mean 'name'?",
                ),
                (f"{SPEC}.template.spec.containers[1].image", "must be text, found the number 3; put it in quotes"),
            ],
        ),
        (
            in_deployment("{replicas: '3'}"),
            [(f"{SPEC}.replicas", "must be an integer, found the text '3'; take the quotes off")],
        ),
        (in_deployment("{replicas: 1.5}"), [(f"{SPEC}.replicas", "must be an integer, found the number 1.5")]),
        (
            in_deployment("{paused: 'yes'}"),
            [(f"{SPEC}.paused", "must be true or false, found the text 'yes'; take the quotes off")],
        ),
        (in_deployment("{selector: [1]}"), [(f"{SPEC}.selector", "must be a map, found a list")]),
        (
            in_deployment("{selector: {matchLabels: {app: true}}}"),
            [(f"{SPEC}.selector.matchLabels.app", "must be text, found true; put it in quotes")],
        ),
        (
            in_deployment("{}", "{labels: {app.kubernetes.io/name: 3}}"),
            [(f"{META}.labels[app.kubernetes.io/name]", "must be text, found the number 3; put it in quotes")],
        ),
        (
            in_deployment("{zz: 3}"),
            [
                (
                    f"{SPEC}.zz",
                    "there is no field 'zz' in DeploymentSpec; take it out, or see kubectl explain for its fields",
                )
            ],
        ),
        (
            in_deployment("{}", "{generateName: x-}"),
            [
                (
                    f"{META}.generateName",
                    "would give a new object with every apply; state name, or leave it out for a name made by Hearth",
                )
            ],
        ),
        (
            in_deployment("{}", "{managedFields: [], uid: x}"),
            [
                (f"{META}.managedFields", "is written by the API server only; take it out"),
                (f"{META}.uid", "is written by the API server only; take it out"),
            ],
        ),
        (
            in_deployment("{}", "{labels: {hearth.dev/stack: x}}"),
            [(f"{META}.labels[hearth.dev/stack]", "is written by Hearth itself; take it out")],
        ),
        (in_deployment("{}", "[]"), [(META, "must be a map, found a list")]),
        (
            in_resource("{manifest: {apiVersion: apps/v1, kind: Deployment, status: {readyReplicas: 1}}}"),
            [(f"{A}.manifest.status", "is written by the kind's own controller, never by a template; take it out")],
        ),
        (
            in_resource("{manifest: {apiVersion: v1, kind: Namespace, metadata: {namespace: x}}}"),
            [(f"{META}.namespace", "Namespace is of cluster scope and has no namespace; take it out")],
        ),
    ],
    ids=[
        "unknown field",
        "deep in a list",
        "a number in quotes",
        "no whole number",
        "a truth in quotes",
        "a list for a map",
        "a label that is no text",
        "a key with a slash",
        "nothing alike",
        "generateName",
        "fields of the server",
        "marks of Hearth",
        "metadata that are none",
        "status",
        "namespace of a cluster-wide object",
    ],
)
def test_literal_manifests(template: str, expected: list[tuple[str, str]]) -> None:
    """As far as the kind's schema is known and closed."""
    assert find_mistakes(template) == expected


@pytest.mark.parametrize(
    "spec",
    [
        "{strategy: {maxSurge: 1}}",
        "{strategy: {maxSurge: 25%}}",
        "{replicas: 3.0}",
        "{replicas: null}",
        "{template: {spec: {containers: [{resources: {limits: {cpu: 1, memory: 1Gi}}}]}}}",
        "{replicas: '${params.count}'}",
        "{replicas: '${int(params.name)}'}",
        "{strategy: {maxSurge: '${params.name}%'}}",
        "{selector: {matchLabels: '${config.data}'}}",
    ],
)
def test_what_is_no_mistake(spec: str) -> None:
    """Where a field takes more than one form, or only its value tells."""
    template = in_deployment(spec)
    # A name that is a number, so that it can be converted.
    assert not find_mistakes(template, {"name": "3"})


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        (
            "{replicas: '${params.name}'}",
            ".replicas",
            "must be an integer, `params.name` gives text; make the whole string one expression that gives an integer, e.g. with int()",
        ),
        (
            "{replicas: '${params.count}0'}",
            ".replicas",
            "must be an integer, a string with expressions in it is text; make the whole string one expression that gives an integer, e.g. with int()",
        ),
        (
            "{template: {spec: {containers: [{image: '${params.count}'}]}}}",
            ".template.spec.containers[0].image",
            "must be text, `params.count` gives an integer; convert with string()",
        ),
        (
            "{template: {spec: {containers: '${params.name}'}}}",
            ".template.spec.containers",
            "must be a list, `params.name` gives text; make the whole string one expression that gives a list",
        ),
        (
            "{replicas: '${config.data}'}",
            ".replicas",
            "must be an integer, `config.data` gives a map; make the whole string one expression that gives an integer, e.g. with int()",
        ),
        (
            "{replicas: '${params.cont}'}",
            ".replicas",
            "there is no field 'cont' in params; did you mean 'count'? (at column 8 of `params.cont`)",
        ),
        (
            "{replicas: '${wbe.x}'}",
            ".replicas",
            "nothing is called 'wbe'; declare it, or write $${ for a literal ${ (at column 1 of `wbe.x`)",
        ),
        (
            "{replicas: '${1 + confg.x}'}",
            ".replicas",
            "nothing is called 'confg'; did you mean 'config'? (at column 5 of `1 + confg.x`)",
        ),
        (
            "{replicas: '${config.dta.x}'}",
            ".replicas",
            "there is no field 'dta' in ConfigMap; did you mean 'data'? (at column 8 of `config.dta.x`)",
        ),
        (
            "{replicas: '${conditions.nver}'}",
            ".replicas",
            "there is no field 'nver' in conditions; did you mean 'never'? (at column 12 of `conditions.nver`)",
        ),
        (
            "{replicas: '${stack.labels}'}",
            ".replicas",
            "there is no field 'labels' in stack (at column 7 of `stack.labels`)",
        ),
        (
            "{replicas: '${1 +}'}",
            ".replicas",
            "syntax error: mismatched input the end of the expression (at column 4 of `1 +`)",
        ),
        ("{replicas: '${}'}", ".replicas", "the expression is empty (at column 1 of ``)"),
        (
            "{replicas: '${params.count'}",
            ".replicas",
            "the closing brace after '${params.count' is missing; write $${ for a literal ${",
        ),
        (
            "{selector: {matchLabels: {'${params.name}': x}}}",
            ".selector.matchLabels[${params.name}]",
            "keys cannot hold expressions, only values can; give the whole map as one expression",
        ),
        (
            "{replicas: '${1 / (params.count - 3)}'}",
            ".replicas",
            "`1 / (params.count - 3)` fails: divide by zero; mend the expression or the parameters that it uses",
        ),
        (
            "{template: {spec: {containers: [{image: '${gone.data.k}'}]}}}",
            ".template.spec.containers[0].image",
            "'gone' is not there, since its `when` is false, but `gone.data.k` needs it; read it with `gone.?…` and orValue(…), or give this a `when` as well",
        ),
    ],
    ids=[
        "text for an integer",
        "pieces for an integer",
        "an integer for text",
        "text for a list",
        "a map for an integer",
        "unknown parameter",
        "unknown name",
        "mistyped name",
        "unknown field of another resource",
        "unknown condition",
        "unknown word of the stack",
        "syntax",
        "empty",
        "no end",
        "in a key",
        "cannot be evaluated",
        "absent resource",
    ],
)
def test_expressions(spec: str, path: str, message: str) -> None:
    """With the column within the expression."""
    assert find_mistakes(in_deployment(spec)) == [(SPEC + path, message)]


@pytest.mark.parametrize(
    ("resource", "path", "message"),
    [
        (
            "when: config.data.k == 'v'",
            "when",
            "only params and conditions can be used here, since it is decided beforehand (at column 1 of `config.data.k == 'v'`)",
        ),
        (
            "when: params.count",
            "when",
            "must give true or false, `params.count` gives an integer; compare it with something",
        ),
        ("when: 3", "when", 'must be an expression, found the number 3; write e.g. "params.replicas > 1"'),
        (
            "when: 'x ${params.count > 1}'",
            "when",
            "must be one expression, found 'x ${params.count > 1}'; write it bare, without ${…}",
        ),
        (
            "when: '${true}${true}'",
            "when",
            "must be one expression, found '${true}${true}'; write it bare, without ${…}",
        ),
        (
            "readyWhen: [a.data.k]",
            "readyWhen[0]",
            "must give true or false, `a.data.k` gives text; compare it with something",
        ),
        (
            "readyWhen: [a.dta.k == 'x']",
            "readyWhen[0]",
            "there is no field 'dta' in ConfigMap; did you mean 'data'? (at column 3 of `a.dta.k == 'x'`)",
        ),
        (
            "failedWhen: ['true', zz.x]",
            "failedWhen[1]",
            "nothing is called 'zz'; declare it, or write $${ for a literal ${ (at column 1 of `zz.x`)",
        ),
        ("dependsOn: [confg]", "dependsOn[0]", "there is no resource 'confg'; did you mean 'config'?"),
        (
            "dependsOn: [config, zz]",
            "dependsOn[1]",
            "there is no resource 'zz'; name a resource of this template, or take it out",
        ),
    ],
)
def test_words_beside_the_manifest(resource: str, path: str, message: str) -> None:
    """Tests must be true or false; what is decided beforehand knows no other resource."""
    assert (f"{A}.{path}", message) in find_mistakes(in_resource(f"\n    {SOUND}\n    {resource}"))


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"a": "${a.data.x}"}, ["a → a"]),
        ({"a": "${b.data.x}", "b": "${a.data.x}"}, ["a → b → a"]),
        (
            {"a": "${b.?data.?x}", "b": "${c.data.x}", "c": "${a.data.x}", "d": "${e.data.x}", "e": "${d.data.x}"},
            ["a → b → c → a", "d → e → d"],
        ),
    ],
    ids=["itself", "two", "two cycles"],
)
def test_cycles_are_printed(resources: dict[str, str], expected: list[str]) -> None:
    """At the first resource of each."""
    template = {
        "resources": {
            name: {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": text}}}
            for name, text in resources.items()
        }
    }
    assert find_mistakes(template) == [
        (f"{RESOURCES}.{cycle[0]}", f"requires itself: {cycle}; take one of these references or dependsOn out")
        for cycle in expected
    ]


def test_a_cycle_by_dependson_and_tests() -> None:
    """A resource is ready only when what its tests read is."""
    template = in_resource(f"{{{SOUND}, readyWhen: [\"b.data.x == '1'\"]}}", f"  b: {{{SOUND}, dependsOn: [a]}}")
    assert [message for _, message in find_mistakes(template)] == [
        "requires itself: a → b → a; take one of these references or dependsOn out"
    ]


def test_a_cycle_of_conditions() -> None:
    """They are decided in order, so there must be one."""
    template = f"conditions: {{x: conditions.y, y: '!conditions.x', z: conditions.zz}}\nresources: {{a: {{{SOUND}}}}}"
    assert find_mistakes(template) == [
        ("spec.template.conditions.z", "there is no field 'zz' in conditions (at column 12 of `conditions.zz`)"),
        ("spec.template.conditions.x", "depends on itself: x → y → x; take one of them out"),
    ]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"a": {"name": "x"}, "b": {"name": "x"}}, [("b", "configmap/x", "a")]),
        (
            {"a": {"name": "x"}, "b": {"name": "${params.x}"}, "c": {"name": "x", "namespace": "prod"}},
            [("b", "configmap/x", "a"), ("c", "configmap/x", "a")],
        ),
        ({"a": {"name": "x"}, "b": {"name": "x", "namespace": "other"}}, []),
        ({"a": {"name": "x"}, "b": {"name": "${a.data.x}"}}, []),
        ({"aBC": {}, "aBc": {}}, [("aBc", "configmap/shop-a-bc", "aBC")]),
        ({"web": {}, "b": {"name": "shop-web"}}, [("b", "configmap/shop-web", "web")]),
    ],
    ids=[
        "one name",
        "by parameter or own namespace",
        "elsewhere",
        "not known yet",
        "made names that coincide",
        "a made name pinned by another",
    ],
)
def test_two_resources_for_one_object(resources: dict[str, Any], expected: list[tuple[str, str, str]]) -> None:
    """The later one is told of the earlier."""
    template = {
        "parameters": {"x": {"default": "x"}},
        "resources": {
            name: {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}}
            for name, metadata in resources.items()
        },
    }
    assert find_mistakes(template) == [
        (
            f"{RESOURCES}.{name}.manifest.metadata.name",
            f"names {ref}, as the resource '{owner}' does; give one of them another name",
        )
        for name, ref, owner in expected
    ]


def test_kinds_depend_on_parameters_only() -> None:
    """Since everything else is told by the kind."""
    found = find_mistakes(in_resource('{manifest: {apiVersion: v1, kind: "${config.data.k}"}}'))
    rule = "apiVersion and kind may use params only, since the kind must be known beforehand"
    assert found == [(f"{A}.manifest.kind", f"{rule} (at column 1 of `config.data.k`)")]


def test_parameters_as_given() -> None:
    """They are named as the user wrote them, and nothing that depends on them is called wrong as well."""
    template = f"""
parameters: {{replicas: {{type: integer}}, name: {{type: string}}, broken: {{typ: x}}}}
conditions: {{big: "params.replicas > 5"}}
resources: {{a: {{when: conditions.big, {SOUND[:-1]}, data: {{x: "${{params.name}} ${{params.broken}}"}}}}}}}}
"""
    assert [path for path, _ in find_mistakes(template, {"replicas": "many", "nam": "x", "broken": 1})] == [
        "spec.template.parameters.broken.typ",
        "spec.parameters.replicas",
        "spec.parameters.name",
        "spec.parameters.nam",
    ]
    assert find_mistakes(template, [1])[-1] == ("spec.parameters", "must be a map by name, found a list")


@pytest.mark.parametrize(
    ("value", "path", "message"),
    [
        (2**70, "", "is an integer of more than 64 bits; write it as text"),
        ([{1: "x"}], "[0]", "has the key 1, which is no text; put it in quotes"),
        ({"a": {1, 2}}, ".a", "is set, which JSON cannot hold; write it as text"),
        (
            "${" + "[" * 50 + "]" * 50 + "}",
            "",
            f"Expression recursion limit exceeded. limit: 32 (at column 1 of `{'[' * 50 + ']' * 50}`)",
        ),
    ],
    ids=["a huge integer", "a key that is a number", "no JSON", "a deep expression"],
)
def test_what_cannot_be_written(value: Any, path: str, message: str) -> None:
    """Beside it, everything else is still looked at."""
    manifest = {"apiVersion": "some.dev/v1", "kind": "Some", "spec": value}
    found = find_mistakes({"resources": {"a": {"manifest": manifest}}, "outputs": {"x": {"value": value}}, "zz": 1})
    assert (f"{SPEC}{path}", message) in found
    assert (f"spec.template.outputs.x.value{path}", message) in found
    assert found[0][0] == "spec.template.zz"


def test_what_is_nested_without_end_is_refused() -> None:
    """Before the stack of calls is used up."""
    deep: Any = "x"
    for _ in range(5_000):
        deep = [deep, None]
    manifest = {"apiVersion": "some.dev/v1", "kind": "Some", "spec": deep}
    assert find_mistakes({"resources": {"a": {"manifest": manifest}}}) == [
        ("spec.template", "is nested too deeply; Kubernetes itself takes no such object")
    ]


def test_ten_mistakes_at_once() -> None:
    """One message, ten paths."""
    found = find_mistakes(
        """
parameters:
  replicas: {type: integer, minimun: 1}
  name: {type: string}
conditions: {big: "params.name"}
resources:
  Web: {manifest: {apiVersion: apps/v1, kind: Deployment}}
  config: {manifest: {apiVersion: v1, kind: ConfigMap, data: {a: "${nothing.x}", b: 3}}}
  db: {deletionPolicy: Retain, dependsOn: [dbb], manifest: {apiVersion: apps/v1, kind: Deployment, spec: {replcas: 1}}}
  one: {manifest: {apiVersion: v1, kind: ConfigMap, data: {x: "${two.data.x}"}}}
  two: {manifest: {apiVersion: v1, kind: ConfigMap, data: {x: "${one.data.x}"}}}
  space: {manifest: {apiVersion: v1, kind: Namespace, metadata: {namespace: x}}}
outputs: {ready: {value: "${db.status.readyReplcas}"}}
""",
        {"nmae": "x"},
    )
    assert sorted(path for path, _ in found) == sorted(
        [
            "spec.template.parameters.replicas.minimun",
            "spec.parameters.name",
            "spec.parameters.nmae",
            "spec.template.conditions.big",
            f"{RESOURCES}.Web",
            f"{RESOURCES}.config.manifest.data.a",
            f"{RESOURCES}.config.manifest.data.b",
            f"{RESOURCES}.db.deletionPolicy",
            f"{RESOURCES}.db.dependsOn[0]",
            f"{RESOURCES}.db.manifest.spec.replcas",
            f"{RESOURCES}.one",
            f"{RESOURCES}.space.manifest.metadata.namespace",
            "spec.template.outputs.ready.value",
        ]
    )
    assert len(set(found)) == len(found)


def test_no_message_ends_with_a_full_stop_or_repeats_its_path() -> None:
    """They are put together by others."""
    for path, message in find_mistakes(in_deployment("{replcas: '${wbe.x', paused: x, zz: '${1 +}'}")):
        assert not message.endswith(".")
        assert path not in message
