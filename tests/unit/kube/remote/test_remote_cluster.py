"""Which cluster answers at an address, as far as the credentials show it."""

from __future__ import annotations

import pytest

from hearth.kube.remote import remote_cluster
from hearth.model import errors
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
    """Nothing else that a server sends counts."""
    assert await remote_cluster.read_identity(ScriptedConnection({PATH: answer})) == found


@pytest.mark.parametrize("code", [401, 429, 503])
async def test_a_server_that_cannot_answer_now_shows_nothing(code: int) -> None:
    """The next look asks again."""
    connection = ScriptedConnection({PATH: errors.ApiStatusError(code=code, status=None)})
    with pytest.raises(errors.ApiStatusError):
        await remote_cluster.read_identity(connection)
