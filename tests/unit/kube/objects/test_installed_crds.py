"""CustomResourceDefinitions that are older than the program are refused, with their missing fields and the command."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hearth.kube.client.api_requests import ApiClient
from hearth.kube.objects import installed_crds
from hearth.model import errors
from hearth.model.api import crd
from hearth.model.child import Object
from support.checks import crd_outlines
from support.server import api_errors
from support.units.scripted_api.scripted_connection import ScriptedConnection

PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
STACKS = "stacks.hearth.dev"


def make_installed() -> dict[str, Any]:
    """The definitions of this version by name, as a server has them."""
    return {each["metadata"]["name"]: copy.deepcopy(each) for each in crd.make_crds()}


def schema_of(installed: Object) -> dict[str, Any]:
    """The schema of the only version of a definition."""
    found: dict[str, Any] = installed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    return found


async def check(installed: dict[str, Any]) -> str:
    """The operator's error about these CRDs; "" if it starts."""
    connection = ScriptedConnection({f"GET {PATH}/{name}": each for name, each in installed.items()})
    try:
        await installed_crds.check(ApiClient(connection, None))  # type: ignore[arg-type]  # the same methods
    except installed_crds.OutdatedCrds as error:
        return str(error)
    return ""


def test_the_outlines_are_fresh() -> None:
    """`make crds` updates them."""
    assert crd_outlines.PATH.read_text() == crd_outlines.make_text()


async def test_the_own_definitions_are_accepted() -> None:
    installed = make_installed()
    schema_of(installed[STACKS])["spec"]["properties"]["later"] = {"type": "string"}

    assert await check(installed) == ""


async def test_a_missing_field_is_named_with_the_command() -> None:
    installed = make_installed()
    del schema_of(installed[STACKS])["spec"]["properties"]["rollback"]["properties"]["toSnapshot"]

    said = await check(installed)

    assert "stacks.hearth.dev lacks spec.rollback.toSnapshot. Update them: " in said
    assert "hearth crds | kubectl apply --server-side --force-conflicts -f -" in said


async def test_many_missing_fields_are_counted() -> None:
    installed = make_installed()
    schema_of(installed[STACKS])["status"]["properties"].clear()
    del schema_of(installed["healthmarks.hearth.dev"])["status"]["properties"]["signature"]

    said = await check(installed)

    count = len(schema_of(make_installed()[STACKS])["status"]["properties"])
    assert f" and {count - 3} more; healthmarks.hearth.dev lacks status.signature" in said


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"versions": None}, id="no versions"),
        pytest.param({"versions": [7, "v1alpha1", {}]}, id="versions of other types"),
        pytest.param({"versions": [{"name": "v1alpha1", "served": False}]}, id="not served"),
        pytest.param({"versions": [{"name": "v1alpha1", "served": True}]}, id="no schema"),
        pytest.param({"versions": [{"name": "v1alpha1", "served": True, "schema": "{}"}]}, id="schema of another type"),
    ],
)
async def test_a_definition_of_another_form_is_old(change: Object) -> None:
    installed = make_installed()
    installed[STACKS]["spec"] |= change

    assert "stacks.hearth.dev lacks " in await check(installed)


async def test_a_schema_that_keeps_all_fields_is_accepted() -> None:
    installed = make_installed()
    schema_of(installed[STACKS])["status"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

    assert await check(installed) == ""


async def test_fields_that_manifests_need_are_kept() -> None:
    installed = make_installed()
    resource = schema_of(installed[STACKS])["spec"]["properties"]["template"]["properties"]["resources"]
    del resource["additionalProperties"]["properties"]["manifest"]["x-kubernetes-preserve-unknown-fields"]

    assert "manifest" in await check(installed)


async def test_a_subresource_is_needed() -> None:
    installed = make_installed()
    del installed[STACKS]["spec"]["versions"][0]["subresources"]["status"]

    assert "stacks.hearth.dev lacks the subresource status" in await check(installed)


@pytest.mark.parametrize("code", [403, 404, 500])
async def test_a_definition_that_cannot_be_read_is_not_checked(code: int) -> None:
    refused = errors.ApiStatusError(code=code, status=None)
    installed = make_installed() | {STACKS: refused}

    assert await check(installed) == ""


async def test_a_server_that_does_not_answer_is_asked_again_later() -> None:
    with pytest.raises(errors.Unreachable):
        await check({STACKS: errors.Unreachable("no route")})


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param({"gitVersion": "v1.29.14"}, "v1.29", id="older"),
        pytest.param({"gitVersion": "v1.29.9-eks-1234567"}, "v1.29", id="older-of-a-provider"),
        pytest.param({"gitVersion": "v1.30.0"}, "", id="oldest"),
        pytest.param({"gitVersion": "v1.36.3+k3s1"}, "", id="newer"),
        pytest.param({"gitVersion": "v2.0.0"}, "", id="next-major"),
        pytest.param({"gitVersion": "v99999999999999999999.1"}, "", id="no-version"),
        pytest.param({"gitVersion": None}, "", id="null"),
        pytest.param({}, "", id="empty"),
        pytest.param(api_errors.unavailable(), "", id="no-answer"),
    ],
)
async def test_an_older_server_is_noticed(answer: Object | Exception, expected: str) -> None:
    connection = ScriptedConnection({"GET /version": answer})

    assert await installed_crds.find_old_version(connection) == expected  # type: ignore[arg-type]  # the same methods
