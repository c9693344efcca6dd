"""Schemas: fetched on demand, once per hash, and skipped if unavailable."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from hearth.kube.discovery import discovery
from hearth.kube.discovery.discovery import Schemas
from hearth.model import errors, retry_delays
from hearth.model.kinds import Kind
from support.units.scripted_api.scripted_connection import Answer, ScriptedConnection, Sent
from support.virtual_time import in_virtual_time

CONFIG_MAP = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)
SECRET = Kind(group="", version="v1", name="Secret", plural="secrets", namespaced=True)
WIDGET = Kind(group="a.test", version="v1", name="Widget", plural="widgets", namespaced=True)
INDEX, CORE, WIDGETS = "GET /openapi/v3", "GET /openapi/v3/api/v1", "GET /openapi/v3/apis/a.test/v1"


class Counter:
    """Records the skipped schemas."""

    def __init__(self) -> None:
        self.skipped: list[tuple[str, str]] = []

    def on_skipped_object(self, *, kind: str, reason: str) -> None:
        """Something was skipped."""
        self.skipped.append((kind, reason))


def index(**hashes: str) -> dict[str, Any]:
    """The index with these documents' hashes."""
    paths = {"core": "api/v1", "widgets": "apis/a.test/v1"}
    entries = {paths[name]: {"serverRelativeURL": f"/openapi/v3/{paths[name]}?hash={hashes[name]}"} for name in hashes}
    return {"paths": {"api": {"serverRelativeURL": "/openapi/v3/api?hash=0"}, "version": {}, **entries}}


def document(*kinds: Kind, **fields: str) -> dict[str, Any]:
    """A document that defines these kinds, with these properties and their types."""
    properties: dict[str, Any] = {name: {"type": type_, "description": "For people."} for name, type_ in fields.items()}
    return {
        "openapi": "3.0.0",
        "components": {
            "schemas": {
                f"test.{kind.name}": {
                    "type": "object",
                    "description": "For people.",
                    "properties": properties | {"metadata": {"$ref": "#/components/schemas/test.Meta"}},
                    "x-kubernetes-group-version-kind": [
                        {"group": kind.group, "version": kind.version, "kind": kind.name}
                    ],
                }
                for kind in kinds
            }
            | {"test.Meta": {"type": "object"}}
        },
    }


def make(**script: Answer | list[Answer]) -> tuple[Schemas, ScriptedConnection]:
    """Schemas of a server with these answers: index, core and widgets."""
    paths = {"index": INDEX, "core": CORE, "widgets": WIDGETS}
    connection = ScriptedConnection({paths[name]: answer for name, answer in script.items()})
    return Schemas(connection), connection  # type: ignore[arg-type]  # the same methods


@in_virtual_time
async def test_a_schema_is_found_once_it_was_loaded() -> None:
    schemas, connection = make(index=index(core="1", widgets="1"), core=document(CONFIG_MAP))
    assert schemas.find_schema(CONFIG_MAP) is None
    await schemas.load([CONFIG_MAP])
    found = schemas.find_schema(CONFIG_MAP)
    assert found is not None
    assert schemas.find_definition(found["properties"]["metadata"]["$ref"]) == {"type": "object"}
    assert schemas.find_schema(WIDGET) is None
    assert schemas.find_definition("#/components/schemas/test.Widget") is None
    assert connection.asked == [INDEX, CORE]


@in_virtual_time
async def test_what_is_known_is_not_asked_for_again() -> None:
    schemas, connection = make(index=index(core="1"), core=document(CONFIG_MAP, SECRET))
    await asyncio.gather(*(schemas.load([CONFIG_MAP]) for _ in range(10)))
    await schemas.load([SECRET])
    assert schemas.find_schema(SECRET) is not None
    assert connection.asked == [INDEX, CORE]


@in_virtual_time
async def test_texts_for_people_are_left_out() -> None:
    schemas, _ = make(index=index(core="1"), core=document(CONFIG_MAP, description="string"))
    await schemas.load([CONFIG_MAP])
    found = schemas.find_schema(CONFIG_MAP)
    assert found is not None
    assert "description" not in found
    assert found["properties"]["description"] == {"type": "string"}


