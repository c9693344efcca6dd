"""The models of the API agree with the other places that depend on them."""

from __future__ import annotations

import re

import pydantic
import pytest

from hearth.model import names
from hearth.model.api import stack
from hearth.model.api.base import ApiModel

SMALLEST = {"template": {"resources": {"web": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap"}}}}}


def find_models() -> list[type[pydantic.BaseModel]]:
    return [model for model in vars(stack).values() if isinstance(model, type) and issubclass(model, ApiModel)]


def test_a_smallest_stack_is_understood() -> None:
    parsed = stack.StackSpec.model_validate(SMALLEST)

    assert parsed.template is not None
    manifest = parsed.template.resources["web"].manifest
    assert manifest is not None
    assert manifest.kind == "ConfigMap"


def test_fields_are_called_in_camel_case_outside() -> None:
    assert set(stack.Resource.model_json_schema(by_alias=True)["properties"]) == {
        "manifest",
        "forEach",
        "key",
        "dependsOn",
        "when",
        "readyWhen",
        "externalRef",
        "failedWhen",
        "optional",
        "updatePolicy",
        "driftPolicy",
        "ignoreFields",
        "deletionPolicy",
        "adoptionPolicy",
        "completion",
        "retry",
    }


def test_the_spec_holds_nothing_that_means_nothing_yet() -> None:
    assert set(stack.StackSpec.model_json_schema(by_alias=True)["properties"]) == {
        "template",
        "templateRef",
        "templateRefs",
        "parameters",
        "expiresAfter",
        "paused",
        "suspended",
        "rollback",
        "retry",
        "timeout",
        "revisionHistoryLimit",
        "deletionPolicy",
        "adoptionPolicy",
        "parametersFrom",
        "healing",
        "environment",
        "serviceAccountName",
        "kubeConfig",
        "protected",
        "window",
        "maxRemoved",
        "approval",
    }


@pytest.mark.parametrize("model", find_models(), ids=lambda model: model.__name__)
def test_every_model_is_frozen_and_refuses_unknown_fields(model: type[pydantic.BaseModel]) -> None:
    assert model.model_config.get("frozen") is True
    assert model.model_config.get("extra") == "forbid"


@pytest.mark.parametrize(
    ("name", "is_fine"),
    [
        pytest.param("web", True, id="lower case"),
        pytest.param("redisMaster2", True, id="camel case with a digit"),
        pytest.param("a" * 40, True, id="as long as allowed"),
        pytest.param("a" * 41, False, id="one too long"),
        pytest.param("Web", False, id="begins with an upper-case letter"),
        pytest.param("2web", False, id="begins with a digit"),
        pytest.param("my-web", False, id="a dash would be a minus in expressions"),
        pytest.param("", False, id="empty"),
    ],
)
def test_the_rule_of_the_schema_for_names_is_that_of_the_compiler(name: str, is_fine: bool) -> None:
    assert bool(names.RESOURCE_NAME.fullmatch(name)) is is_fine
    assert bool(re.search(stack.NAME_RULE, name)) is is_fine
