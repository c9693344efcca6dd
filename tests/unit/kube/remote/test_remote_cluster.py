"""A connection to a server that a tenant chose: its identity, its cost, and the data it cannot learn or take."""

from __future__ import annotations

import json

import pytest

from hearth.kube.auth.credentials import Credentials
from hearth.kube.auth.inline_kubeconfig import InlineKubeconfig
from hearth.kube.remote import remote_cluster
from hearth.kube.remote.remote_cluster import RemoteConnection, UnfinishedLine
from hearth.kube.remote.tenant_share import CpuBudget, TenantShare, TenantShares, TooMuchHeld
from hearth.model import errors, limits
from hearth.model.memory_shares import memory_shares
from support.real.servers import stub_server
from support.real.servers.stub_server import says
from support.units.scripted_api.scripted_connection import Answer, ScriptedConnection

PATH = "GET /api/v1/namespaces/kube-system"
ANSWERS = [
    pytest.param({"metadata": {"uid": "u1"}}, "u1", id="the UID"),
    pytest.param(errors.ApiStatusError(code=403, status=None), "", id="no right to read it"),
    pytest.param(errors.ApiStatusError(code=404, status=None), "", id="no such namespace"),
    pytest.param({}, "", id="no object"),
    pytest.param({"metadata": []}, "", id="metadata that are a list"),
    pytest.param({"metadata": {"uid": 3}}, "", id="a UID that is no text"),
    pytest.param({"metadata": {"uid": "x" * 10_000}}, "", id="a UID that is too long"),
]


@pytest.mark.parametrize(("answer", "found"), ANSWERS)
async def test_identity_is_the_uid_of_kube_system(answer: Answer, found: str) -> None:
    assert await remote_cluster.read_identity(ScriptedConnection({PATH: answer})) == found


@pytest.mark.parametrize("code", [401, 429, 503])
async def test_a_server_that_cannot_answer_now_shows_nothing(code: int) -> None:
    connection = ScriptedConnection({PATH: errors.ApiStatusError(code=code, status=None)})
    with pytest.raises(errors.ApiStatusError):
        await remote_cluster.read_identity(connection)


# A connection to a server that a tenant chose.


TOKEN = "canary-token-0123456789"
ECHO = f"who are you, Bearer {TOKEN}? " * 3


def connect(url: str, share: TenantShare | None = None) -> RemoteConnection:
    credentials = Credentials(server=url, authorization=f"Bearer {TOKEN}", is_foreign=True)
    config = InlineKubeconfig(credentials=credentials, key="k", hidden_texts=frozenset({TOKEN}))
    return RemoteConnection(config, share if share is not None else TenantShares(is_guarded=False).find("shop"))


@pytest.mark.parametrize(
    "answer",
    [
        says(json.dumps({"kind": "Status", "message": ECHO, "details": {"name": ECHO}}), code=403),
        says(ECHO, code=200),
        says(json.dumps([ECHO]), code=200),
    ],
    ids=["status", "no JSON", "no object"],
)
async def test_a_server_that_repeats_the_credentials_puts_them_in_no_error(answer: stub_server.Answer) -> None:
    async with stub_server.run_stub(answer) as stub, connect(stub.url) as connection:
        with pytest.raises((errors.ApiStatusError, errors.Unreachable)) as raised:
            await connection.request("GET", "/api")
        assert TOKEN not in str(raised.value)
        assert TOKEN not in json.dumps(getattr(raised.value, "status", None))
        assert raised.value.__cause__ is None
        assert stub.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"


async def test_a_stream_that_is_refused_repeats_nothing_either() -> None:
    answer = says(json.dumps({"kind": "Status", "message": ECHO}), code=401)
    async with stub_server.run_stub(answer) as stub, connect(stub.url) as connection:
        with pytest.raises(errors.ApiStatusError) as raised:
            async with connection.stream("/api/v1/pods"):
                pass
        assert TOKEN not in str(raised.value)


async def test_a_document_beyond_the_limit_is_not_parsed() -> None:
    answer = says(b'{"components": {"schemas": {"a": "' + b"x" * limits.CLUSTER_SCHEMA_BYTES + b'"}}}')
    async with stub_server.run_stub(answer) as stub, connect(stub.url) as connection:
        with pytest.raises(errors.AnswerTooLarge):
            await connection.request("GET", "/openapi/v3/apis/apps/v1")


async def test_an_answer_of_another_cluster_is_smaller_than_one_of_the_home_cluster() -> None:
    answer = says(b'{"a": "' + b"x" * limits.CLUSTER_BODY_BYTES + b'"}')
    async with stub_server.run_stub(answer) as stub, connect(stub.url) as connection:
        with pytest.raises(errors.AnswerTooLarge):
            await connection.request("GET", "/api")


async def test_answers_take_time_from_the_share_of_their_namespace() -> None:
    answer = says(b'{"a": "' + b"x" * 4_000_000 + b'"}')
    share = TenantShares(is_guarded=False).find("shop")
    async with stub_server.run_stub(answer) as stub, connect(stub.url, share) as connection:
        assert not share.is_overdrawn
        for _ in range(60):
            if share.is_overdrawn:
                break  # type: ignore[unreachable]  # the request invalidates mypy's narrowing
            await connection.request("GET", "/api")
        assert share.is_overdrawn


def test_lines_that_do_not_end_take_a_bounded_part_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    room = 32 * 1024 * 1024
    monkeypatch.setattr(memory_shares, "total", memory_shares.total_held + 2 * room)
    shares = TenantShares()
    share, other = shares.find("a"), shares.find("b")
    lines = [UnfinishedLine(share) for _ in range(1_000)]

    def flood() -> None:
        for line in lines:
            for _ in range(4):
                line.add(b"x" * 1_000_000)

    with pytest.raises(TooMuchHeld, match="the Stacks of namespace a use their share"):
        flood()
    assert room * 0.9 < share.held <= room
    UnfinishedLine(other).add(b"x" * 1_000_000)
    for line in lines:
        line.add(b"the end\n")
    assert share.held == 0


def test_one_line_holds_no_more_than_its_limit() -> None:
    share = TenantShares().find("a")
    line = UnfinishedLine(share)
    for _ in range(100):
        line.add(b"x" * 1_000_000)

    assert share.held == limits.CLUSTER_LINE_BYTES
    line.release()
    assert share.held == 0


# The share of a core that one other cluster may take.


def test_a_burst_is_free_and_more_is_paid_for_by_waiting() -> None:
    budget, now, worked = CpuBudget(share=0.1, burst=1.0), 100.0, 0.0

    assert budget.charge(now, now + 0.9) == 0
    now += 0.9
    for _ in range(50):
        pause = budget.charge(now, now + 0.05)
        worked += 0.05
        now += 0.05 + pause

    assert worked / (now - 100.9) < 0.11


def test_an_idle_source_regains_no_more_than_a_burst() -> None:
    budget = CpuBudget(share=0.1, burst=1.0)
    budget.charge(0.0, 1.0)

    assert budget.charge(86_400.0, 86_401.0) == 0
    assert budget.charge(86_401.0, 86_401.5) > 3