def test_defaults_stay_whole() -> None:
    schema = {"default": {"description": "kept"}, "enum": [{"description": "kept"}]}
    assert discovery.without_texts(schema) == schema


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(errors.ApiStatusError(code=404, status=None), id="missing"),
        pytest.param(errors.ApiStatusError(code=503, status=None), id="its server is down"),
        pytest.param(errors.Unreachable("down"), id="no answer"),
        pytest.param({}, id="empty"),
        pytest.param({"components": {"schemas": {"a": None}}}, id="broken"),
    ],
)
@in_virtual_time
async def test_a_schema_that_cannot_be_had_is_left_out(answer: Answer) -> None:
    schemas, _ = make(index=index(core="1", widgets="1"), core=document(CONFIG_MAP), widgets=answer)
    await schemas.load([WIDGET, CONFIG_MAP])
    assert schemas.find_schema(CONFIG_MAP) is not None
    assert schemas.find_schema(WIDGET) is None


@in_virtual_time
async def test_a_server_without_an_index_has_no_schemas() -> None:
    schemas, _ = make()
    await schemas.load([CONFIG_MAP])
    assert schemas.find_schema(CONFIG_MAP) is None


@in_virtual_time
async def test_a_broken_document_is_not_asked_for_at_every_load() -> None:
    schemas, connection = make(index=index(widgets="1"), widgets=[errors.Unreachable("down"), document(WIDGET)])
    await schemas.load([WIDGET])
    await schemas.load([WIDGET])
    assert connection.asked == [INDEX, WIDGETS]
    assert schemas.generation == 0
    await wait(retry_delays.SCHEMA.first)
    await schemas.load([WIDGET])
    assert schemas.find_schema(WIDGET) is not None
    assert schemas.generation == 1


@in_virtual_time
async def test_a_changed_hash_brings_the_new_schema() -> None:
    schemas, connection = make(
        index=[index(widgets="1"), index(widgets="1"), index(widgets="2")],
        widgets=[document(WIDGET, size="string"), document(WIDGET, size="integer")],
    )
    await schemas.load([WIDGET])
    assert schemas.find_schema(WIDGET) is not None
    await schemas.refresh()
    assert (schemas.generation, connection.asked.count(WIDGETS)) == (0, 1)
    await schemas.refresh()
    found = schemas.find_schema(WIDGET)
    assert found is not None
    assert found["properties"]["size"] == {"type": "integer"}
    assert (schemas.generation, connection.asked.count(WIDGETS)) == (1, 2)


@in_virtual_time
async def test_a_schema_that_comes_after_it_was_asked_for_raises_the_generation() -> None:
    schemas, _ = make(index=[index(), index(widgets="1")], widgets=document(WIDGET))
    await schemas.load([WIDGET])
    assert (schemas.find_schema(WIDGET), schemas.generation) == (None, 0)
    await schemas.refresh()
    assert schemas.find_schema(WIDGET) is not None
    assert schemas.generation == 1


def be_cancelled(_sent: Sent) -> dict[str, Any]:
    """Cancel the request while its response is in flight."""
    raise asyncio.CancelledError


@in_virtual_time
async def test_a_schema_counts_although_the_search_that_found_it_was_cancelled() -> None:
    schemas, _ = make(
        index=[index(), index(core="1", widgets="1")],
        core=document(CONFIG_MAP),
        widgets=[be_cancelled, document(WIDGET)],
    )
    await schemas.load([CONFIG_MAP, WIDGET])
    await asyncio.gather(asyncio.create_task(schemas.refresh()), return_exceptions=True)
    assert schemas.find_schema(CONFIG_MAP) is not None
    assert (schemas.find_schema(WIDGET), schemas.generation) == (None, 1)
    await schemas.refresh()
    assert schemas.find_schema(WIDGET) is not None
    assert schemas.generation == 2


@in_virtual_time
async def test_a_load_that_was_cancelled_is_followed_all_the_same() -> None:
    schemas, connection = make(
        index=[index(core="1", widgets="1"), index(core="2", widgets="1")],
        core=document(CONFIG_MAP),
        widgets=[be_cancelled, document(WIDGET)],
    )
    await asyncio.gather(asyncio.create_task(schemas.load([CONFIG_MAP, WIDGET])), return_exceptions=True)
    await schemas.load([CONFIG_MAP])
    await schemas.refresh()
    assert (connection.asked.count(CORE), schemas.generation) == (2, 1)


@in_virtual_time
async def test_the_schema_of_a_new_kind_is_waited_for() -> None:
    schemas, connection = make(
        index=[index(widgets="1"), index(widgets="1"), index(widgets="2")],
        widgets=[document(CONFIG_MAP), document(CONFIG_MAP, WIDGET)],
    )
    schemas.expect([WIDGET])
    await schemas.load([WIDGET])
    assert schemas.find_schema(WIDGET) is not None
    times = [sent.at for sent in connection.sent if str(sent) == INDEX]
    assert times == pytest.approx([times[0] + wait for wait in range(3)])


