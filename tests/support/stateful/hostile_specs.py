"""Specs that a hostile tenant writes into its Stacks: nonsense, bombs, and one valid Stack.

Contains only values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hearth.model import names
from hearth.model.child import Object
from support.server import fake_kinds

STACK_VERSION = fake_kinds.STACK.kind.api_version
WIDE = 60
"""Number of resources, parameters or entries in tests with many of them. More would show the same, but slower."""


def config(*, name: Any = None, namespace: Any = None, data: Any = None, **more: Any) -> Object:
    metadata = {key: value for key, value in (("name", name), ("namespace", namespace)) if value is not None}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "data": data if data is not None else {"a": "b"}}
    return {"manifest": {**manifest, **({"metadata": metadata} if metadata else {})}, **more}


def deep(levels: int, core: Any) -> Any:
    """Lists in lists."""
    for _ in range(levels):
        core = [core]
    return core


def spec_of(resources: Mapping[str, Any], *, parameters: Mapping[str, Any] | None = None, **template: Any) -> Object:
    """A spec whose untyped parameters have these values."""
    declared: Object = {name: {} for name in parameters or {}}
    whole = {"resources": dict(resources), **({"parameters": declared} if declared else {}), **template}
    return {"template": whole, **({"parameters": dict(parameters)} if parameters else {})}


SPECS: Mapping[str, Object] = {
    "number-as-name": spec_of(
        {f"r{n}": config(name=f"${{params.n{n}}}") for n in range(40)}, parameters={f"n{n}": 500 + n for n in range(40)}
    ),
    "list-as-name": spec_of({f"r{n}": config(name="${params.n}") for n in range(4)}, parameters={"n": [1]}),
    "number-as-namespace": spec_of({"r": config(namespace="${params.n}")}, parameters={"n": 7}),
    "number-as-label": spec_of({"r": config(data={"a": "${params.n}"})}, parameters={"n": {"a": None}}),
    "slashes": spec_of(
        {f"r{n}": config(name=name) for n, name in enumerate(("a/b", "..", "a%2Fb", "../../secrets", "A", "-"))}
    ),
    "deep-output": spec_of(
        {"r": config()}, outputs={"o": {"value": deep(240, "${" + "[" * 25 + "1" + "]" * 25 + "}")}}
    ),
    "deep-data": spec_of({"r": config(data={"a": deep(120, "x")})}),
    "wide": spec_of({f"r{n}": config(data={f"k{m}": "v" * 100 for m in range(WIDE)}) for n in range(WIDE)}),
    "chain": spec_of({f"r{n}": config(data={"a": f"${{r{n - 1}.metadata.name}}" if n else "x"}) for n in range(WIDE)}),
    "unknown-kind": spec_of({"r": {"manifest": {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}}}),
    "revision": spec_of(
        {
            "r": {
                "manifest": {
                    "apiVersion": "apps/v1",
                    "kind": "ControllerRevision",
                    "metadata": {"annotations": {names.ANNOTATION_REVISION: "77"}},
                    "revision": 77,
                    "data": {"compressed": "H4sI"},
                }
            }
        }
    ),
    "pattern": {
        "template": {"parameters": {"p": {"type": "string", "pattern": "^(a+)+$"}}, "resources": {"r": config()}},
        "parameters": {"p": "a" * 28 + "!"},
    },
    "misspelt": {
        "template": {"parameters": {f"parameter-{n}": {} for n in range(WIDE)}, "resources": {"r": config()}},
        "parameters": {f"parametre-{n}": n for n in range(WIDE)},
    },
    "breakpoints": {
        **spec_of({"a" * 40: config()}),
        "environment": {"breakpoints": [{"resource": "*a" * 6 + "b", "at": ["PreCreate"]}]},
    },
    "doubling": spec_of(
        {"r": config(data={"a": "${size(cel.bind(a, 'xxxxxxxx', cel.bind(b, a + a, cel.bind(c, b + b, c + c))))}"})}
    ),
    "type-errors": spec_of(
        {f"r{n}": config(data={"a": "${" + text + "}"}) for n, text in enumerate(("1/0", "int('x')", "[][3]"))}
    ),
    "nested": spec_of(
        {"r": {"manifest": {"apiVersion": STACK_VERSION, "kind": "Stack", "spec": spec_of({"s": config()})}}}
    ),
    "fork": {"templateRef": {"name": "bomb", "key": "template"}},
    "aliases": {"templateRef": {"name": "aliases", "key": "template"}},
    "source": {
        **spec_of({"r": config(data={"a": "${string(params.n)}"})}),
        "parametersFrom": [{"configMapRef": {"name": f"source-{n}", "optional": True}} for n in range(20)],
    },
    "rollback": {**spec_of({"r": config()}), "rollback": {"onFailure": True, "toRevision": 77}},
    "quiet": spec_of({"r": config(), "s": config(data={"a": "${r.metadata.name}"})}),
}
"""Invalid specs, resource bombs, and one valid Stack whose objects and status are tampered with."""
