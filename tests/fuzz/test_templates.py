"""Any template compiles to a blueprint or to mistakes; nothing else is raised for any text."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hearth.engine.definition import revision_builder
from hearth.model.errors import InvalidDefinition, SourceNotFound
from hearth.plan.ownership.keyed_hash import KeyedHasher
from hearth.template.compiler import compiler
from hearth.template.parser import template_kinds
from support.units import blueprints, fuzzing

QUICK = settings(fuzzing.QUICK, max_examples=300)
LONG = settings(fuzzing.LONG, max_examples=30_000)
KINDS = blueprints.ServedKinds(blueprints.CONFIG_MAP)
NAMES = st.sampled_from(["a", "b", "web", "Web", "params", "string", "x" * 41, "", "1", "ä"])
TEXTS = st.sampled_from(
    [
        *(
            "v1",
            "ConfigMap",
            "Stack",
            "hearth.dev/v1alpha1",
            "${params.a}",
            "${a.data.k}",
            "${b.metadata.name}",
            "${",
            "$${",
        ),
        *(
            "${'",
            "${1/0}",
            "${[1][5]}",
            "${params}",
            "x${a}y",
            "${1}" * 600,
            "a == 1",
            "true",
            "conditions.a",
            "stack.uid",
        ),
        *(
            "${a.?b.orValue(1)}",
            "${nope.x}",
            "${'" + "x" * 5000 + "'}",
            "spec.x",
            "metadata.name",
            'a[b="c"]',
            "Retain",
        ),
        *("Adopt", "CreateFirst", "string", "integer", "\x00", "9" * 400, "k" * 2000),
    ]
)
LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXTS | st.text(max_size=5)
)
WORDS = NAMES | st.sampled_from(
    "manifest dependsOn when readyWhen failedWhen updatePolicy replace replaceOn driftPolicy ignoreFields deletionPolicy "
    "adoptionPolicy apiVersion kind metadata name namespace labels data status value type default sensitive enum".split()
)
ANY = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=10,
)
MANIFESTS = (
    st.fixed_dictionaries(
        {"apiVersion": st.just("v1"), "kind": st.just("ConfigMap")},
        optional={"metadata": ANY, "data": ANY, "status": ANY, "spec": ANY},
    )
    | ANY
)
RESOURCES = (
    st.fixed_dictionaries(
        {"manifest": MANIFESTS},
        optional={
            word: ANY | st.lists(TEXTS, max_size=2) for word in ("dependsOn", "when", "readyWhen", "ignoreFields")
        },
    )
    | ANY
)
TEMPLATES = (
    st.fixed_dictionaries(
        {"resources": st.dictionaries(NAMES, RESOURCES, max_size=3)},
        optional={
            "parameters": st.dictionaries(NAMES, ANY, max_size=3),
            "conditions": st.dictionaries(NAMES, ANY, max_size=3),
            "outputs": st.dictionaries(
                NAMES, st.fixed_dictionaries({"value": ANY}, optional={"when": ANY}) | ANY, max_size=3
            ),
        },
    )
    | ANY
)


CHILD: dict[str, Any] = {"metadata": {"name": "x"}, "data": {"k": [1]}}


class NoSources:
    """A home without any ConfigMap."""

    async def get_source(self, _: object, *, user: str = "") -> Mapping[str, str]:
        return {}


def check(template: Any, given_: Any) -> None:
    """As an operator does it: read, hash, find the kinds, compile, evaluate."""
    ports: Any = {"management_cluster": NoSources(), "cluster": None}  # every field it reads exists
    builder = revision_builder.RevisionBuilder(**ports, hashes=KeyedHasher(b"k" * 32))
    try:
        definition = asyncio.run(builder.read_spec("shop", {"template": template, "parameters": given_}))
        template_kinds.find_kinds(definition)
        blueprint = compiler.compile_template(definition, stack=blueprints.STACK, kinds=KINDS)
    except (InvalidDefinition, SourceNotFound):
        return
    for resource in blueprint.resources.values():
        resource.manifest.evaluate(dict.fromkeys(resource.manifest.reads, CHILD))


@given(TEMPLATES, st.dictionaries(NAMES, ANY, max_size=3) | ANY)
@QUICK
def test_any_template_ends_in_mistakes_or_a_blueprint(template: Any, given_: Any) -> None:
    check(template, given_)


@pytest.mark.soak
@given(TEMPLATES, st.dictionaries(NAMES, ANY, max_size=3) | ANY)
@LONG
def test_any_template_ends_in_mistakes_or_a_blueprint_for_long(template: Any, given_: Any) -> None:
    check(template, given_)
