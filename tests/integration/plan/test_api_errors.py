"""Refusals provoked on a real API server, and their classification."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.retry import api_errors
from hearth.plan.retry.api_errors import DryRunVerdict, ErrorClass
from support.real import raw_api, refused_requests
from support.real.raw_api import Answer, RawApi
from support.real.refused_requests import Row, Site
from support.units import error_texts
from support.units.sample_manifests import kind

POLICY = kind("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy", namespaced=False)
POLICY_BINDING = kind(POLICY.group, "v1", "ValidatingAdmissionPolicyBinding", namespaced=False)

ROWS: list[tuple[Row, type[ErrorClass]]] = [
    (refused_requests.immutable_selector, api_errors.MaybeImmutable),
    (refused_requests.immutable_cluster_ip, api_errors.MaybeImmutable),
    (refused_requests.immutable_job_template, api_errors.MaybeImmutable),
    (refused_requests.immutable_claim, api_errors.MaybeImmutable),
    (refused_requests.immutable_data, api_errors.MaybeImmutable),
    (refused_requests.immutable_role, api_errors.MaybeImmutable),
    (refused_requests.several_mistakes, api_errors.MaybeImmutable),
    (refused_requests.emptied_map, api_errors.MaybeImmutable),
    (refused_requests.unknown_field_by_apply, api_errors.NeedsDryRun),
    (refused_requests.unknown_field_by_create, api_errors.InvalidManifest),
    (refused_requests.wrong_type_by_apply, api_errors.NeedsDryRun),
    (refused_requests.wrong_type_by_create, api_errors.InvalidManifest),
    (refused_requests.duplicate_key, api_errors.NeedsDryRun),
    (refused_requests.bad_base64, api_errors.NeedsDryRun),
    (refused_requests.name_of_another, api_errors.InvalidManifest),
    (refused_requests.too_large, api_errors.InvalidManifest),
    (refused_requests.too_large_to_store, api_errors.InvalidManifest),
    (refused_requests.too_large_to_read, api_errors.InvalidManifest),
    (refused_requests.invalid_name, api_errors.InvalidManifest),
    (refused_requests.long_label, api_errors.InvalidManifest),
    (refused_requests.missing_namespace, api_errors.NamespaceNotFound),
    (refused_requests.terminating_namespace, api_errors.NamespaceTerminating),
    (refused_requests.unknown_group, api_errors.KindNotServed),
    (refused_requests.unknown_built_in, api_errors.KindNotServed),
    (refused_requests.missing_object, api_errors.ObjectNotFound),
    (refused_requests.full_quota, api_errors.NeedsAccessReview),
    (refused_requests.missing_rights, api_errors.NeedsAccessReview),
    (refused_requests.stale_version, api_errors.StaleRead),
    (refused_requests.existing_name, api_errors.StaleRead),
    (refused_requests.another_incarnation, api_errors.StaleRead),
    (refused_requests.vanished_incarnation, api_errors.StaleRead),
    (refused_requests.delete_another_incarnation, api_errors.StaleRead),
    (refused_requests.finalizer_while_terminating, api_errors.StaleRead),
    (refused_requests.field_of_another, api_errors.ApplyConflict),
]


@pytest.fixture
def site(api: RawApi, namespace: str) -> Site:
    """A fresh namespace."""
    return Site(api, namespace)


def classify(of: Kind, answer: Answer) -> ErrorClass:
    """The reaction to a response."""
    return api_errors.classify(answer.code, answer.status, kind=of, body_size=answer.sent)


@pytest.mark.parametrize(("provoke", "expected"), ROWS, ids=[row.__name__ for row, _ in ROWS])
def test_a_real_refusal_has_its_reaction(site: Site, provoke: Row, expected: type[ErrorClass]) -> None:
    of, answer = provoke(site)
    assert not answer.is_accepted
    assert type(classify(of, answer)) is expected, answer.body
    ref = ObjectRef(group=of.group, kind=of.name, namespace=site.namespace, name="a")
    reported = error_texts.explain(answer.code, answer.status, ref=ref)
    assert len(reported) <= api_errors.LONGEST_MESSAGE
    assert "hunter2" not in reported


@pytest.mark.parametrize(
    ("provoke", "expected"),
    [
        pytest.param(refused_requests.unknown_field_by_apply, api_errors.InvalidManifest, id="an unknown field"),
        pytest.param(refused_requests.wrong_type_by_apply, api_errors.InvalidManifest, id="a wrong type"),
        pytest.param(refused_requests.duplicate_key, api_errors.InvalidManifest, id="a duplicate key"),
        pytest.param(refused_requests.bad_base64, api_errors.InvalidManifest, id="bad base 64"),
        pytest.param(
            refused_requests.several_mistakes, api_errors.InvalidManifest, id="a definition that is wrong itself"
        ),
        pytest.param(refused_requests.immutable_selector, api_errors.MaybeImmutable, id="an immutable field"),
        pytest.param(refused_requests.immutable_data, api_errors.MaybeImmutable, id="immutable data"),
    ],
)
def test_a_dry_run_create_tells_what_was_meant(site: Site, provoke: Row, expected: type[ErrorClass]) -> None:
    sent: list[Object] = []
    of, answer = provoke(Site(Eavesdropper(site.api, sent), site.namespace))
    refused = classify(of, answer)
    assert isinstance(refused, api_errors.NeedsDryRun | api_errors.MaybeImmutable)
    manifest = {**sent[-1], "metadata": {"namespace": site.namespace, **sent[-1]["metadata"]}}
    probe = site.api.create(manifest, kind=of, dryRun="All")
    assert probe.status is not None
    is_valid = probe.is_accepted or (probe.code, probe.status["reason"]) == (409, "AlreadyExists")
    verdict = DryRunVerdict.VALID if is_valid else api_errors.judge_definition(refused, classify(of, probe))
    assert type(api_errors.after_dry_run(refused, verdict)) is expected


class Eavesdropper(RawApi):
    """Records the applied manifests."""

    def __init__(self, api: RawApi, sent: list[Object]) -> None:
        self._pool, self._host = api._pool, api._host
        self._sent = sent

    def apply(self, manifest: Any, **how: Any) -> Answer:
        self._sent.append(manifest)
        return super().apply(manifest, **how)


@pytest.fixture
def policy(site: Site) -> Iterator[str]:
    """The message of a policy that denies all changes of ConfigMaps called `denied` in the test's namespace."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"]}
    selector = {"matchLabels": {"kubernetes.io/metadata.name": site.namespace}}
    made = [
        site.manifest(
            POLICY,
            site.namespace,
            spec={
                "matchConstraints": {"resourceRules": [rule], "namespaceSelector": selector},
                "validations": [{"expression": "object.metadata.name != 'denied'", "message": "we deny it"}],
            },
        ),
        site.manifest(
            POLICY_BINDING, site.namespace, spec={"policyName": site.namespace, "validationActions": ["Deny"]}
        ),
    ]
    for of, manifest in zip((POLICY, POLICY_BINDING), made, strict=True):
        site.put(of, manifest)
    yield "we deny it"
    for of, manifest in zip((POLICY, POLICY_BINDING), made, strict=True):
        site.api.send("DELETE", raw_api.path_of(manifest, kind=of))


def test_a_policy_denies(site: Site, policy: str) -> None:
    """The denial looks like an invalid value, but must never lead to a replacement."""
    manifest = site.manifest(refused_requests.CONFIG_MAP, "denied")
    # A policy takes effect a moment after its creation.
    answers = (site.api.apply(manifest, kind=refused_requests.CONFIG_MAP, dryRun="All") for _ in refused_requests.MANY)
    answer = next(answer for answer in answers if not answer.is_accepted)
    assert answer.code == 422
    reaction = classify(refused_requests.CONFIG_MAP, answer)
    assert isinstance(reaction, api_errors.Denied)
    assert policy in reaction.message
