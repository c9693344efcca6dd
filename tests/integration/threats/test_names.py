"""A11, and the mistake behind D1: a name that does not fit into one path segment is never sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.threats.api import Object
from support.threats.world import ThreatWorld, make_config_map, make_stack

CONFIG: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}


@pytest.mark.parametrize(
    ("metadata", "value"),
    [
        pytest.param({"name": "${params.p}"}, 500, id="a name that is a number"),
        pytest.param({"name": "${params.p}"}, "web/scale", id="a subresource"),
        pytest.param({"name": "a", "namespace": "${params.p}"}, "../../secrets", id="another collection"),
        pytest.param({"name": "a", "namespace": "${params.p}"}, "x/services/foo/proxy", id="a proxy"),
    ],
)
def test_a_name_that_leads_elsewhere_is_a_mistake(threats: ThreatWorld, metadata: Any, value: Any) -> None:
    tenant = threats.tenant()
    author = tenant.author()
    # Use forty different names, because resources with the same name are refused before any write.
    values = {f"p{number}": 500 + number for number in range(40)} if value == 500 else {"p": value}
    bad = {
        f"r{number}": {"manifest": {**CONFIG, "metadata": point(metadata, each)}} for number, each in enumerate(values)
    }
    template: Object = {"parameters": {each: {} for each in values}}
    author.create(make_stack(tenant.namespace, "bad", bad, template=template, parameters=values))
    stack = threats.wait_phase(tenant.namespace, "bad", "CreateFailed")
    said = json.dumps(stack["status"]["conditions"])
    assert "InvalidTemplate" in said
    assert "spec.template.resources.r0.manifest.metadata.name" in said
    assert threats.operator.read_metric("hearth_api_requests_total", code="403") == 0
    canary = threats.canary()
    print(f"the canary is made after {canary.made:.2f} s")


def point(metadata: Any, parameter: str) -> Any:
    """The metadata with that parameter."""
    return {key: text.replace("params.p", f"params.{parameter}") for key, text in metadata.items()}


def test_a_name_from_another_object_is_looked_at_before_it_is_used(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    resources = {
        "source": make_config_map("source", {"name": "web/scale"}),
        "bad": {"manifest": {**CONFIG, "metadata": {"name": "${source.data.name}"}}},
        "good": make_config_map("good"),
    }
    tenant.author().create(make_stack(tenant.namespace, "shop", resources))
    stack = threats.wait_phase(tenant.namespace, "shop", "CreateFailed")
    assert "InvalidName" in json.dumps(stack["status"])
    assert "web/scale" in json.dumps(stack["status"])
    assert threats.api.get("ConfigMap", tenant.namespace, "good") is not None
    assert threats.operator.read_metric("hearth_api_requests_total", code="403") == 0
    threats.canary()
