"""Requests that a real API server refuses, one function for each kind of refusal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.real import raw_api
from support.real.raw_api import Answer, RawApi
from support.units import sample_manifests
from support.units.sample_manifests import kind

CONFIG_MAP, SECRET, JOB = kind("", "v1", "ConfigMap"), kind("", "v1", "Secret"), kind("batch", "v1", "Job")
DEPLOYMENT, SERVICE = kind("apps", "v1", "Deployment"), kind("", "v1", "Service")
CLAIM, QUOTA = kind("", "v1", "PersistentVolumeClaim"), kind("", "v1", "ResourceQuota")
ROLE_BINDING = kind(sample_manifests.RBAC, "v1", "RoleBinding")
FOREIGN_UID = "11111111-1111-1111-1111-111111111111"
POD = {"containers": [{"name": "a", "image": "a"}]}
MANY = range(2000)
"""Maximum number of attempts until the server behaves as expected."""


@dataclass(frozen=True)
class Site:
    """A namespace for refused requests."""

    api: RawApi
    namespace: str

    def manifest(self, of: Kind, name: str = "a", **body: Any) -> Object:
        """A manifest; `metadata` is added to name and namespace."""
        metadata = {
            "name": name,
            **({"namespace": self.namespace} if of.namespaced else {}),
            **body.pop("metadata", {}),
        }
        return {"apiVersion": of.api_version, "kind": of.name, "metadata": metadata, **body}

    def deployment(self, app: str = "a", **spec: Any) -> Object:
        """A Deployment without replicas."""
        template = {"metadata": {"labels": {"app": app}}, "spec": POD}
        selector = {"matchLabels": {"app": app}}
        return self.manifest(DEPLOYMENT, spec={"replicas": 0, "selector": selector, "template": template, **spec})

    def put(self, of: Kind, manifest: Object) -> Object:
        """Apply a manifest that the server must accept."""
        answer = self.api.apply(manifest, kind=of)
        assert answer.is_accepted, answer.body
        body: Object = answer.body
        return body


Row: TypeAlias = Callable[[Site], tuple[Kind, Answer]]


def changed(of: Kind, before: Object, after: Object, site: Site) -> tuple[Kind, Answer]:
    """The response to a change of an accepted object."""
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
    # The quota takes effect after its controller has processed it.
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
