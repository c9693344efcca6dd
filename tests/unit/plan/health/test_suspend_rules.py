"""Suspending objects of well-known kinds, and mistakes in users' rules."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from hearth.model import child
from hearth.model.child import Child
from hearth.model.kinds import Kind
from hearth.plan.health import health_rules, rule_parser
from hearth.plan.health.health_rules import HealthRules
from hearth.plan.health.suspend_rules import SuspendRule

SUSPENDED = {"type": "Suspended", "status": "True"}
COMPLETE = {"type": "Complete", "status": "True"}


def make_kind(written: str) -> Kind:
    """The kind that is written `group/Kind`."""
    group, _, name = written.rpartition("/")
    return Kind(group=group, version="v1", name=name, plural=f"{name.lower()}s", namespaced=True)


def make(written: str, spec: dict[str, Any], status: dict[str, Any] | None = None, **metadata: Any) -> Child:
    """An object of a kind as the cache keeps it for its rule."""
    of = make_kind(written)
    raw = {
        "apiVersion": of.api_version,
        "kind": of.name,
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 2, **metadata},
        "spec": spec,
        "status": status or {},
    }
    return child.parse_child(raw, kind=of, paths=health_rules.DEFAULT_RULES.suspension_paths(of))


def find_rule(written: str) -> SuspendRule:
    """The built-in rule."""
    rule = health_rules.DEFAULT_RULES.find_suspension(make_kind(written))
    assert rule is not None
    return rule


@pytest.mark.parametrize(
    ("written", "spec", "status", "expected"),
    [
        pytest.param("apps/Deployment", {"replicas": 2}, {"replicas": 2}, "runs", id="a workload that runs"),
        pytest.param("apps/Deployment", {"replicas": 0}, {"replicas": 2, "observedGeneration": 2}, "ends", id="pods are left"),
        pytest.param("apps/Deployment", {"replicas": 0}, {"observedGeneration": 1}, "ends", id="its controller has not looked yet"),
        pytest.param("apps/Deployment", {"replicas": 0}, {"observedGeneration": 2}, "down", id="no pod is left"),
        pytest.param("apps/StatefulSet", {"replicas": 0}, {"replicas": 0, "observedGeneration": 2}, "down", id="a set"),
        pytest.param("apps/ReplicaSet", {"replicas": 1}, {"replicas": 1}, "runs", id="a bare replica set"),
        pytest.param("batch/CronJob", {"suspend": False}, {}, "runs", id="a schedule"),
        pytest.param("batch/CronJob", {"suspend": True}, {"active": [{}]}, "down", id="what a schedule has begun comes to its end"),
        pytest.param("batch/Job", {"suspend": False}, {"active": 1}, "runs", id="a job that runs"),
        pytest.param("batch/Job", {"suspend": True}, {"active": 1}, "ends", id="a job that is asked to stop, and has pods"),
        pytest.param("apps/StatefulSet", {"replicas": 0, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain"}}, {"replicas": 0}, "down", id="a StatefulSet"),
        pytest.param("apps/StatefulSet", {"replicas": 0, "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}, {"replicas": 0}, "runs", id="a StatefulSet whose claims would be deleted"),
        pytest.param("batch/Job", {"suspend": True}, {"conditions": [SUSPENDED]}, "down", id="a suspended job"),
        pytest.param("batch/Job", {"suspend": False}, {"conditions": [COMPLETE]}, "exempt", id="a job that is over"),
        pytest.param("hearth.dev/Stack", {}, {"phase": "UpdateComplete"}, "runs", id="a nested stack"),
        pytest.param("hearth.dev/Stack", {"suspended": True}, {"phase": "UpdateComplete", "observedGeneration": 1}, "ends", id="a nested stack that was asked to stop"),
        pytest.param("hearth.dev/Stack", {"suspended": True}, {"phase": "SuspendComplete", "observedGeneration": 2}, "down", id="a suspended stack"),
        pytest.param("helm.toolkit.fluxcd.io/HelmRelease", {"suspend": True}, {"observedGeneration": 1}, "down", id="Flux looks no more at what is suspended"),
        pytest.param("argoproj.io/CronWorkflow", {"suspend": True}, {}, "down", id="Argo"),
    ],
)  # fmt: skip
def test_how_an_object_is_suspended(written: str, spec: dict[str, Any], status: dict[str, Any], expected: str) -> None:
    rule, found = find_rule(written), make(written, spec, status)
    said = "exempt" if rule.is_exempt(found) else "runs" if not rule.is_set(found) else "ends"
    assert ("down" if said == "ends" and rule.is_done(found) else said) == expected


def test_an_annotation_pauses_what_has_no_field_for_it() -> None:
    rule = find_rule("s3.aws.upbound.io/Bucket")
    assert not rule.is_set(make("s3.aws.upbound.io/Bucket", {}))
    assert rule.is_set(make("s3.aws.upbound.io/Bucket", {}, annotations={"crossplane.io/paused": "true"}))
    assert find_rule("keda.sh/ScaledObject").sets == {("metadata", "annotations", "autoscaling.keda.sh/paused"): "true"}


@pytest.mark.parametrize("written", ["ConfigMap", "Service", "apps/DaemonSet", "PersistentVolumeClaim", "x.io/Y"])
def test_other_kinds_are_left_as_they_are(written: str) -> None:
    assert health_rules.DEFAULT_RULES.find_suspension(make_kind(written)) is None


def test_rules_of_users_go_before_and_leave_health_as_it_is() -> None:
    text = """
        - kinds: [apps/Deployment, example.com/Farm]
          suspend: {set: {spec.mode: "off", "metadata.annotations[example.com/asleep]": "yes"}, unless: self.spec.immortal}
    """
    table, mistakes = rule_parser.read({"r": textwrap.dedent(text)})
    rules, farm = HealthRules(), make_kind("example.com/Farm")
    assert mistakes == ()
    assert rules.replace(table).touches(farm)
    rule = rules.find_suspension(make_kind("apps/Deployment"))
    assert rule is not None
    assert rule.sets == {("spec", "mode"): "off", ("metadata", "annotations", "example.com/asleep"): "yes"}
    assert rules.suspension_paths(farm) == {("spec", "mode"), ("spec", "immortal")}
    assert rules.find_entry(make_kind("apps/Deployment")) is health_rules.DEFAULT_RULES.find_entry(
        make_kind("apps/Deployment")
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("{}", ["r, line 1: suspend needs set, a map of fields to values, e.g. {spec.suspend: true}"], id="nothing to set"),
        pytest.param("{set: {status.x: 1}}", ["r, line 1: must be a field below spec, or an annotation, as in spec.replicas or metadata.annotations[crossplane.io/paused]"], id="no field that can be set"),
        pytest.param("{set: {'spec.items[name=\"a\"].x': 1}}", ["r, line 1: must be a field below spec, or an annotation, as in spec.replicas or metadata.annotations[crossplane.io/paused]"], id="an item of a list"),
        pytest.param("{set: {spec.x: [1]}}", ["r, line 1: must be a string, a number, true or false"], id="no single value"),
        pytest.param("{set: {spec.x: 1}, override: {spec.x.y: 1}}", ["r, line 1: sets spec.x and a field within it, spec.x.y; keep one of them"], id="one within the other"),
        pytest.param("{set: {spec.x: 1}, until: 'true'}", ["r, line 1: suspend has no 'until'; it has set, override, doneWhen and unless"], id="a word that is not there"),
        pytest.param("{set: {spec.x: 1}, doneWhen: self.spec.x + 1}", ["r, line 1: must give true or false"], id="no test"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_line(text: str, expected: list[str]) -> None:
    table, mistakes = rule_parser.read({"r": f"- {{kinds: [x/Y], suspend: {text}}}"})
    assert [str(mistake)[: len(said)] for mistake, said in zip(mistakes, expected, strict=True)] == expected
    assert table.find_suspension(make_kind("x/Y")) is None
