"""A template in ConfigMaps: plain or compressed, one or several, with every mistake named where it is."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any, cast

import pytest

from hearth.engine.definition import definition_sources
from hearth.engine.definition.definition_sources import SourceReader
from hearth.engine.ports import ManagementCluster
from hearth.model import limits
from hearth.model.child import Object
from hearth.model.errors import ApiStatusError, InvalidDefinition, SourceNotFound
from hearth.model.kinds import ObjectRef

WEB: Object = {"resources": {"web": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}}}
DB: Object = {
    "parameters": {"size": {"type": "integer", "default": 1}},
    "resources": {"db": {"manifest": {"apiVersion": "v1", "kind": "Secret"}}},
}


def compress(value: Any) -> str:
    """Return the `binaryData` form of a value as JSON."""
    return base64.b64encode(gzip.compress(json.dumps(value).encode())).decode()


class Shelf:
    """ConfigMaps of one namespace by name."""

    def __init__(self, **objects: Object) -> None:
        self._objects = objects

    def _find(self, ref: ObjectRef) -> Object:
        if ref.name not in self._objects:
            raise ApiStatusError(code=404, status={})
        return self._objects[ref.name]

    async def get_source(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """As the port says."""
        return cast("Mapping[str, str]", self._find(ref).get("data") or {})

    async def get_binary_data(self, ref: ObjectRef, *, user: str = "") -> Mapping[str, str]:
        """As the port says."""
        return cast("Mapping[str, str]", self._find(ref).get("binaryData") or {})


def read(shelf: Shelf, spec: Object) -> tuple[Object, str]:
    """Return the template of a spec in namespace `shop`, and its location."""
    return asyncio.run(definition_sources.read_template(SourceReader(cast("ManagementCluster", shelf)), "shop", spec))


SHELF = Shelf(
    web={"data": {"template.yaml": json.dumps(WEB)}, "binaryData": {"web.json.gz": compress(WEB)}},
    db={"binaryData": {"db.json.gz": compress(DB)}},
    broken={"binaryData": {"a.gz": base64.b64encode(b"no gzip").decode(), "b.gz": "%%%"}, "data": {"c.gz": "text"}},
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"template": WEB}, (WEB, "spec.template"), id="inline"),
        pytest.param({"templateRef": {"name": "web"}}, (WEB, "(configmap/web template.yaml)"), id="plain"),
        pytest.param(
            {"templateRef": {"name": "web", "key": "web.json.gz"}},
            (WEB, "(configmap/web web.json.gz)"),
            id="compressed",
        ),
        pytest.param(
            {"templateRefs": [{"name": "web"}, {"name": "db", "key": "db.json.gz"}]},
            (
                {"resources": {**WEB["resources"], **DB["resources"]}, "parameters": DB["parameters"]},
                "spec.templateRefs",
            ),
            id="united",
        ),
    ],
)
def test_a_template_is_read_from_its_sources(spec: Object, expected: tuple[Object, str]) -> None:
    """Every form gives the same template as an inline one."""
    assert read(SHELF, spec) == expected


def test_a_name_in_two_sources_is_a_mistake() -> None:
    """No order decides which of them counts."""
    with pytest.raises(InvalidDefinition) as caught:
        read(SHELF, {"templateRefs": [{"name": "web"}, {"name": "web", "key": "web.json.gz"}]})
    assert str(caught.value) == (
        "(configmap/web web.json.gz).resources.web: is also in spec.templateRefs[0] (configmap/web template.yaml); "
        "remove or rename one of them"
    )


def test_all_missing_sources_are_named_at_once() -> None:
    """With the keys that exist, and the part of the object that a key belongs to."""
    refs = [{"name": "web", "key": "x.yaml"}, {"name": "gone"}, {"name": "broken", "key": "c.gz"}]
    with pytest.raises(SourceNotFound) as caught:
        read(SHELF, {"templateRefs": refs})
    assert str(caught.value).splitlines() == [
        "spec.templateRefs[0].key: configmap/web has no key 'x.yaml' in data; its keys there: template.yaml",
        "spec.templateRefs[1]: configmap/gone does not exist in namespace shop; create it",
        "spec.templateRefs[2].key: configmap/broken has no key 'c.gz' in binaryData; its keys there: a.gz and b.gz",
    ]


@pytest.mark.parametrize("key", ["a.gz", "b.gz"])
def test_what_is_not_compressed_is_named(key: str) -> None:
    """With the way to make it."""
    with pytest.raises(
        InvalidDefinition, match=rf"\(configmap/broken {key}\): is not text compressed by gzip \(.*gzip -9"
    ):
        read(SHELF, {"templateRef": {"name": "broken", "key": key}})


def test_a_bomb_is_not_inflated() -> None:
    """A few KiB may stand for gigabytes; inflating ends at the limit."""
    bomb = base64.b64encode(gzip.compress(bytes(limits.REVISION_BYTES + 1))).decode()
    shelf = Shelf(bomb={"binaryData": {"template.yaml.gz": bomb}})
    with pytest.raises(InvalidDefinition, match=f"inflates to more than {limits.REVISION_BYTES} bytes"):
        read(shelf, {"templateRef": {"name": "bomb", "key": "template.yaml.gz"}})


def test_bombs_are_not_inflated_together() -> None:
    """Each of 32 sources may be within the limit; all of them have that of one definition."""
    half = base64.b64encode(gzip.compress(b"{}" + b" " * (limits.REVISION_BYTES // 2))).decode()
    shelf = Shelf(bomb={"binaryData": {"template.yaml.gz": half}}, web={"data": {"template.yaml": json.dumps(WEB)}})
    one = {"name": "bomb", "key": "template.yaml.gz"}
    assert read(shelf, {"templateRefs": [one, {"name": "web"}]}) == (WEB, "spec.templateRefs")
    with pytest.raises(InvalidDefinition) as caught:
        read(shelf, {"templateRefs": [one, {"name": "web"}, one]})
    assert "(configmap/bomb template.yaml.gz): is not text compressed by gzip" in str(caught.value)
    assert f"at most {limits.REVISION_BYTES} bytes with all others" in str(caught.value)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param({"resources": []}, "resources: must be a mapping, found list", id="no mapping"),
        pytest.param({"resource": {}}, "resource: is not a part of a template", id="unknown part"),
    ],
)
def test_a_part_that_cannot_be_united_is_named(wrong: Object, message: str) -> None:
    """At its source."""
    shelf = Shelf(
        web={"data": {"template.yaml": json.dumps(WEB)}}, wrong={"data": {"template.yaml": json.dumps(wrong)}}
    )
    with pytest.raises(InvalidDefinition, match=r"\(configmap/wrong template.yaml\)\." + message):
        read(shelf, {"templateRefs": [{"name": "web"}, {"name": "wrong"}]})


def test_all_sources_are_followed() -> None:
    """A change of any of them is a change of the definition."""
    spec = {"templateRefs": [{"name": "web"}, {"name": "db", "key": "db.json.gz"}]}
    found = definition_sources.find_template_sources("shop", spec)
    assert [(str(each.ref), each.key, each.field) for each in found] == [
        ("configmap/web", "template.yaml", "spec.templateRefs[0]"),
        ("configmap/db", "db.json.gz", "spec.templateRefs[1]"),
    ]
