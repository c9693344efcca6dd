"""The page for a team: users, sign-in, and attacks on it, over HTTP."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import re
import ssl
import sys
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hearth.cli.page import handlers, stack_feed
from hearth.cli.team_page import team_server
from hearth.cli.team_page.sealed_cookies import COOKIE, PageKey
from hearth.cli.team_page.team_server import CannotServe, TokenMounted
from hearth.kube.webhook import certificates
from hearth.kube.webhook.certificates import CertificateSet
from hearth.model import errors, limits
from hearth.serve import logs
from support.units import restored_logging, stack_page, team_page
from support.units.stack_page import HOSTILE, SHOP
from support.units.team_page import ANNA, BEN, EXPIRED, KEY, ORIGIN, Cluster, Team

ACT = "/stacks/prod/shop/act"


def make_stack(name: str) -> dict[str, Any]:
    stack = stack_page.make_stack()
    return stack | {"metadata": {**stack["metadata"], "name": name, "uid": f"u-{name}"}}


@pytest.fixture
async def team() -> AsyncIterator[Team]:
    """A page with two users who see different Stacks."""
    async with team_page.serve(Cluster(stacks={ANNA: [make_stack("of-anna")], BEN: [make_stack("of-ben")]})) as made:
        yield made


async def find_action_token(team: Team, **headers: str) -> str:
    reply = await team.get("/stacks/prod/shop/confirm?action=pause", None, **headers)
    return reply.text.partition('name="action_token" value="')[2].partition('"')[0]


# ------------------------------------------------------------ signing in


async def test_each_user_of_a_proxy_sees_what_their_token_allows(team: Team) -> None:
    anna, ben = await team.get("/", ANNA), await team.get("/", BEN)

    assert ("anna@example.com" in anna.text, "of-anna" in anna.text, "of-ben" in anna.text) == (True, True, False)
    assert ("ben@example.com" in ben.text, "of-ben" in ben.text, "of-anna" in ben.text) == (True, True, False)
    assert "sign-out" not in anna.text.replace('action="/sign-out"', "")
    assert {token for token, _ in team.cluster.apis} == {ANNA, BEN}


async def test_a_pasted_token_becomes_a_sealed_cookie(team: Team) -> None:
    asked = await team.get("/stacks/prod/shop?layers=1")
    assert asked.status == 401
    assert 'name="next" value="/stacks/prod/shop?layers=1"' in asked.text

    reply = await team.sign_in(ANNA, "/stacks/prod/shop?layers=1")

    assert (reply.status, reply.headers["Location"]) == (303, "/stacks/prod/shop?layers=1")
    cookie, *attributes = reply.headers["Set-Cookie"].split("; ")
    assert attributes == ["Max-Age=3600", "Path=/", "Secure", "HttpOnly", "SameSite=Strict"]
    assert cookie.startswith("__Host-")
    raw = base64.urlsafe_b64decode(cookie.partition("=")[2] + "==")
    assert ANNA.encode() not in raw
    assert "of-anna" in (await team.get("/", Cookie=cookie)).text


async def test_signing_out_removes_the_cookie_and_closes_the_session(team: Team) -> None:
    cookie = await team.get_cookie(ANNA)
    token = await find_action_token(team, Cookie=cookie)
    assert 'id="sign-out"' in (await team.get("/", Cookie=cookie)).text

    refused = await team.send("POST", "/sign-out", {"action_token": "guessed"}, Cookie=cookie)
    assert refused.status == 403
    reply = await team.send("POST", "/sign-out", {"action_token": token}, Cookie=cookie)

    assert (reply.status, reply.headers["Location"]) == (303, "/sign-in")
    assert reply.headers["Set-Cookie"].startswith(f"{COOKIE}=; Max-Age=0; ")
    assert len(team.sessions) == 0


async def test_users_of_a_proxy_sign_out_and_in_again_there() -> None:
    async with team_page.serve(sign_out_path="/oauth2/sign_out") as team:
        shown, expired = await team.get("/", ANNA), await team.get("/", EXPIRED)
        pasted = await team.get("/", Cookie=await team.get_cookie(ANNA))

    link = '<a id="{}" href="/oauth2/sign_out">'
    assert link.format("sign-out") in shown.text
    assert (expired.status, link.format("sign-in") in expired.text) == (401, True)
    assert 'name="token"' not in expired.text
    assert "oauth2" not in pasted.text


@pytest.mark.parametrize("token", [EXPIRED, "", "two words", "a\r\nX-Injected: 1", "ü", "x" * 8_100])
async def test_a_token_that_is_not_valid_is_refused_with_a_sentence(team: Team, token: str) -> None:
    reply = await team.sign_in(token)

    assert reply.status == 401
    assert re.search(r"has expired or is not valid|This is not a token|The token has \d+ characters", reply.text)
    assert "Set-Cookie" not in reply.headers
    assert token not in reply.text or not token
    assert len(team.sessions) == 0


async def test_a_token_that_expires_leads_to_the_sign_in_page(team: Team) -> None:
    cookie = await team.get_cookie(ANNA)
    gone = errors.ApiStatusError(code=401, status={"message": "Unauthorized"})
    team.cluster.find(ANNA).script[f"GET {team_page.STACKS}"] = gone

    reply = await team.get("/", Cookie=cookie)

    assert reply.status == 401
    assert "has expired or was revoked" in reply.text
    assert reply.headers["Set-Cookie"].startswith(f"{COOKIE}=; Max-Age=0; ")


@pytest.mark.parametrize(
    ("cookie", "sentence"),
    [
        pytest.param(KEY.seal(ANNA, now=0.0, seconds=3_600.0), "as long as this page allows", id="expired"),
        pytest.param(PageKey(b"z" * 32).seal(ANNA, now=time.time(), seconds=3_600.0), "new key", id="another key"),
        pytest.param(KEY.seal(ANNA, now=time.time(), seconds=60.0)[:-4] + "AAAA", "new key", id="changed"),
        pytest.param("ü", "new key", id="not ASCII"),
        pytest.param("A" * 5_000, "too large", id="too large"),
        pytest.param("", "new key", id="empty"),
        pytest.param(ANNA, "new key", id="a token"),
    ],
)
async def test_a_cookie_that_this_server_did_not_seal_signs_in_nobody(team: Team, cookie: str, sentence: str) -> None:
    reply = await team.get("/", Cookie=team_page.make_cookie(cookie))

    assert reply.status == 401
    assert sentence in reply.text
    assert team.cluster.apis == []


async def test_replicas_with_the_same_key_share_cookies_and_forms() -> None:
    async with team_page.serve() as one, team_page.serve() as other, team_page.serve(key=PageKey(b"x" * 32)) as third:
        cookie = await one.get_cookie(ANNA)
        token = await find_action_token(one, Cookie=cookie)
        form = {"action": "pause", "action_token": token}

        assert (await other.send("POST", ACT, form, Cookie=cookie)).status == 200
        assert (await third.send("POST", ACT, form, Cookie=cookie)).status == 401


async def test_too_many_failed_sign_ins_of_an_address_are_refused_without_asking_the_cluster(team: Team) -> None:
    cookie = await team.get_cookie(BEN)
    for _ in range(limits.PAGE_FAILED_SIGN_INS):
        assert (await team.sign_in(EXPIRED)).status == 401
    asked = team.cluster.count_reviews()

    reply = await team.sign_in(EXPIRED)

    assert reply.status == 429
    assert "try again in" in reply.text
    assert (await team.get("/", EXPIRED)).status == 429
    assert team.cluster.count_reviews() == asked
    # Users who are signed in do not notice.
    assert (await team.get("/", Cookie=cookie)).status == 200


async def test_failures_of_an_address_do_not_block_users_with_a_cookie(team: Team) -> None:
    cookie = await team.get_cookie(BEN)
    for _ in range(limits.PAGE_FAILED_SIGN_INS):
        await team.sign_in(EXPIRED)
    for session in [team.sessions.find(BEN, can_sign_out=True)]:
        assert session is not None
        team.sessions.drop(session)

    assert (await team.get("/", Cookie=cookie)).status == 200


async def test_an_expired_cookie_in_many_tabs_blocks_only_itself(team: Team) -> None:
    stale = team_page.make_cookie(KEY.seal(EXPIRED, now=time.time(), seconds=60.0))
    replies = [await team.get("/", Cookie=stale) for _ in range(limits.PAGE_FAILED_SIGN_INS + 1)]

    assert [replies[0].status, replies[-1].status] == [401, 429]
    assert (await team.sign_in(ANNA)).status == 303


async def test_attempts_at_the_same_time_do_not_escape_the_limit(team: Team) -> None:
    await asyncio.gather(*(team.get("/", f"guess-{number}") for number in range(60)))

    assert team.cluster.count_reviews() <= limits.PAGE_FAILED_SIGN_INS + limits.PAGE_REVIEWS


async def test_behind_a_proxy_failures_count_for_the_address_that_the_proxy_saw() -> None:
    async with team_page.serve(trusts_forwarded_for=True) as team:
        replies = [
            await team.sign_in(EXPIRED, X_Forwarded_For="198.51.100.9, 203.0.113.7")
            for _ in range(limits.PAGE_FAILED_SIGN_INS + 1)
        ]
        assert replies[-1].status == 429

        assert (await team.sign_in(ANNA, X_Forwarded_For="203.0.113.7, 198.51.100.9")).status == 303
        assert (await team.sign_in(BEN, X_Forwarded_For="203.0.113.7")).status == 429


# ------------------------------------------------------------ attacks from other websites


@pytest.mark.parametrize(
    ("form", "headers"),
    [
        pytest.param({"action_token": "guessed"}, {}, id="another token"),
        pytest.param({"action_token": ""}, {}, id="no token"),
        pytest.param({}, {"Origin": None}, id="no origin"),
        pytest.param({}, {"Origin": "null"}, id="opaque origin"),
        pytest.param({}, {"Origin": "https://attacker.example"}, id="another origin"),
        pytest.param({}, {"Origin": f"{ORIGIN}:8443"}, id="another port"),
        pytest.param({}, {"Origin": ORIGIN.replace("https", "http")}, id="another scheme"),
        pytest.param({}, {"Sec-Fetch-Site": "cross-site"}, id="from another site"),
        pytest.param({}, {"Sec-Fetch-Site": "same-site"}, id="from another subdomain"),
        pytest.param(
            {},
            {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"},
            id="a form of another site",
        ),
    ],
)
@pytest.mark.parametrize("has_proxy", [True, False], ids=["proxy", "cookie"])
async def test_no_action_without_origin_and_token(
    team: Team, form: dict[str, str], headers: dict[str, str | None], *, has_proxy: bool
) -> None:
    login = {"Authorization": f"Bearer {ANNA}"} if has_proxy else {"Cookie": await team.get_cookie(ANNA)}
    whole = {"action": "pause", "action_token": await find_action_token(team, **login)} | form

    reply = await team.send("POST", ACT, whole, **login, **headers)

    assert reply.status == 403
    assert f"PATCH {SHOP}" not in team.cluster.find(ANNA).asked


async def test_the_form_of_one_user_does_not_act_for_another(team: Team) -> None:
    token = await find_action_token(team, Authorization=f"Bearer {ANNA}")

    reply = await team.send("POST", ACT, {"action": "pause", "action_token": token}, Authorization=f"Bearer {BEN}")

    assert reply.status == 403
    assert f"PATCH {SHOP}" not in team.cluster.find(BEN).asked


async def test_another_site_can_neither_sign_a_user_in_nor_out(team: Team) -> None:
    cookie = await team.get_cookie(ANNA)
    for path in ("/sign-in", "/sign-out"):
        reply = await team.send("POST", path, {"token": BEN}, Cookie=cookie, Origin="https://attacker.example")
        assert (reply.status, "Set-Cookie" in reply.headers) == (403, False)
    assert len(team.sessions) == 1


async def test_a_link_on_another_site_reloads_itself_to_get_the_cookie(team: Team) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    reply = await team.get("/stacks/prod/shop", ANNA, **link)

    assert (reply.status, 'http-equiv="refresh" content="0"' in reply.text) == (200, True)
    assert team.cluster.apis == []
    for dest in ("iframe", "image", "empty"):
        assert (await team.get("/", ANNA, **(link | {"Sec-Fetch-Dest": dest}))).status == 403


@pytest.mark.parametrize("path", ["/", "/sign-in", "/static/page.js", "/nothing", "/stacks/prod/shop"])
async def test_no_answer_can_be_framed_or_cached(team: Team, path: str) -> None:
    for token in (ANNA, None):
        reply = await team.get(path, token)

        assert "frame-ancestors 'none'" in reply.headers["Content-Security-Policy"]
        assert "unsafe" not in reply.headers["Content-Security-Policy"]
        assert reply.headers["X-Frame-Options"] == "DENY"
        assert reply.headers["Cache-Control"] == "no-store"
        assert "Server" not in reply.headers


@pytest.mark.parametrize("host", ["attacker.example", "127.0.0.1", f"{team_page.HOST}:8443", f"{team_page.HOST}.evil"])
async def test_a_name_that_resolves_to_the_server_is_refused(team: Team, host: str) -> None:
    for path in ("/", "/sign-in", "/static/page.js"):
        reply = await team.get(path, ANNA, Host=host)
        assert reply.status == 421
    assert team.cluster.apis == []


@pytest.mark.parametrize(
    "next_",
    [
        "https://attacker.example/",
        "//attacker.example",
        "/\\attacker.example",
        "\\\\attacker.example",
        "/\t/attacker.example",
        "javascript:alert(1)",
        "/a\r\nSet-Cookie: x=1",
        "/" + "a" * 3_000,
        "",
    ],
)
async def test_a_sign_in_never_leads_to_another_server(team: Team, next_: str) -> None:
    reply = await team.sign_in(ANNA, next_)

    assert (reply.status, reply.headers["Location"]) == (303, "/")
    refused = await team.sign_in(EXPIRED, next_)
    assert 'name="next" value="/"' in refused.text


# ------------------------------------------------------------ headers and tokens


async def send_raw(team: Team, *lines: str, first: str = "GET / HTTP/1.1", body: bytes = b"") -> str:
    """The status line of the answer to a request with exactly these header lines, in Latin-1."""
    host, port = team.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    text = "\r\n".join([first, f"Host: {team_page.HOST}", "Connection: close", *lines])
    writer.write(f"{text}\r\n\r\n".encode("latin-1") + body)
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n")[0].decode()


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([f"Authorization: Bearer {ANNA}", f"Authorization: Bearer {BEN}"], id="two tokens"),
        pytest.param([f"Authorization: Bearer {ANNA}", f"authorization: Bearer {ANNA}"], id="twice the same"),
        pytest.param(["Authorization: Basic YTpi"], id="a password"),
        pytest.param([f"Authorization: Bearer {ANNA}, Bearer {BEN}"], id="a list"),
        pytest.param([f"Authorization: Bearer {ANNA}", "Host: attacker.example"], id="two hosts"),
        pytest.param([f"Authorization: Bearer {'a' * 9_000}"], id="a large token"),
        pytest.param(["Cookie: " + "a" * 20_000], id="a large cookie"),
        pytest.param(
            [f"Authorization: Bearer {ANNA}", "Transfer-Encoding: chunked", "Content-Length: 3"], id="two lengths"
        ),
        pytest.param([f"Authorization: Bearer {ANNA}\x00"], id="a zero byte"),
        pytest.param(["Authorization: Bearer \xff\xfe"], id="a token that is not UTF-8"),
    ],
)
async def test_headers_that_contradict_each_other_sign_in_nobody(team: Team, lines: list[str]) -> None:
    assert re.match(r"HTTP/1\.[01] 4\d\d", await send_raw(team, *lines))
    assert len(team.sessions) == 0


FORM = "Content-Type: application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("lines", "body", "status"),
    [
        pytest.param([FORM], b"token=\xff", "400", id="not UTF-8"),
        pytest.param([FORM, "Content-Encoding: gzip"], b"token=a", "400", id="not gzip"),
        pytest.param([FORM], b"a&" * 1_000, "400", id="many fields"),
        pytest.param([f"{FORM}; charset=nope"], b"token=a", "401", id="unknown charset"),
        pytest.param([f"{FORM}; charset=punycode"], b"token=" + b"z9" * 30_000, "401", id="slow charset"),
        pytest.param(["Content-Type: multipart/form-data"], b"token", "401", id="no boundary"),
        pytest.param(["Content-Type: multipart/form-data; boundary=x"], b"--x--", "401", id="several parts"),
        pytest.param([FORM], b"token=" + b"a" * limits.PAGE_FORM_BYTES, "413", id="too large"),
    ],
)
async def test_a_form_that_no_page_sends_is_refused(team: Team, lines: list[str], body: bytes, status: str) -> None:
    lines = [f"Origin: {ORIGIN}", f"Content-Length: {len(body)}", *lines]
    began = time.process_time()

    assert (await send_raw(team, *lines, first="POST /sign-in HTTP/1.1", body=body)).split()[1] == status
    assert time.process_time() - began < 1


@pytest.mark.parametrize("path", ["/static/prod/shop", "/static/prod/shop/updates", "/static/a", "/sign-in/prod/shop"])
async def test_only_the_sign_in_page_and_files_are_for_everybody(team: Team, path: str) -> None:
    assert (await team.get(path)).status == (404 if path == "/static/a" else 401)
    assert (await team.get(path, ANNA)).status == 404


async def test_headers_that_name_a_user_are_ignored(team: Team) -> None:
    names = {"X-Forwarded-User": "admin", "X-Forwarded-Access-Token": BEN, "X-Remote-User": "admin"}
    names |= {"Impersonate-User": "admin", "X-Auth-Request-User": "admin", "Forwarded": "for=1;host=attacker.example"}
    assert (await team.get("/", **names)).status == 401

    reply = await team.get("/", ANNA, **names)

    assert ("anna@example.com" in reply.text, "admin" in reply.text) == (True, False)
    assert [token for token, _ in team.cluster.apis] == [ANNA]


async def test_the_token_of_the_proxy_takes_precedence_over_a_cookie(team: Team) -> None:
    reply = await team.get("/", ANNA, Cookie=await team.get_cookie(BEN))

    assert ("of-anna" in reply.text, "of-ben" in reply.text) == (True, False)


async def test_a_token_in_the_address_signs_in_nobody(team: Team) -> None:
    for path in (f"/?token={ANNA}", f"/?access_token={ANNA}", f"/sign-in?token={ANNA}"):
        await team.get(path)
    assert team.cluster.apis == []


async def test_logs_name_user_and_verb_and_no_token(capsys: pytest.CaptureFixture[str]) -> None:
    with restored_logging.restored_logging():
        logs.configure(format_="json", level="debug", stream=sys.stderr)
        cluster = Cluster(users={**team_page.USERS, "token-of-eve": f"eve\n{HOSTILE}"})
        async with team_page.serve(cluster) as team:
            cookie = await team.get_cookie(ANNA)
            token = await find_action_token(team, Cookie=cookie)
            await team.send("POST", ACT, {"action": "pause", "action_token": token}, Cookie=cookie)
            await team.sign_in(EXPIRED)
            await team.get(f"/?token={BEN}", "token-of-eve")
            await team.get("/stackdefinitions/sites.example", ANNA)
            await team.get(f"/stacks/prod/{BEN}", BEN, Host="attacker.example")
            await send_raw(team, f"Authorization: Bearer {ANNA}\x00")
            await send_raw(team, f"Authorization : Bearer {BEN}")

    text = capsys.readouterr().err
    lines = [json.loads(line) for line in text.splitlines()]
    acted = [line for line in lines if line["event"] == "request" and line["verb"] == "pause"]
    assert [(line["user"], line["object"], line["code"]) for line in acted] == [
        ("anna@example.com", "stacks/prod/shop", 200)
    ]
    assert any(line.get("user", "").startswith("eve ") for line in lines)
    assert any(line.get("object") == "stackdefinitions/sites.example" for line in lines)
    for secret in (ANNA, EXPIRED, BEN, "token-of-eve", cookie.partition("=")[2], token):
        assert secret not in text.replace(f"stacks/prod/{BEN}", "")


async def test_a_hostile_user_name_is_no_markup() -> None:
    async with team_page.serve(Cluster(users={ANNA: HOSTILE * 100})) as team:
        reply = await team.get("/", ANNA)

    assert "<img" not in reply.text
    assert len(re.findall(r'id="user">([^<]*)<', reply.text)[0]) < 2_000


# ------------------------------------------------------------ sessions


async def test_one_token_has_one_session_and_shares_it_with_no_other(team: Team) -> None:
    team.cluster.users["second-token-of-anna"] = "anna@example.com"
    await asyncio.gather(*(team.get("/", ANNA) for _ in range(5)), team.get("/", "second-token-of-anna"))

    assert sorted(token for token, _ in team.cluster.apis) == ["second-token-of-anna", ANNA]
    assert team.cluster.count_reviews() == 2
    first, second = (team.sessions.find(each, can_sign_out=False) for each in (ANNA, "second-token-of-anna"))
    assert first is not None
    assert second is not None
    assert first.source is not second.source
    assert first.handlers is not second.handlers


async def test_sessions_are_bounded_for_each_user_and_in_all(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAGE_SESSIONS", 6)
    team.cluster.users |= {f"anna-{number}": "anna@example.com" for number in range(9)}
    team.cluster.users |= {f"user-{number}": f"user-{number}" for number in range(9)}
    for number in range(9):
        assert (await team.get("/", f"anna-{number}")).status == 200
    assert len(team.sessions) == limits.PAGE_USER_SESSIONS
    for number in range(9):
        assert (await team.get("/", f"user-{number}")).status == 200

    assert len(team.sessions) == 6
    await asyncio.sleep(0)
    assert sum(api.is_open for _, api in team.cluster.apis) <= 7


async def test_sessions_that_close_slowly_count(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAGE_SESSIONS", 1)
    await team.get("/", ANNA)
    session = team.sessions.find(ANNA, can_sign_out=False)
    assert session is not None
    with session.use(asyncio.get_running_loop().time):
        team.sessions.drop(session)

        assert (len(team.sessions), team.sessions.requests) == (0, 1)
        assert (await team.get("/", BEN)).status == 503

    assert (await team.get("/", BEN)).status == 200


async def test_sessions_that_are_idle_or_old_end(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    await team.get("/", ANNA)
    team.sessions.drop_old()
    assert len(team.sessions) == 1
    monkeypatch.setattr(limits, "PAGE_SESSION_IDLE", -1.0)

    team.sessions.drop_old()

    assert len(team.sessions) == 0
    async with asyncio.timeout(10):
        while team.cluster.find(ANNA).is_open:  # noqa: ASYNC110 -- the session closes in a task of its own
            await asyncio.sleep(0)


async def test_a_slow_reader_delays_nobody(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handlers, "PAUSE", 0.0)
    monkeypatch.setattr(handlers, "PAUSE_FACTOR", 0)
    monkeypatch.setattr(handlers, "WRITE_TIMEOUT", 0.5)
    await team.get("/", ANNA)
    api = team.cluster.find(ANNA)
    numbers = iter(range(1_000_000))

    def answer(_: object) -> dict[str, Any]:
        phases = {f"large-{number}": f"{next(numbers)}{'x' * 100_000}" for number in range(10)}
        large = [make_stack(name) | {"status": {"phase": phase}} for name, phase in phases.items()]
        return {"items": large}

    api.script[f"GET {team_page.STACKS}"] = answer
    host, port = team.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1_024)
    request = f"GET /updates HTTP/1.1\r\nHost: {team_page.HOST}\r\nAuthorization: Bearer {ANNA}\r\n\r\n"
    writer.write(request.encode())
    await reader.readline()

    async with asyncio.timeout(10):
        assert "of-ben" in (await team.get("/", BEN)).text
        # The stream of the slow reader ends.
        while team.sessions.requests:  # noqa: ASYNC110 -- the server ends it
            await asyncio.sleep(0.05)
    writer.close()


async def test_requests_of_one_user_are_bounded(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAGE_SESSION_REQUESTS", 1)
    headers = {"Host": team_page.HOST, "Authorization": f"Bearer {ANNA}"}
    async with team.client.get(f"{team.url}/updates", headers=headers) as stream:
        assert await stream.content.readline() == b"event: rows\n"

        assert (await team.get("/", ANNA)).status == 503
        assert (await team.get("/", BEN)).status == 200


async def test_requests_of_all_sessions_of_one_user_are_bounded(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAGE_USER_REQUESTS", 1)
    team.cluster.users["second-token-of-anna"] = "anna@example.com"
    await team.get("/", ANNA)
    session = team.sessions.find(ANNA, can_sign_out=False)
    assert session is not None
    with session.use(asyncio.get_running_loop().time):
        refused = await team.get("/", "second-token-of-anna")
        assert (await team.get("/", BEN)).status == 200

    assert (refused.status, "close some tabs" in refused.text) == (503, True)
    assert (await team.get("/", "second-token-of-anna")).status == 200


def make_large_stacks(count: int) -> list[dict[str, Any]]:
    """Stacks of 10 KB each."""
    return [make_stack(f"large-{number}") | {"spec": {"padding": "x" * 10_000}} for number in range(count)]


async def test_a_user_with_too_many_objects_chooses_a_namespace(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PAGE_READ_BYTES", 100_000)
    team.cluster.stacks[ANNA] = make_large_stacks(20)

    refused, in_namespace = await team.get("/", ANNA), await team.get("/?namespace=prod", ANNA)

    assert refused.status == 413
    assert "the list of stacks has more than" in refused.text
    assert 'name="namespace"' in refused.text
    assert in_namespace.status == 200


async def test_reads_of_one_user_leave_memory_for_others(team: Team) -> None:
    team.cluster.users["second-token-of-anna"] = "anna@example.com"
    await team.get("/", ANNA)
    session = team.sessions.find(ANNA, can_sign_out=False)
    assert session is not None
    assert session.memory.used == 0
    session.memory.take(limits.PAGE_USER_READ_BYTES)

    refused = await team.get("/", "second-token-of-anna")
    assert (refused.status, "tries again in a few seconds" in refused.text) == (503, True)
    assert (await team.get("/", BEN)).status == 200

    session.memory.give_back(limits.PAGE_USER_READ_BYTES)
    async with asyncio.timeout(10):
        while (await team.get("/", "second-token-of-anna")).status != 200:  # noqa: ASYNC110 -- it tries again in a second
            await asyncio.sleep(0.1)


async def test_lists_of_all_users_take_turns(team: Team) -> None:
    await team.get("/", ANNA)
    session = team.sessions.find(ANNA, can_sign_out=False)
    assert session is not None
    async with contextlib.AsyncExitStack() as others, asyncio.timeout(10):
        for _ in range(limits.PAGE_LISTS):
            await others.enter_async_context(team.sessions.list_turns)
        waiting = asyncio.create_task(team.get("/", BEN))
        while not team.sessions.requests:  # noqa: ASYNC110 -- the server counts it
            await asyncio.sleep(0)
        assert (await team.get("/session", BEN)).status == 204
        assert not waiting.done()

    assert (await waiting).status == 200


async def test_a_revoked_right_ends_the_list_of_one_user_and_of_no_other(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stack_feed, "CHECK_SECONDS", 0.05)
    both = [make_stack("of-both")]
    team.cluster.stacks = {ANNA: both, BEN: both}
    assert all(["of-both" in (await team.get("/", token)).text for token in (ANNA, BEN)])
    forbidden = errors.ApiStatusError(code=403, status={"message": "stacks is forbidden at the cluster scope"})
    kinds = (team_page.STACKS, "/apis/hearth.dev/v1alpha1/resourcegroups")
    team.cluster.find(ANNA).script |= {f"GET {path}": forbidden for path in kinds}

    async with asyncio.timeout(10):
        while (refused := await team.get("/", ANNA)).status == 200:  # noqa: ASYNC110 -- the next check ends it
            await asyncio.sleep(0.02)

    assert (refused.status, "of-both" in refused.text) == (403, False)
    assert "of-both" in (await team.get("/", BEN)).text
    # Equal rights are no reason to share: each list was read with the token of its user.
    assert all(f"GET {team_page.STACKS}" in team.cluster.find(token).asked for token in (ANNA, BEN))


async def test_a_hundred_sessions_of_one_user_keep_the_rows_of_a_few(team: Team) -> None:
    tokens = [f"token-{number}-of-anna" for number in range(100)]
    team.cluster.users |= dict.fromkeys(tokens, "anna@example.com")
    team.cluster.stacks |= {token: make_large_stacks(10) for token in tokens}
    for token in tokens:
        assert (await team.get("/", token)).status == 200

    session = team.sessions.find(tokens[-1], can_sign_out=False)
    assert session is not None
    rows = session.source.memory.row_memory
    async with asyncio.timeout(10):
        while sum(api.is_open for _, api in team.cluster.apis) > limits.PAGE_USER_SESSIONS:  # noqa: ASYNC110 -- they close
            await asyncio.sleep(0.02)
    of_one = (await team.get("/", tokens[-1])).text.count("<tr id=")
    assert (of_one, len(team.sessions)) == (10, limits.PAGE_USER_SESSIONS)
    assert 0 < rows.used <= limits.PAGE_USER_SESSIONS * 10 * 2_000
    for session in [team.sessions.find(token, can_sign_out=False) for token in tokens[-4:]]:
        assert session is not None
        await session.source.close()
    assert rows.used == 0


async def test_a_preview_waits_for_those_of_others_for_a_limited_time(
    team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PAGE_PREVIEW_WAIT", 0.1)
    await team.get("/", BEN)
    session = team.sessions.find(BEN, can_sign_out=False)
    assert session is not None
    async with contextlib.AsyncExitStack() as others:
        for _ in range(limits.PAGE_PREVIEWS):
            await others.enter_async_context(session.handlers.all_previews)
        refused = await team.get("/stacks/prod/shop/preview?to=1", ANNA)

    assert (refused.status, "too many previews run at the moment" in refused.text) == (503, True)


async def test_a_stream_ends_with_the_session(team: Team) -> None:
    cookie = await team.get_cookie(ANNA)
    token = await find_action_token(team, Cookie=cookie)
    headers = {"Host": team_page.HOST, "Cookie": cookie}
    async with asyncio.timeout(10), team.client.get(f"{team.url}/updates", headers=headers) as stream:
        assert await stream.content.readline() == b"event: rows\n"

        await team.send("POST", "/sign-out", {"action_token": token}, Cookie=cookie)

        await stream.content.read()
    assert (await team.get("/session", Cookie=cookie)).status == 204  # the cookie is valid until it expires
    assert (await team.get("/session")).status == 401


async def test_streams_end_when_the_server_does_and_actions_do_not() -> None:
    running, finish = asyncio.Event(), asyncio.Event()
    async with team_page.serve() as team:
        headers = {"Host": team_page.HOST, "Authorization": f"Bearer {ANNA}"}
        token = await find_action_token(team, Authorization=f"Bearer {ANNA}")
        stream = await team.client.get(f"{team.url}/updates", headers=headers)
        assert await stream.content.readline() == b"event: rows\n"
        api, request = team.cluster.find(ANNA), team.cluster.find(ANNA).request

        async def wait(method: str, path: str, **options: Any) -> Any:
            if method == "PATCH":
                running.set()
                await finish.wait()
            return await request(method, path, **options)

        api.request = wait  # type: ignore[method-assign]  # the answer comes late
        form = {"action": "pause", "action_token": token}
        action = asyncio.ensure_future(team.send("POST", ACT, form, Authorization=f"Bearer {ANNA}"))
        await running.wait()
        team.sessions.end_streams()

        async with asyncio.timeout(10):
            await stream.content.read()
        finish.set()
        assert (await action).status == 200


# ------------------------------------------------------------ options


async def test_a_read_only_page_writes_nothing() -> None:
    async with team_page.serve(is_read_only=True) as team:
        shown = await team.get("/stacks/prod/shop", ANNA)
        assert ("action-pause" in shown.text, ">Continue" in shown.text, "read-only" in shown.text) == (
            False,
            False,
            True,
        )
        assert (await team.get("/stacks/prod/shop/confirm?action=pause", ANNA)).status == 403
        form = {"action": "pause", "action_token": KEY.make_action_token(ANNA)}

        reply = await team.send("POST", ACT, form, Authorization=f"Bearer {ANNA}")

        assert reply.status == 403
        assert "read-only" in reply.text
        assert {sent.method for sent in team.cluster.find(ANNA).sent if sent.method != "POST"} == {"GET"}


async def test_an_action_is_sent_with_the_token_of_its_user(team: Team) -> None:
    login = {"Authorization": f"Bearer {BEN}"}
    token = await find_action_token(team, **login)

    reply = await team.send("POST", ACT, {"action": "pause", "action_token": token}, **login)

    assert reply.status == 200, reply.text
    assert f"PATCH {SHOP}" in team.cluster.find(BEN).asked
    assert [token for token, _ in team.cluster.apis] == [BEN]


async def test_another_cluster_is_not_contacted_and_the_advice_fits_the_page() -> None:
    stack = stack_page.make_stack()
    stack["spec"]["kubeConfig"] = {"secretRef": {"name": "region"}}
    kubeconfig = json.dumps(
        {
            "current-context": "a",
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "clusters": [{"name": "a", "cluster": {"server": "https://region.example"}}],
            "users": [{"name": "a", "user": {"token": "token-of-region"}}],
        }
    )
    secret = {"data": {"value": base64.b64encode(kubeconfig.encode()).decode()}}
    script = {f"GET {SHOP}": stack, "GET /api/v1/namespaces/prod/secrets/region": secret}
    async with team_page.serve(Cluster(script=script)) as team:
        reply = await team.get("/stacks/prod/shop", ANNA)

    assert reply.status == 200
    assert "to connect to https://region.example:443, run `kubectl stack tree --other-clusters`" in reply.text
    assert "token-of-region" not in reply.text


async def test_a_user_without_the_right_to_list_all_namespaces_chooses_one(team: Team) -> None:
    forbidden = errors.ApiStatusError(code=403, status={"message": "stacks is forbidden at the cluster scope"})
    team.cluster.script |= {
        f"GET {team_page.STACKS}": forbidden,
        "GET /apis/hearth.dev/v1alpha1/resourcegroups": forbidden,
    }
    reply = await team.get("/", ANNA)
    assert (reply.status, 'name="namespace"' in reply.text) == (403, True)

    shown = await team.get("/?namespace=prod", ANNA)

    assert (shown.status, "/stacks/prod/shop" in shown.text) == (200, True)
    assert 'data-updates="/updates?namespace=prod&amp;at=' in shown.text
    assert (await team.get("/?namespace=../x", ANNA)).status == 404


async def test_health_and_metrics_are_at_their_own_address(team: Team) -> None:
    await team.get("/", ANNA)
    await team.sign_in(EXPIRED)
    answers = {}
    for path in ("healthz", "readyz", "metrics"):
        async with team.client.get(f"{team.health_url}/{path}") as answer:
            answers[path] = (answer.status, await answer.text())
        assert (await team.get(f"/{path}")).status == 401

    assert answers["healthz"] == answers["readyz"] == (200, "ok\n")
    assert 'hearth_page_requests_total{code="200",verb="view"} 1.0' in answers["metrics"][1]
    assert 'hearth_page_sign_ins_total{result="refused"} 1.0' in answers["metrics"][1]
    assert "hearth_page_sessions 1.0" in answers["metrics"][1]
    assert "anna" not in answers["metrics"][1]


def write_certificate(folder: Path) -> CertificateSet:
    """Write `tls.crt` and `tls.key` of the host."""
    made = certificates.renew(CertificateSet(), hosts={team_page.HOST}, now=datetime.now(UTC))
    (folder / "tls.crt").write_bytes(made.certificate)
    (folder / "tls.key").write_bytes(made.key)
    return made


async def read_by_tls(team: Team, made: CertificateSet) -> str:
    """The start of the sign-in page, over TLS with a verified certificate."""
    port = int(team.url.rpartition(":")[2])
    context = ssl.create_default_context(cadata=made.authorities.decode())
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=team_page.HOST)
    writer.write(f"GET /sign-in HTTP/1.1\r\nHost: {team_page.HOST}\r\nConnection: close\r\n\r\n".encode())
    line = await reader.readline()
    writer.close()
    return line.decode()


async def test_a_changed_certificate_is_served_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(team_server, "UPKEEP_SECONDS", 0.05)
    first = write_certificate(tmp_path)
    files: dict[str, Any] = {"certificate": tmp_path / "tls.crt", "certificate_key": tmp_path / "tls.key"}
    async with team_page.serve(**files) as team:
        assert await read_by_tls(team, first) == "HTTP/1.1 200 OK\r\n"

        # A file that cannot be used changes nothing.
        (tmp_path / "tls.crt").write_text("no certificate")
        os.utime(tmp_path / "tls.crt", (1, 1))
        await asyncio.sleep(0.2)
        assert await read_by_tls(team, first) == "HTTP/1.1 200 OK\r\n"

        # Neither does a certificate with the key of another one.
        key = (tmp_path / "tls.key").read_bytes()
        write_certificate(tmp_path)
        (tmp_path / "tls.key").write_bytes(key)
        os.utime(tmp_path / "tls.crt", (2, 2))
        await asyncio.sleep(0.2)
        assert await read_by_tls(team, first) == "HTTP/1.1 200 OK\r\n"

        second = write_certificate(tmp_path)
        async with asyncio.timeout(10):
            while True:
                with contextlib.suppress(ssl.SSLCertVerificationError):
                    assert await read_by_tls(team, second) == "HTTP/1.1 200 OK\r\n"
                    break
                await asyncio.sleep(0.05)


async def test_a_certificate_that_cannot_be_used_prevents_the_start(tmp_path: Path) -> None:
    files: dict[str, Any] = {"certificate": tmp_path / "tls.crt", "certificate_key": tmp_path / "tls.key"}
    with pytest.raises(CannotServe, match="cannot load the certificate"):
        async with team_page.serve(**files):
            pass


def test_a_server_with_a_service_account_token_does_not_start(tmp_path: Path) -> None:
    team_server.check_no_token(tmp_path)
    (tmp_path / "token").write_text("token")

    with pytest.raises(TokenMounted, match="automountServiceAccountToken: false"):
        team_server.check_no_token(tmp_path)
