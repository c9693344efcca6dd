"""Refusals provoked on a real API server, and the reactions that they get."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from hearth.model.child import Object
from hearth.model.kinds import Kind, ObjectRef
from hearth.plan.retry import api_errors, error_message
from hearth.plan.retry.api_errors import (
    ApplyConflict,
    Denied,
    ErrorClass,
    InvalidManifest,
    KindNotServed,
    MaybeImmutable,
    NamespaceNotFound,
    NamespaceTerminating,
    NeedsAccessReview,
    NeedsDryRun,
    ObjectNotFound,
    StaleRead,
)
from support.real import raw_api
from support.real.raw_api import Answer, RawApi
from support.units import sample_manifests
from support.units.sample_manifests import kind

CONFIG_MAP, SECRET, JOB = kind("", "v1", "ConfigMap"), kind("", "v1", "Secret"), kind("batch", "v1", "Job")
DEPLOYMENT, SERVICE = kind("apps", "v1", "Deployment"), kind("", "v1", "Service")
CLAIM, QUOTA = kind("", "v1", "PersistentVolumeClaim"), kind("", "v1", "ResourceQuota")
ROLE_BINDING = kind(sample_manifests.RBAC, "v1", "RoleBinding")
NAMESPACE = kind("", "v1", "Namespace", namespaced=False)
POLICY = Kind(
    group="admissionregistration.k8s.io",
    version="v1",
    name="ValidatingAdmissionPolicy",
    plural="validatingadmissionpolicies",
    namespaced=False,
)
POLICY_BINDING = kind(POLICY.group, "v1", "ValidatingAdmissionPolicyBinding", namespaced=False)
FOREIGN_UID = "11111111-1111-1111-1111-111111111111"
POD = {"containers": [{"name": "a", "image": "a"}]}
MANY = range(2000)
"""Looks before a test gives up on something that takes the server a moment."""


@dataclass(frozen=True)
class Site:
    """A namespace to be refused in."""

    api: RawApi
    namespace: str

    def manifest(self, of: Kind, name: str = "a", **body: Any) -> Object:
        """A manifest; what is given as `metadata` is added to name and namespace."""
        metadata = {
            "name": name,
            **({"namespace": self.namespace} if of.namespaced else {}),
            **body.pop("metadata", {}),
        }
        return {"apiVersion": of.api_version, "kind": of.name, "metadata": metadata, **body}

    def deployment(self, app: str = "a", **spec: Any) -> Object:
        """A Deployment of nothing."""
        template = {"metadata": {"labels": {"app": app}}, "spec": POD}
        selector = {"matchLabels": {"app": app}}
        return self.manifest(DEPLOYMENT, spec={"replicas": 0, "selector": selector, "template": template, **spec})

    def put(self, of: Kind, manifest: Object) -> Object:
        """Apply what must be accepted."""
        answer = self.api.apply(manifest, kind=of)
        assert answer.is_accepted, answer.body
        body: Object = answer.body
        return body


Row: TypeAlias = Callable[[Site], tuple[Kind, Answer]]


def changed(of: Kind, before: Object, after: Object, site: Site) -> tuple[Kind, Answer]:
    """The answer to a change of an accepted object."""
    site.put(of, before)
    return of, site.api.apply(after, kind=of)


def immutable_selector(site: Site) -> tuple[Kind, Answer]:
    return changed(DEPLOYMENT, site.deployment("a"), site.deployment("b"), site)


def immutable_cluster_ip(site: Site) -> tuple[Kind, Answer]:
    ports = {"ports": [{"port": 80}]}
    before = site.manifest(SERVICE, spec=ports)
    return changed(SERVICE, before, site.manifest(SERVICE, spec={**ports, "clusterIP": "None"}), site)


def immutable_job_template(site: Site) -> tuple[Kind, Answer]:
    template = {"spec": {**POD, "restartPolicy": "Never"}}
    other = {"spec": {**POD, "restartPolicy": "OnFailure"}}
    before, after = ({"suspend": True, "template": each} for each in (template, other))
    return changed(JOB, site.manifest(JOB, spec=before), site.manifest(JOB, spec=after), site)


def immutable_claim(site: Site) -> tuple[Kind, Answer]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "none"}
    return changed(
        CLAIM, site.manifest(CLAIM, spec=spec), site.manifest(CLAIM, spec={**spec, "storageClassName": "b"}), site
    )


def immutable_data(site: Site) -> tuple[Kind, Answer]:
    before = site.manifest(CONFIG_MAP, immutable=True, data={"a": "1"})
    return changed(CONFIG_MAP, before, {**before, "data": {"a": "2"}}, site)


def immutable_role(site: Site) -> tuple[Kind, Answer]:
    before = site.manifest(ROLE_BINDING, roleRef={"apiGroup": sample_manifests.RBAC, "kind": "Role", "name": "a"})
    return changed(ROLE_BINDING, before, {**before, "roleRef": {**before["roleRef"], "name": "b"}}, site)


def several_mistakes(site: Site) -> tuple[Kind, Answer]:
    return DEPLOYMENT, site.api.apply(site.deployment(replicas=-1, minReadySeconds=-1), kind=DEPLOYMENT)


def unknown_field_by_apply(site: Site) -> tuple[Kind, Answer]:
    return DEPLOYMENT, site.api.apply(site.deployment(bogus=1), kind=DEPLOYMENT)


def unknown_field_by_create(site: Site) -> tuple[Kind, Answer]:
    return DEPLOYMENT, site.api.create(site.deployment(bogus=1), kind=DEPLOYMENT, dryRun="All")


def wrong_type_by_apply(site: Site) -> tuple[Kind, Answer]:
    return DEPLOYMENT, site.api.apply(site.deployment(replicas="three"), kind=DEPLOYMENT)


def wrong_type_by_create(site: Site) -> tuple[Kind, Answer]:
    return DEPLOYMENT, site.api.create(site.deployment(replicas="three"), kind=DEPLOYMENT, dryRun="All")


def duplicate_key(site: Site) -> tuple[Kind, Answer]:
    manifest = site.manifest(SERVICE, spec={"ports": [{"port": 80}, {"port": 80}]})
    return SERVICE, site.api.apply(manifest, kind=SERVICE)


def bad_base64(site: Site) -> tuple[Kind, Answer]:
    return SECRET, site.api.apply(site.manifest(SECRET, data={"a": "hunter2!"}), kind=SECRET)


def name_of_another(site: Site) -> tuple[Kind, Answer]:
    path = raw_api.path_of(site.manifest(CONFIG_MAP, "b"), kind=CONFIG_MAP)
    body = site.manifest(CONFIG_MAP, "a")
    return CONFIG_MAP, site.api.send("PATCH", path, body=body, content_type=raw_api.APPLY, fieldManager="hearth:a/b")


def missing_namespace(site: Site) -> tuple[Kind, Answer]:
    manifest = site.manifest(CONFIG_MAP, metadata={"namespace": "there-is-none"})
    return CONFIG_MAP, site.api.apply(manifest, kind=CONFIG_MAP)


def unknown_group(site: Site) -> tuple[Kind, Answer]:
    of = kind("ghost.example.com", "v1", "Widget")
    return of, site.api.apply(site.manifest(of), kind=of)


def unknown_built_in(site: Site) -> tuple[Kind, Answer]:
    of = kind("apps", "v1", "Widget")
    return of, site.api.apply(site.manifest(of), kind=of)


def missing_object(site: Site) -> tuple[Kind, Answer]:
    return CONFIG_MAP, site.api.get(site.manifest(CONFIG_MAP, "absent"), kind=CONFIG_MAP)


def full_quota(site: Site) -> tuple[Kind, Answer]:
    quota = site.put(QUOTA, site.manifest(QUOTA, spec={"hard": {"count/secrets": "0"}}))
    # The quota counts once its controller has looked at it.
    assert any("hard" in site.api.get(quota, kind=QUOTA).body.get("status", {}) for _ in MANY)
    return SECRET, site.api.apply(site.manifest(SECRET), kind=SECRET)


def missing_rights(site: Site) -> tuple[Kind, Answer]:
    user = f"system:serviceaccount:{site.namespace}:ghost"
    return CONFIG_MAP, site.api.apply(site.manifest(CONFIG_MAP), kind=CONFIG_MAP, user=user)


def stale_version(site: Site) -> tuple[Kind, Answer]:
    site.put(CONFIG_MAP, site.manifest(CONFIG_MAP))
    manifest = site.manifest(CONFIG_MAP, metadata={"resourceVersion": "1"})
    return CONFIG_MAP, site.api.apply(manifest, kind=CONFIG_MAP)


def existing_name(site: Site) -> tuple[Kind, Answer]:
    site.put(CONFIG_MAP, site.manifest(CONFIG_MAP))
    return CONFIG_MAP, site.api.create(site.manifest(CONFIG_MAP), kind=CONFIG_MAP)


def another_incarnation(site: Site) -> tuple[Kind, Answer]:
    site.put(CONFIG_MAP, site.manifest(CONFIG_MAP))
    manifest = site.manifest(CONFIG_MAP, metadata={"uid": FOREIGN_UID})
    return CONFIG_MAP, site.api.apply(manifest, kind=CONFIG_MAP)


def vanished_incarnation(site: Site) -> tuple[Kind, Answer]:
    manifest = site.manifest(CONFIG_MAP, metadata={"uid": FOREIGN_UID})
    return CONFIG_MAP, site.api.apply(manifest, kind=CONFIG_MAP)


def delete_another_incarnation(site: Site) -> tuple[Kind, Answer]:
    path = raw_api.path_of(site.put(CONFIG_MAP, site.manifest(CONFIG_MAP)), kind=CONFIG_MAP)
    return CONFIG_MAP, site.api.send("DELETE", path, body={"preconditions": {"uid": FOREIGN_UID}})


def finalizer_while_terminating(site: Site) -> tuple[Kind, Answer]:
    manifest = site.put(CONFIG_MAP, site.manifest(CONFIG_MAP, metadata={"finalizers": ["example.com/a"]}))
    path = raw_api.path_of(manifest, kind=CONFIG_MAP)
    site.api.send("DELETE", path)
    more = site.manifest(CONFIG_MAP, metadata={"finalizers": ["example.com/a", "example.com/b"]})
    answer = site.api.apply(more, kind=CONFIG_MAP)
    site.api.send("PATCH", path, body={"metadata": {"finalizers": None}}, content_type=raw_api.MERGE)
    return CONFIG_MAP, answer


def field_of_another(site: Site) -> tuple[Kind, Answer]:
    site.put(CONFIG_MAP, site.manifest(CONFIG_MAP, data={"a": "1"}))
    manifest = site.manifest(CONFIG_MAP, data={"a": "2"})
    return CONFIG_MAP, site.api.apply(manifest, kind=CONFIG_MAP, manager="another", force=False)


def too_large(site: Site) -> tuple[Kind, Answer]:
    return CONFIG_MAP, site.api.apply(site.manifest(CONFIG_MAP, data={"a": "x" * 1_100_000}), kind=CONFIG_MAP)


def too_large_to_store(site: Site) -> tuple[Kind, Answer]:
    manifest = site.manifest(sample_manifests.CUSTOM, spec={"free": {"a": "x" * 1_650_000}})
    return sample_manifests.CUSTOM, site.api.apply(manifest, kind=sample_manifests.CUSTOM)


def too_large_to_read(site: Site) -> tuple[Kind, Answer]:
    return CONFIG_MAP, site.api.apply(site.manifest(CONFIG_MAP, data={"a": "x" * 3_300_000}), kind=CONFIG_MAP)


def invalid_name(site: Site) -> tuple[Kind, Answer]:
    return CONFIG_MAP, site.api.apply(site.manifest(CONFIG_MAP, "Not_A_Name"), kind=CONFIG_MAP)


def long_label(site: Site) -> tuple[Kind, Answer]:
    return CONFIG_MAP, site.api.apply(site.manifest(CONFIG_MAP, metadata={"labels": {"a": "x" * 64}}), kind=CONFIG_MAP)


def emptied_map(site: Site) -> tuple[Kind, Answer]:
    of = sample_manifests.CUSTOM
    return changed(of, site.manifest(of, spec={"size": 1}), site.manifest(of, spec={}), site)


def terminating_namespace(site: Site) -> tuple[Kind, Answer]:
    holder = site.put(CONFIG_MAP, site.manifest(CONFIG_MAP, metadata={"finalizers": ["example.com/a"]}))
    site.api.send("DELETE", f"/api/v1/namespaces/{site.namespace}")
    answer = site.api.apply(site.manifest(CONFIG_MAP, "late"), kind=CONFIG_MAP)
    path = raw_api.path_of(holder, kind=CONFIG_MAP)
    site.api.send("PATCH", path, body={"metadata": {"finalizers": None}}, content_type=raw_api.MERGE)
    return CONFIG_MAP, answer


ROWS: list[tuple[Row, type[ErrorClass]]] = [
    (immutable_selector, MaybeImmutable),
    (immutable_cluster_ip, MaybeImmutable),
    (immutable_job_template, MaybeImmutable),
    (immutable_claim, MaybeImmutable),
    (immutable_data, MaybeImmutable),
    (immutable_role, MaybeImmutable),
    (several_mistakes, MaybeImmutable),
    (emptied_map, MaybeImmutable),
    (unknown_field_by_apply, NeedsDryRun),
    (unknown_field_by_create, InvalidManifest),
    (wrong_type_by_apply, NeedsDryRun),
    (wrong_type_by_create, InvalidManifest),
    (duplicate_key, NeedsDryRun),
    (bad_base64, NeedsDryRun),
    (name_of_another, InvalidManifest),
    (too_large, InvalidManifest),
    (too_large_to_store, InvalidManifest),
    (too_large_to_read, InvalidManifest),
    (invalid_name, InvalidManifest),
    (long_label, InvalidManifest),
    (missing_namespace, NamespaceNotFound),
    (terminating_namespace, NamespaceTerminating),
    (unknown_group, KindNotServed),
    (unknown_built_in, KindNotServed),
    (missing_object, ObjectNotFound),
    (full_quota, NeedsAccessReview),
    (missing_rights, NeedsAccessReview),
    (stale_version, StaleRead),
    (existing_name, StaleRead),
    (another_incarnation, StaleRead),
    (vanished_incarnation, StaleRead),
    (delete_another_incarnation, StaleRead),
    (finalizer_while_terminating, StaleRead),
    (field_of_another, ApplyConflict),
]


@pytest.fixture
def site(api: RawApi, namespace: str) -> Site:
    """A fresh namespace."""
    return Site(api, namespace)


def classify(of: Kind, answer: Answer) -> ErrorClass:
    """The reaction to an answer."""
    return api_errors.classify(answer.code, answer.status, kind=of, body_size=answer.sent)


@pytest.mark.parametrize(("provoke", "expected"), ROWS, ids=[row.__name__ for row, _ in ROWS])
def test_a_real_refusal_has_its_reaction(site: Site, provoke: Row, expected: type[ErrorClass]) -> None:
    """And its words fit into a condition."""
    of, answer = provoke(site)
    assert not answer.is_accepted
    assert type(classify(of, answer)) is expected, answer.body
    ref = ObjectRef(group=of.group, kind=of.name, namespace=site.namespace, name="a")
    reported = error_message.explain(answer.code, answer.status, ref=ref)
    assert len(reported) <= error_message.LONGEST_MESSAGE
    assert "hunter2" not in reported


@pytest.mark.parametrize(
    ("provoke", "expected"),
    [
        pytest.param(unknown_field_by_apply, InvalidManifest, id="an unknown field"),
        pytest.param(wrong_type_by_apply, InvalidManifest, id="a wrong type"),
        pytest.param(duplicate_key, InvalidManifest, id="a duplicate key"),
        pytest.param(bad_base64, InvalidManifest, id="bad base 64"),
        pytest.param(several_mistakes, InvalidManifest, id="a definition that is wrong itself"),
        pytest.param(immutable_selector, MaybeImmutable, id="an immutable field"),
        pytest.param(immutable_data, MaybeImmutable, id="immutable data"),
    ],
)
def test_a_dry_run_create_tells_what_was_meant(site: Site, provoke: Row, expected: type[ErrorClass]) -> None:
    """The same manifest under a generated name."""
    sent: list[Object] = []
    of, answer = provoke(Site(Eavesdropper(site.api, sent), site.namespace))
    refused = classify(of, answer)
    assert isinstance(refused, NeedsDryRun | MaybeImmutable)
    metadata = {"namespace": site.namespace, "generateName": "a-"}
    probe = site.api.create({**sent[-1], "metadata": metadata}, kind=of, dryRun="All")
    verdict = None if probe.is_accepted else classify(of, probe)
    assert type(api_errors.after_dry_run(refused, verdict)) is expected


class Eavesdropper(RawApi):
    """Remembers what was applied."""

    def __init__(self, api: RawApi, sent: list[Object]) -> None:
        self._pool, self._host = api._pool, api._host
        self._sent = sent

    def apply(self, manifest: Any, **how: Any) -> Answer:
        """As ever."""
        self._sent.append(manifest)
        return super().apply(manifest, **how)


@pytest.fixture
def policy(site: Site) -> Iterator[str]:
    """The message with which a policy denies all changes of ConfigMaps called `denied` in the test's namespace."""
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
    """It looks like an invalid value, and must never lead to a replacement."""
    manifest = site.manifest(CONFIG_MAP, "denied")
    # A policy takes effect a moment after it was made.
    answers = (site.api.apply(manifest, kind=CONFIG_MAP, dryRun="All") for _ in MANY)
    answer = next(answer for answer in answers if not answer.is_accepted)
    assert answer.code == 422
    reaction = classify(CONFIG_MAP, answer)
    assert isinstance(reaction, Denied)
    assert policy in reaction.message
