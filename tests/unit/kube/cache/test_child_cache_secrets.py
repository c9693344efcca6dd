"""What a Secret holds stays out of the process where it is not read."""

from __future__ import annotations

import gc
import types
from collections.abc import Iterator

import pytest

from hearth.kube.cache.child_cache import ChildCache
from hearth.kube.client import JSON
from hearth.kube.watch.reflector import METADATA
from hearth.model import names
from hearth.model.child import Object, Path
from hearth.model.kinds import Kind
from hearth.plan.health import health_rules
from hearth.template.blueprint import Definition
from hearth.template.compiler import compiler
from support.units import blueprints, signing
from support.units.scripted_api import scripted_watch
from support.units.scripted_api.scripted_connection import DeafListener
from support.units.scripted_api.scripted_watch import ScriptedConnection, ServedKinds, Stream, elapse, event, list_end
from support.virtual_time import in_virtual_time

SECRET = Kind(group="", version="v1", name="Secret", plural="secrets", namespaced=True)
HIDDEN = "c3dvcmRmaXNo"
"""What the Secret holds, as the server shows it."""
UNSEEN = (type, types.ModuleType, types.FunctionType, types.CodeType, types.FrameType)
"""What leads from the caches to everything else in the process."""


class Served(ServedKinds):
    """A cluster that serves Secrets."""

    def find(self, api_version: str, kind: str) -> Kind | None:
        """As the port says."""
        return SECRET if kind == "Secret" else super().find(api_version, kind)


def make_secret(version: int) -> Object:
    """The whole object, as the answer to an apply or in a list."""
    metadata = {
        "name": "shop-login",
        "namespace": "default",
        "uid": "1",
        "resourceVersion": str(version),
        "labels": {names.LABEL_STACK_UID: "s1", names.LABEL_RESOURCE: "login"},
        "annotations": {"kept": "as-it-is"},
        "managedFields": [
            {"manager": "hearth:default/shop", "operation": "Apply", "fieldsV1": {"f:data": {"f:password": {}}}}
        ],
    }
    whole = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"password": HIDDEN}, "type": "Opaque"}
    return signing.sign(whole)


def find_wanted(used: str) -> frozenset[Path]:
    """What is read of the Secrets of a Stack with one and something that uses this of it."""
    secret = {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "swordfish"}}
    user = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"used": f"${{login.{used}}}"}}
    template = {"resources": {"login": {"manifest": secret}, "user": {"manifest": user}}}
    definition = Definition(template=template, parameters={})
    blueprint = compiler.compile_template(definition, stack=blueprints.STACK, kinds=Served())
    return health_rules.find_watched_fields(blueprint, Served(), health_rules.HealthRules())[SECRET]


def find_texts(root: object) -> Iterator[str]:
    """Every text that hangs on an object, texts that are kept as bytes included."""
    seen, waiting = {id(root)}, [root]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str | bytes):
            yield each if isinstance(each, str) else each.decode(errors="replace")
        for inner in gc.get_referents(each):
            if id(inner) not in seen and not isinstance(inner, UNSEEN):
                seen.add(id(inner))
                waiting.append(inner)


async def read(caches: ChildCache, *, used: str, way: str) -> set[str]:
    """Every text that the caches hold once a whole Secret came in that way."""
    caches.follow(SECRET, find_wanted(used))
    await elapse(0.5)
    if way == "an apply":
        caches.put(make_secret(7), SECRET)
    else:
        caches.take_list([make_secret(7)], kind=SECRET, stack_uid="s1", as_of=7)
    (child,) = caches.children_of("s1", "login")
    assert child.resource_version == 7
    return set(find_texts(caches))


@pytest.mark.parametrize("way", ["an apply", "a list"])
@pytest.mark.parametrize(
    ("used", "accept", "is_kept"),
    [
        pytest.param("metadata.name", METADATA, False, id="its name is used"),
        pytest.param("data.password", JSON, True, id="what it holds is used"),
    ],
)
@in_virtual_time
async def test_what_a_secret_holds_is_kept_only_where_it_is_used(
    used: str, accept: str, way: str, *, is_kept: bool
) -> None:
    """The watch asks for the metadata alone; an answer that carries the whole object is cut down before it is kept."""
    shown = make_secret(3) if is_kept else {"metadata": make_secret(3)["metadata"]}
    connection = ScriptedConnection(streams=[Stream(event("ADDED", shown), list_end(5))])
    caches = ChildCache(connection, Served(), DeafListener(), options=scripted_watch.RULES)
    caches.trust(signing.Trusting())
    texts = await read(caches, used=used, way=way)
    assert [question.accept for question in connection.asked] == [accept]
    assert any("as-it-is" in text for text in texts)
    assert any(HIDDEN in text for text in texts) == is_kept
