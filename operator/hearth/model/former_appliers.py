"""Takes over the fields of an adopted object from the programs that applied its manifest before.

Server-side apply removes a field only if no other field manager owns it. Without this module, the previous program
would own its fields forever. kubectl, Flux and Argo CD take over fields in the same way when they change from
client-side to server-side apply.

There are two kinds of former managers. An *applier* applied a whole manifest: all of its fields are taken over, so that
fields missing from the new manifest are removed. An *editor* is a person who changed single fields: only fields in the
manifest are taken over. Controllers and unknown managers keep their fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import orjson

from hearth.model import names

Object: TypeAlias = dict[str, Any]
Node: TypeAlias = Mapping[str, Any]
"""One level of `fieldsV1`."""

APPLIERS: Final[Mapping[str, str]] = {
    "kubectl-client-side-apply": "kubectl apply; kubectl itself takes over from it (client-go, util/csaupgrade)",
    "kubectl-last-applied": "kubectl apply --server-side, for the annotation of the client-side one",
    "helm": "Helm: the name of its program",
    "Helm": "programs with Helm's library that set its name",
    "helm-controller": "Flux: HelmRelease",
    "kustomize-controller": "Flux: Kustomization",
    "flux": "Flux: its command line",
    "argocd-controller": "Argo CD with server-side apply",
    "argocd-application-controller": "Argo CD with client-side apply: the name of its program",
    "fleetagent": "Rancher Fleet",
    "kapp": "kapp, kapp-controller",
    "kluctl": "kluctl",
    "kluctl-controller": "kluctl in a cluster",
    "kpt": "kpt live apply",
    "kro.run/applyset": "kro",
    "pulumi-kubernetes": "Pulumi with client-side apply",
    "tanka": "Grafana Tanka with server-side apply",
    "Terraform": "Terraform: kubernetes_manifest and others with the default of field_manager",
    "HashiCorp": "Terraform: other resources, by the name that its requests give",
    "werf": "werf, nelm",
}
"""Names of field managers that apply whole manifests, and the source of each name."""
APPLIER_PREFIXES: Final = ("pulumi-kubernetes-", "terraform-provider-", names.FIELD_MANAGER_PREFIX)
"""Prefixes of these names, before an installation or version; and the prefix for another Stack that released the
object.
"""
SERVER_SIDE_KUBECTL: Final = ("kubectl", "Apply")
EDITORS: Final = frozenset({"before-first-apply", "k9s", "headlamp", "lens", "OpenLens", "freelens"})
"""Field managers of people who change single fields; and the manager for all fields, from any writer, that an object
had before the API server began to record owners.
"""
EDITOR_PREFIX: Final = "kubectl"
"""kubectl names a manager after its command: `kubectl-edit`, `kubectl-create`, `kubectl-set`."""
LEFT: Final = (
    ("f:status",),
    ("f:spec", "f:replicas"),
    ("f:metadata", "f:finalizers"),
    ("f:metadata", "f:ownerReferences"),
)
"""Fields of an applier that are kept unless the manifest sets them: an autoscaler may rely on a count that it never had
to change, and a controller on a finalizer.
"""


def is_applier(entry: Mapping[str, Any]) -> bool:
    """Whether a `managedFields` entry belongs to a program that applies whole manifests."""
    manager = str(entry.get("manager", ""))
    is_named = manager in APPLIERS or manager.startswith(APPLIER_PREFIXES)
    return is_named or (manager, entry.get("operation")) == SERVER_SIDE_KUBECTL


def is_editor(entry: Mapping[str, Any]) -> bool:
    """Whether a `managedFields` entry belongs to a person who changes single fields."""
    manager = str(entry.get("manager", ""))
    return manager in EDITORS or manager.startswith(EDITOR_PREFIX)


def gives_way(entry: Mapping[str, Any], manager: str) -> bool:
    """Return whether `manager` may take over the entry, which must belong to the object itself and not to a
    subresource.
    """
    is_own = entry.get("manager") == manager
    return not is_own and not entry.get("subresource") and (is_applier(entry) or is_editor(entry))


def take_over(live: Object, manifest: Object, *, manager: str) -> list[Object] | None:
    """Return the `managedFields` that let an apply by `manager` replace the former appliers; None for the current ones.

    live: the adopted object, which does not belong to a Stack yet; manifest: the next manifest to apply.
    """
    entries = live["metadata"].get("managedFields") or ()
    taken: list[Object] = []
    kept: list[Object] = []
    for entry in entries:
        fields = entry.get("fieldsV1") or {}
        part = find_taken(entry, manifest) if gives_way(entry, manager) else {}
        if part:
            taken.append({**entry, "fieldsV1": part})
        rest = subtract(fields, part)
        if rest or not part:
            kept.append({**entry, "fieldsV1": rest})
    return [*kept_of_others(kept, manager), unite(kept, taken, live, manager=manager)] if taken else None


def hand_over(live: Object, *, manager: str) -> list[Object] | None:
    """Return the `managedFields` that let an apply by `manager` replace all fields of another Stack; None for the
    present ones.

    live: the object that another Stack of the operator hands over.
    """
    entries = live["metadata"].get("managedFields") or ()
    taken = [dict(entry) for entry in entries if is_of_stack(entry) and entry.get("manager") != manager]
    kept = [dict(entry) for entry in entries if entry not in taken]
    return [*kept_of_others(kept, manager), unite(kept, taken, live, manager=manager)] if taken else None


def is_of_stack(entry: Mapping[str, Any]) -> bool:
    """Return whether a Stack made the `managedFields` entry by an apply to the object itself."""
    is_apply = entry.get("operation") == "Apply" and not entry.get("subresource")
    return is_apply and str(entry.get("manager", "")).startswith(names.FIELD_MANAGER_PREFIX)


def find_taken(entry: Mapping[str, Any], manifest: Object) -> Object:
    """Return the part of an entry's fields that is taken over."""
    fields = entry.get("fieldsV1") or {}
    stated = select(fields, manifest)
    if not is_applier(entry):
        return stated
    whole = fields
    for path in LEFT:
        whole = without(whole, path)
    return merge(whole, stated)


