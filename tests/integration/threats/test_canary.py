"""Checks the world of the attack tests: the operator has exactly the shipped rights, and the canary is served."""

from __future__ import annotations

from support.threats.world import ThreatWorld, make_config_map, make_stack


def test_an_undisturbed_canary_is_complete_within_seconds(threats: ThreatWorld) -> None:
    first = threats.canary()
    threats.operator.restart()
    second = threats.canary()

    print(f"made after {first.made:.2f} s and {second.made:.2f} s, {threats.operator.memory:.0f} MiB")
    assert threats.operator.get("/healthz").is_ok
    assert threats.operator.read_metric("hearth_api_requests_total", code="403") == 0
    assert threats.operator.files < 60


def test_accounts_may_do_what_they_are_named_for_and_no_more(threats: ThreatWorld) -> None:
    tenant, other = threats.tenant(), threats.tenant()
    author, editor = tenant.author(), tenant.editor("configmaps")
    stack = make_stack(tenant.namespace, "shop", {"cfg": make_config_map("cfg")})
    plain = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "plain", "namespace": tenant.namespace}}

    assert author.try_create(stack).code == 201
    assert author.try_create(plain).code == 403
    assert editor.try_create(plain).code == 201
    assert editor.try_create(stack).code == 403
    assert author.try_create(make_stack(other.namespace, "shop", {"cfg": make_config_map("cfg")})).code == 403