@in_virtual_time
async def test_a_new_kind_that_is_never_described_is_waited_for_once() -> None:
    schemas, _ = make(index=index(core="1"), core=document(CONFIG_MAP))
    clock = asyncio.get_running_loop().time
    schemas.expect([WIDGET])
    begin = clock()
    waiting = asyncio.create_task(schemas.load([WIDGET]))
    await schemas.load([CONFIG_MAP])
    assert clock() - begin < discovery.INDEX_INTERVAL + 0.1
    await waiting
    assert clock() - begin == pytest.approx(discovery.PUBLISH_TIMEOUT, abs=discovery.INDEX_INTERVAL)
    begin = clock()
    await schemas.load([WIDGET])
    assert clock() - begin <= discovery.INDEX_INTERVAL
    assert schemas.find_schema(WIDGET) is None


@in_virtual_time
async def test_a_kind_that_comes_back_is_read_again() -> None:
    schemas, connection = make(index=index(widgets="1"), widgets=document(WIDGET))
    await schemas.load([WIDGET])
    schemas.forget([WIDGET, CONFIG_MAP])
    assert schemas.find_schema(WIDGET) is None
    schemas.expect([WIDGET])
    await schemas.load([WIDGET])
    assert schemas.find_schema(WIDGET) is not None
    assert connection.asked.count(WIDGETS) == 2


@in_virtual_time
async def test_an_unreadable_schema_of_a_new_kind_is_not_waited_for() -> None:
    poisoned = document(WIDGET)
    poisoned["components"]["schemas"]["test.Widget"]["properties"] = nested(60)
    schemas, _ = make(index=index(widgets="1"), widgets=poisoned)
    schemas.expect([WIDGET])
    begin = asyncio.get_running_loop().time()
    await schemas.load([WIDGET])
    assert asyncio.get_running_loop().time() == begin
    assert schemas.find_schema(WIDGET) is None


@in_virtual_time
async def test_nothing_is_looked_after_that_was_not_requested() -> None:
    schemas, connection = make(index=index(core="1"))
    await schemas.refresh()
    assert connection.asked == []


async def wait(seconds: float) -> None:
    """Let virtual time pass."""
    loop = asyncio.get_running_loop()
    passed = loop.create_future()
    loop.call_later(seconds, passed.set_result, None)
    await passed


def nested(levels: int) -> dict[str, Any]:
    """A schema of that many levels."""
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(nested(60), id="deeper than schemas are"),
        pytest.param(nested(200), id="too deep to be written"),
        pytest.param(nested(450), id="too deep to be walked through"),
        pytest.param(3, id="a number"),
        pytest.param({"x-kubernetes-group-version-kind": [3]}, id="of a kind that is a number"),
        pytest.param({"x-kubernetes-group-version-kind": 3}, id="of kinds that are no list"),
    ],
)
@in_virtual_time
async def test_a_schema_that_cannot_be_read_is_none(schema: Any) -> None:
    poisoned = document(WIDGET)
    poisoned["components"]["schemas"]["test.Deep"] = schema
    connection = ScriptedConnection({INDEX: index(core="1", widgets="1"), CORE: document(SECRET), WIDGETS: poisoned})
    counter = Counter()
    schemas = Schemas(connection, observer=counter)  # type: ignore[arg-type]  # the same methods
    await schemas.load([WIDGET, SECRET])
    await schemas.refresh()
    assert schemas.find_schema(WIDGET) is not None
    assert schemas.find_schema(SECRET) is not None
    assert schemas.find_definition(discovery.REFERENCE_PREFIX + "test.Deep") is None
    assert counter.skipped == [("OpenAPI", "schema")]


@pytest.mark.parametrize(
    "answer",
    [{}, {"components": 3}, {"components": {"schemas": []}}, {"components": {"schemas": None}}],
)
def test_a_document_of_another_shape_has_no_schemas(answer: dict[str, Any]) -> None:
    assert discovery.extract_definitions(answer)[0] == {}


@pytest.mark.parametrize("answer", [{}, {"paths": 3}, {"paths": {"apis/a.test/v1": 3}}])
@in_virtual_time
async def test_an_index_of_another_shape_names_nothing(answer: dict[str, Any]) -> None:
    schemas, _ = make(index=answer)
    await schemas.load([WIDGET])
    assert schemas.find_schema(WIDGET) is None
