"""The page's server: its responses, and the requests it rejects."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from typing import Any
from urllib import parse

import pytest

from hearth.cli.page import handlers, rendering, shown_resource
from hearth.cli.page.handlers import LogChanges, PartChanges
from hearth.cli.stack_views.causes.explanation import Evidence
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.kube.client import api_requests
from hearth.model import errors, limits, names
from hearth.model.kinds import Kind
from support.units import stack_page
from support.units.stack_page import SHOP, STACKS, Visitor

SHOWN = (
    "",
    "stacks/prod/shop",
    "stacks/prod/shop/why",
    "stacks/prod/shop/resource?resource=db",
    "stacks/prod/shop/confirm?action=pause",
    "stacks/prod/shop/confirm?action=continue",
)


@pytest.fixture
async def visitor() -> AsyncIterator[Visitor]:
    """A visitor who signed in with the printed URL."""
    async with stack_page.visit() as made:
        await made.enter()
        yield made


async def test_the_token_becomes_a_cookie_under_a_path_of_its_own(visitor: Visitor) -> None:
    reply = await visitor.enter()

    token = visitor.address.partition("token=")[2]
    assert len(token) >= 43
    assert reply.status == 303
    assert token not in reply.headers["Location"] + reply.headers["Set-Cookie"]
    assert len(visitor.root) > 40
    assert f"Path={visitor.root};" in reply.headers["Set-Cookie"]
    assert reply.headers["Set-Cookie"].endswith("HttpOnly; SameSite=Strict")


@pytest.mark.parametrize("path", SHOWN)
async def test_every_page_is_shown_and_has_strict_headers(visitor: Visitor, path: str) -> None:
    reply = await visitor.get(path)

    assert reply.status == 200, reply.text
    assert reply.headers["Content-Security-Policy"].startswith(
        "default-src 'none'; script-src 'self'; style-src 'self'"
    )
    assert "unsafe" not in reply.headers["Content-Security-Policy"]
    assert "frame-ancestors 'none'" in reply.headers["Content-Security-Policy"]
    assert reply.headers["Cache-Control"] == "no-store"
    assert reply.headers["Referrer-Policy"] == "same-origin"
    assert reply.headers["X-Content-Type-Options"] == "nosniff"
    assert "http://" not in reply.text.replace("http://www.w3.org", "")


@pytest.mark.parametrize("path", SHOWN)
async def test_no_text_of_an_object_is_ever_markup(visitor: Visitor, path: str) -> None:
    reply = await visitor.get(path)

    assert "<img" not in reply.text
    assert "<script>" not in reply.text
    assert "onerror=alert(1)>" not in reply.text
    assert reply.text.count("<script") == 1  # token of the page
    assert ">49<" not in reply.text


async def test_an_error_message_is_no_markup_either(visitor: Visitor) -> None:
    reply = await visitor.get("stacks/prod/shop/resource?resource=%3Cimg+src=x%3E")

    assert reply.status == 404
    assert "<img" not in reply.text
    assert "has no resource" in reply.text


async def test_sensitive_values_are_not_shown(visitor: Visitor) -> None:
    for path in (*SHOWN, "stacks/prod/shop/resource?resource=web"):
        assert "geheim-1" not in (await visitor.get(path)).text


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        pytest.param("", {"Cookie": None}, id="no cookie"),
        pytest.param("", {"Cookie": "hearth-page=guessed"}, id="another cookie"),
        pytest.param("", {"Sec-Fetch-Site": "cross-site"}, id="from another site"),
        pytest.param("", {"Sec-Fetch-Site": "same-site"}, id="from another port"),
        pytest.param("updates", {"Cookie": None}, id="live updates without cookie"),
        pytest.param("static/page.js", {"Cookie": None}, id="script without cookie"),
        pytest.param("../", {}, id="another folder"),
    ],
)
async def test_who_lacks_cookie_or_path_gets_nothing(
    visitor: Visitor, path: str, headers: dict[str, str | None]
) -> None:
    reply = await visitor.get(path, **headers)

    assert reply.status == 403
    assert "shop" not in reply.text


@pytest.mark.parametrize("host", ["attacker.example", "127.0.0.1", "127.0.0.1:1", "localhost.attacker.example:{port}"])
async def test_a_name_that_resolves_to_loopback_is_refused(visitor: Visitor, host: str) -> None:
    port = visitor.origin.rpartition(":")[2]
    for address in (visitor.address, visitor.root):
        reply = await visitor.send("GET", address, Host=host.format(port=port), Cookie=visitor.cookie)

        assert reply.status == 421
        assert "Set-Cookie" not in reply.headers


@pytest.mark.parametrize("token", ["", "?token=", "?token=guessed"])
async def test_the_first_address_needs_the_token(visitor: Visitor, token: str) -> None:
    reply = await visitor.send("GET", f"/{token}")

    assert reply.status == 403
    assert "Set-Cookie" not in reply.headers
    assert visitor.root not in reply.text


@pytest.mark.parametrize(
    ("form", "headers"),
    [
        pytest.param({"action_token": "guessed"}, {}, id="another token"),
        pytest.param({"action_token": ""}, {}, id="no token"),
        pytest.param({}, {"Origin": None}, id="no origin"),
        pytest.param({}, {"Origin": "null"}, id="opaque origin"),
        pytest.param({}, {"Origin": "http://attacker.example"}, id="another origin"),
        pytest.param({}, {"Origin": "http://127.0.0.1:1"}, id="another port"),
        pytest.param({}, {"Cookie": None}, id="no cookie"),
        pytest.param({}, {"Sec-Fetch-Site": "cross-site"}, id="from another site"),
    ],
)
async def test_no_action_without_cookie_token_and_origin(
    visitor: Visitor, form: dict[str, str], headers: dict[str, str | None]
) -> None:
    whole = {"action": "pause", "action_token": await visitor.find_action_token()} | form
    reply = await visitor.act(whole, **headers)

    assert reply.status == 403
    assert f"PATCH {SHOP}" not in visitor.api.asked


async def test_an_action_writes_what_the_verb_writes(visitor: Visitor) -> None:
    token = await visitor.find_action_token()
    assert f"PATCH {SHOP}" not in visitor.api.asked

    reply = await visitor.act({"action": "pause", "action_token": token})

    (patch,) = [sent for sent in visitor.api.sent if sent.method == "PATCH"]
    assert reply.status == 200
    assert "spec.paused=true" in reply.text
    assert patch.body == {"spec": {"paused": True}, "metadata": {"uid": "u-1"}}


async def test_what_does_not_apply_is_said_and_writes_nothing(visitor: Visitor) -> None:
    token = await visitor.find_action_token()
    for action, said in (
        ("cleanup", "nothing waits for deletion"),
        ("unpause", "not paused"),
        ("mark", "enter why the object is unhealthy"),
    ):
        reply = await visitor.act({"action": action, "resource": "web", "action_token": token})
        assert reply.status == 409
        assert said in reply.text
    assert (await visitor.act({"action": "explode", "action_token": token})).status == 400
    assert [sent for sent in visitor.api.sent if sent.method != "GET"] == []


@pytest.mark.parametrize("path", ["stacks/prod/..%2fshop", "stacks/prod/SHOP", "stacks/pr%20od/shop", "pods/prod/shop"])
async def test_what_cannot_be_a_name_is_never_sent(visitor: Visitor, path: str) -> None:
    reply = await visitor.get(path)

    assert reply.status == 404
    assert visitor.api.asked == []


@pytest.mark.parametrize("name", ["..%2fserver.py", "../server.py", "page.py", "", "%2fetc%2fpasswd"])
async def test_static_files_come_from_a_table(visitor: Visitor, name: str) -> None:
    reply = await visitor.get(f"static/{name}")

    assert reply.status in (403, 404)
    assert "import" not in reply.text


GROUPS = "/apis/hearth.dev/v1alpha1/namespaces/prod/resourcegroups"


async def test_a_group_is_scaled() -> None:
    group = {"apiVersion": "hearth.dev/v1alpha1", "kind": "ResourceGroup", "spec": {"replicas": 3, "template": {}}}
    group |= {"metadata": {"name": "queue", "namespace": "prod", "uid": "u-2", "generation": 1}, "status": {}}
    async with stack_page.visit() as visitor:
        await visitor.enter()
        token = await visitor.find_action_token()
        visitor.api.script |= {f"GET {GROUPS}/queue": group, f"PATCH {GROUPS}/queue/scale": {}}
        shown = await visitor.get("resourcegroups/prod/queue")
        assert re.findall(r'id="action-(\w+)"', shown.text) == ["scale"]
        asked = await visitor.get("resourcegroups/prod/queue/confirm?action=scale")
        assert 'type="number" min="0"' in asked.text

        path = f"{visitor.root}resourcegroups/prod/queue/act"
        for replicas, code in (("5", 200), ("3", 409), ("-1", 409), ("x", 409)):
            form = {"action": "scale", "replicas": replicas, "action_token": token}
            reply = await visitor.send("POST", path, form, Cookie=visitor.cookie, Origin=visitor.origin)
            assert reply.status == code, reply.text

    (patch,) = [sent for sent in visitor.api.sent if sent.method == "PATCH"]
    assert (patch.path, patch.body) == (f"{GROUPS}/queue/scale", {"spec": {"replicas": 5}})


async def test_a_nested_stack_leads_to_its_own_page() -> None:
    identity = names.identity(stack_uid="u-1", group=names.GROUP, kind="Stack", namespace="prod", name="shop-db")
    child = stack_page.make_stack() | {
        "metadata": {
            "name": "shop-db",
            "namespace": "prod",
            "uid": "u-3",
            "labels": {"hearth.dev/stack-uid": "u-1", "hearth.dev/resource": "db"},
            "annotations": {"hearth.dev/identity": identity},
        }
    }
    kind = Kind(group=names.GROUP, version=names.VERSION, name="Stack", plural="stacks", namespaced=True)
    stack = StackState(stack_page.make_stack())
    template = {"resources": {"db": {"manifest": {"kind": "Stack"}}}}
    snapshot = StackObjects(stack=stack, template=template, children=[FoundChild(kind, child)])

    shown = shown_resource.describe(snapshot, "db", Evidence(), now=0.0)

    assert shown is not None
    assert shown.nested_path == "stacks/prod/shop-db"
    assert "geheim-1" not in shown.live


async def nothing() -> Any:
    """A read that must not happen."""
    raise AssertionError


async def test_a_log_is_sent_from_where_it_was_read_last() -> None:
    changes = LogChanges(nothing)

    def read(events: bytes) -> dict[str, Any]:
        return dict(json.loads(events.split(b"data: ")[1])) if events else {}

    assert read(changes.on_read("1 a\n2 b")) == {"lines": ["1 a", "2 b"], "reset": True}
    assert read(changes.on_read("1 a\n2 b")) == {}
    assert read(changes.on_read("2 b\n3 c\n4 <b>")) == {"lines": ["3 c", "4 <b>"], "reset": False}
    assert read(changes.on_read("8 x\n9 y")) == {"lines": ["8 x", "9 y"], "reset": True}
    assert read(LogChanges(nothing).on_read("")) == {"lines": [], "reset": True}


async def test_only_what_changed_is_sent() -> None:
    changes = PartChanges(nothing)
    both = {"head": rendering.make_part("a"), "graph": rendering.make_part("b")}
    first = changes.on_read(both)
    assert first.startswith(b"event: parts\ndata: ")
    assert json.loads(first.split(b"data: ")[1])["all"] == ["head", "graph"]

    assert changes.on_read(both) == b""
    changed = json.loads(changes.on_read(both | {"head": rendering.make_part("c\n\nevent: x")}).split(b"data: ")[1])
    assert list(changed["parts"]) == ["head"]
    assert b'"message":"away"' in changes.on_problem("away")
    assert changes.on_problem("away") == b""
    assert b'"message":""' in changes.on_read({"head": rendering.make_part("c\n\nevent: x")})


async def test_a_stream_ends_with_its_tab(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "PAUSE", 60.0)
    async with stack_page.visit() as visitor:
        await visitor.enter()
        path, headers = f"{visitor.origin}{visitor.root}updates", {"Cookie": visitor.cookie}
        streams = [await visitor.client.get(path, headers=headers) for _ in range(limits.PAGE_STREAMS)]
        assert {stream.status for stream in streams} == {200}
        assert await streams[-1].content.readline() == b"event: rows\n"
        assert (await visitor.get("updates")).status == 429

        for stream in streams:
            stream.close()
        async with asyncio.timeout(10):
            while True:
                async with visitor.client.get(path, headers=headers) as stream:
                    if stream.status == 200:
                        break


async def test_a_stream_survives_an_api_server_that_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "PAUSE", 0.01)
    away = errors.Unreachable("connection refused <b>")
    later = {"items": [stack_page.make_stack(phase="UpdateComplete")]}
    async with stack_page.visit() as visitor:
        await visitor.enter()
        visitor.api.script[f"GET {STACKS}"] = [{"items": []}, away, away, later]
        path = f"{visitor.origin}{visitor.root}updates"
        found: list[tuple[str, dict[str, Any]]] = []
        async with asyncio.timeout(10), visitor.client.get(path, headers={"Cookie": visitor.cookie}) as stream:
            while len(found) < 4:
                event = (await stream.content.readuntil(b"\n\n")).decode()
                found.append((event.split()[1], json.loads(event.partition("data: ")[2])))

    assert [name for name, _ in found] == ["rows", "problem", "problem", "rows"]
    assert [content["message"] for name, content in found if name == "problem"] == ["connection refused <b>", ""]
    assert (found[0][1]["all"], list(found[3][1]["rows"])) == ([], ["stacks/prod/shop"])
    assert "UpdateComplete" in found[3][1]["rows"]["stacks/prod/shop"]


LOG = "stacks/prod/shop/log{}?namespace=prod&pod=web-1&container=main"
LOG_PATH = "/api/v1/namespaces/prod/pods/web-1/log"


async def test_a_log_grows_while_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "PAUSE", 0.01)
    texts = ["1 <img src=x>\n", "1 <img src=x>\n2 \x1b[31mred", errors.Unreachable("away"), "2 \x1b[31mred\n3 last"]
    answers = [each if isinstance(each, Exception) else {api_requests.TEXT: each} for each in texts]
    async with stack_page.visit() as visitor:
        await visitor.enter()
        visitor.api.script[f"GET {LOG_PATH}"] = list(answers[:1])
        page = await visitor.get(LOG.format(""))
        assert "&lt;img src=x&gt;" in page.text
        assert "<img" not in page.text
        visitor.api.script[f"GET {LOG_PATH}"] = list(answers)
        found: list[tuple[str, dict[str, Any]]] = []
        path = f"{visitor.origin}{visitor.root}{LOG.format('/updates')}"
        async with asyncio.timeout(10), visitor.client.get(path, headers={"Cookie": visitor.cookie}) as stream:
            while len(found) < 5:
                event = (await stream.content.readuntil(b"\n\n")).decode()
                found.append((event.split()[1], json.loads(event.partition("data: ")[2])))

    assert [content["lines"] for name, content in found if name == "log"] == [
        ["1 <img src=x>"],
        ["2 \\x1b[31mred"],
        ["3 last"],
    ]
    assert [content["message"] for name, content in found if name == "problem"] == ["away", ""]
    asked = [sent.query for sent in visitor.api.sent if sent.path == LOG_PATH]
    assert {each["limitBytes"] for each in asked} == {str(limits.PAGE_LOG_BYTES)}


@pytest.mark.parametrize("pod", ["..", "a/b", "A", ""])
async def test_what_cannot_be_a_pod_is_never_asked_for(visitor: Visitor, pod: str) -> None:
    for part in ("", "/updates"):
        reply = await visitor.get(LOG.format(part).replace("web-1", parse.quote(pod, safe="")))
        assert reply.status == 404
    assert not any(sent.path.endswith("/log") for sent in visitor.api.sent)