def unite(kept: Sequence[Object], taken: Sequence[Object], live: Object, *, manager: str) -> Object:
    """Return the entry of `manager` with all fields that are taken over.

    Its version is the object's version if one of the entries has it, otherwise the version of the last entry. The API
    server converts removed fields to that version.
    """
    own = [entry for entry in kept if is_own_apply(entry, manager)]
    versions = [str(entry.get("apiVersion", "")) for entry in (*own, *taken)]
    version = live.get("apiVersion") if live.get("apiVersion") in versions else versions[-1]
    fields: Object = {}
    for entry in (*own, *taken):
        fields = merge(fields, entry["fieldsV1"])
    return make_entry({**taken[-1], "apiVersion": version}, fields_of_secret(fields), manager=manager)


def reduce_claims(live: Object, manifest: Object, *, manager: str) -> list[Object] | None:
    """Return the `managedFields` that reduce `manager` to the fields of the manifest, or None if it owns no others.

    Used after a refused removal: the fields then have no owner, and the next apply does not change them.
    """
    entries = live["metadata"].get("managedFields") or ()
    own = [entry for entry in entries if is_own_apply(entry, manager)]
    reduced = select(own[0].get("fieldsV1") or {}, manifest) if own else {}
    if not reduced or reduced == own[0].get("fieldsV1"):
        return None
    return [{**entry, "fieldsV1": reduced} if entry is own[0] else dict(entry) for entry in entries]


def give_up_claims(live: Object, manifest: Object, *, manager: str) -> list[Object] | None:
    """Return the `managedFields` that take the fields of `manager` from all former appliers; None for the current ones.

    Used when the definition of an earlier adopted object changes: fields that the definition removes then disappear
    from the object.
    """
    entries = live["metadata"].get("managedFields") or ()
    own = next((entry for entry in entries if is_own_apply(entry, manager)), None)
    if own is None:
        return None
    ours = own.get("fieldsV1") or {}
    found = [{**own, "fieldsV1": own_texts(ours, live, manifest)}]
    for entry in entries:
        fields = entry.get("fieldsV1") or {}
        rest = subtract(fields, ours) if gives_way(entry, manager) else fields
        if rest and entry is not own:
            found.append({**entry, "fieldsV1": rest})
    is_changed = len(found) < len(entries) or any(entry not in entries for entry in found)
    return found if is_changed else None


def own_texts(ours: Object, live: Object, manifest: Object) -> Object:
    """Return the fields of an apply of `stringData`, and the unowned `data` keys that the manifest lacks.

    The API server records no owner for `data` that it stores from `stringData`, so no apply could remove these keys.
    """
    if "f:stringData" not in ours or live.get("kind") != "Secret":
        return ours
    entries = [entry.get("fieldsV1") or {} for entry in live["metadata"]["managedFields"]]
    owned = {key for fields in entries for key in fields.get("f:data") or ()}
    owned |= {key for fields in entries if fields != ours for key in fields.get("f:stringData") or ()}
    stated = manifest.get("data") or {}
    left: Object = {f"f:{key}": {} for key in live.get("data") or () if key not in stated and f"f:{key}" not in owned}
    rest = {key: node for key, node in ours.items() if key != "f:stringData"}
    return merge(rest, {"f:data": left}) if left else ours


