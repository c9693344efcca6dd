"""The key of all hashes: created once, even if several processes create one at the same time."""

from __future__ import annotations

import base64

import pytest

from hearth.kube import management_cluster
from hearth.kube.client.api_requests import ApiClient
from hearth.model import errors
from hearth.model.child import Object
from support.server import api_errors
from support.units.scripted_api.scripted_connection import Answer, ScriptedConnection, exists, missing
from support.virtual_time import in_virtual_time

SECRETS = "/api/v1/namespaces/hearth/secrets"
GET, CREATE, CREATE_NAMESPACE = f"GET {SECRETS}/hearth-hash-key", f"POST {SECRETS}", "POST /api/v1/namespaces"
OURS, THEIRS = b"o" * 32, b"t" * 32


def secret(key: bytes) -> Object:
    return {"data": {"key": base64.b64encode(key).decode()}}


async def get_key(connection: ScriptedConnection) -> bytes:
    """The key; a newly created key is the fixed one."""
    return await management_cluster.get_or_create_hash_key(
        ApiClient(connection, None),  # type: ignore[arg-type]  # the same methods
        "hearth",
        entropy=lambda length: b"o" * length,
    )


@pytest.mark.parametrize(
    ("script", "expected", "asked"),
    [
        pytest.param({GET: secret(THEIRS)}, THEIRS, [GET], id="it is there"),
        pytest.param({CREATE: {}}, OURS, [GET, CREATE], id="it is made"),
        pytest.param(
            {GET: [missing(), secret(THEIRS)], CREATE: exists()},
            THEIRS,
            [GET, CREATE, GET],
            id="another client was quicker",
        ),
        pytest.param(
            {CREATE: [api_errors.namespace_missing("hearth"), {}], CREATE_NAMESPACE: {}},
            OURS,
            [GET, CREATE, CREATE_NAMESPACE, CREATE],
            id="the namespace is made as well",
        ),
        pytest.param(
            {CREATE: [api_errors.namespace_missing("hearth"), {}], CREATE_NAMESPACE: exists()},
            OURS,
            [GET, CREATE, CREATE_NAMESPACE, CREATE],
            id="another client made the namespace meanwhile",
        ),
        pytest.param(
            {CREATE: [api_errors.namespace_missing("hearth"), {}], CREATE_NAMESPACE: missing()},
            OURS,
            [GET, CREATE, CREATE_NAMESPACE, CREATE],
            id="what the server says of the namespace does not count",
        ),
        pytest.param(
            {GET: [missing(), secret(THEIRS)], CREATE: api_errors.namespace_missing("hearth"), CREATE_NAMESPACE: {}},
            THEIRS,
            [GET, CREATE, CREATE_NAMESPACE, CREATE, GET],
            id="the namespace went and came again, with a key",
        ),
    ],
)
@in_virtual_time
async def test_there_is_one_key_in_the_end(
    script: dict[str, Answer | list[Answer]], expected: bytes, asked: list[str]
) -> None:
    connection = ScriptedConnection(script)
    assert await get_key(connection) == expected
    assert connection.asked == asked


@in_virtual_time
async def test_a_new_key_is_stored_for_good() -> None:
    connection = ScriptedConnection({CREATE: {}})
    await get_key(connection)
    body = connection.sent[1].body
    assert body is not None
    assert (body["data"], body["immutable"]) == (secret(OURS)["data"], True)


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param({}, id="no data"),
        pytest.param({"data": {"key": "???"}}, id="not base 64"),
        pytest.param(secret(b"short"), id="too short"),
    ],
)
@in_virtual_time
async def test_a_spoilt_key_is_never_replaced_unasked(stored: Object) -> None:
    with pytest.raises(
        management_cluster.InvalidHashKey, match=r"hearth-hash-key in namespace hearth: data\.key .* delete"
    ):
        await get_key(ScriptedConnection({GET: stored}))


@pytest.mark.parametrize(
    "script",
    [
        pytest.param({GET: api_errors.unavailable()}, id="asking"),
        pytest.param({CREATE: api_errors.unavailable()}, id="storing"),
    ],
)
@in_virtual_time
async def test_a_refusal_passes_through(script: dict[str, Answer | list[Answer]]) -> None:
    with pytest.raises(errors.ApiStatusError):
        await get_key(ScriptedConnection(script))


@pytest.mark.parametrize(
    "refusal",
    [pytest.param(exists(), id="the key"), pytest.param(api_errors.namespace_missing("hearth"), id="its namespace")],
)
@in_virtual_time
async def test_what_comes_and_goes_is_tried_again_later(refusal: errors.ApiStatusError) -> None:
    with pytest.raises(errors.Unreachable, match="try again"):
        await get_key(ScriptedConnection({CREATE: refusal, CREATE_NAMESPACE: {}}))