def fields_of_secret(fields: Object) -> Object:
    """Return the fields with `stringData` keys as `data` keys, where the API server stores their values."""
    texts = fields.get("f:stringData")
    if not texts:
        return fields
    return merge({key: node for key, node in fields.items() if key != "f:stringData"}, {"f:data": texts})


def is_own_apply(entry: Mapping[str, Any], manager: str) -> bool:
    """Return whether an apply by `manager` to the object itself made the entry."""
    return (entry.get("manager"), entry.get("operation")) == (manager, "Apply") and not entry.get("subresource")


def kept_of_others(entries: Iterable[Object], manager: str) -> list[Object]:
    """Return the entries of all managers except applies by `manager`."""
    return [entry for entry in entries if not is_own_apply(entry, manager)]


def make_entry(entry: Object, fields: Object, *, manager: str) -> Object:
    """Return an entry for `manager`, with the time and version of another one."""
    return {**entry, "manager": manager, "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": fields}


def is_shared(entries: Sequence[Mapping[str, Any]], own: Mapping[str, Any] | None) -> bool:
    """Return whether a former applier owns something that the entry `own` owns as well."""
    if own is None:
        return False
    manager, ours = str(own.get("manager", "")), own.get("fieldsV1") or {}
    return any(
        gives_way(entry, manager) and is_overlapping(entry.get("fieldsV1") or {}, ours)
        for entry in entries
        if entry is not own
    )


# ------------------------------------------------------------ sets of fields


def is_leaf(node: Node) -> bool:
    """Return whether nothing below this level has an owner of its own."""
    return not node or node.keys() == {"."}


def is_overlapping(one: Node, other: Node) -> bool:
    """Return whether two sets have a field in common that is not a map or list around others."""
    for key in one.keys() & other.keys() - {"."}:
        if is_leaf(one[key]) or is_leaf(other[key]) or is_overlapping(one[key], other[key]):
            return True
    return False


def select(fields: Node, value: Any) -> Object:
    """Return the fields that a manifest sets. value: the manifest at this level."""
    found: Object = {}
    for key, node in fields.items():
        inner = find_stated(key, value)
        if inner is None:
            continue
        if is_leaf(node):
            found[key] = dict(node)
        elif below := select(node, inner):
            found[key] = {**({".": {}} if "." in node else {}), **below}
    return found


def find_stated(key: str, value: Any) -> Any:
    """Return the manifest's value for an element of `fieldsV1`, or None if it has no value."""
    if key.startswith("f:"):
        return value.get(key[2:]) if isinstance(value, dict) else None
    if not isinstance(value, list) or key[:2] not in ("k:", "v:"):
        return None
    wanted = orjson.loads(key[2:])
    if key.startswith("v:"):
        return wanted if wanted in value else None
    # Keys with a default may be omitted in the manifest.
    named = (item for item in value if isinstance(item, dict) and not item.keys().isdisjoint(wanted))
    return next((item for item in named if all(item.get(name, part) == part for name, part in wanted.items())), None)


def merge(one: Node, other: Node) -> Object:
    """Return the union of two sets of fields."""
    found = dict(one)
    for key, node in other.items():
        known = found.get(key)
        if known is None:
            found[key] = dict(node)
        elif bool(known) != bool(node):
            # A level that has an owner and also fields below it.
            found[key] = {".": {}, **known, **node}
        else:
            found[key] = merge(known, node)
    return found


def subtract(fields: Node, gone: Node) -> Object:
    """Return the fields without others, and without levels that become empty."""
    found: Object = {}
    for key, node in fields.items():
        if key not in gone:
            found[key] = dict(node)
        elif (rest := subtract(node, gone[key])).keys() - {"."}:
            found[key] = rest
    return found


def without(fields: Node, path: tuple[str, ...]) -> Object:
    """Return the fields without those at and below `path`."""
    if path[0] not in fields:
        return dict(fields)
    rest = {key: node for key, node in fields.items() if key != path[0]}
    inner = without(fields[path[0]], path[1:]) if len(path) > 1 else {}
    return {**rest, path[0]: inner} if inner.keys() - {"."} else rest
