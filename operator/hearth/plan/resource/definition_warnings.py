"""Warnings about valid definitions that are probably unintended.

Examples are replacements that lose data, names that are too long, and work that runs repeatedly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import orjson

from hearth.model import containers, kinds, members, names, object_fields
from hearth.model.well_known_kinds import CUSTOM_RESOURCE_DEFINITION
from hearth.plan.resource import data_kinds
from hearth.plan.state import run_policy
from hearth.template.blueprint import Blueprint, Replacement, ResourceBlueprint
from hearth.template.compiler.manifest_template import ManifestTemplate

ABANDON: Final = "Abandon"
INSTANCES: Final = "an object of this kind"
"""Names the instances of a StackDefinition in a warning about their defaults."""
AT_MOST: Final = 20
"""Maximum warnings about one definition; a status lists no more."""
NAMED_AT_MOST: Final = 3
"""Maximum former resources that one warning names."""


def find_warnings(blueprint: Blueprint) -> tuple[str, ...]:
    """Return the warnings about a definition, one for all members of a collection."""
    found: dict[str, None] = {}
    for resource in blueprint.resources.values():
        if is_worth_a_look(resource):
            found.update(dict.fromkeys(_describe(resource)))
            if len(found) >= AT_MOST:
                break
    found.update(dict.fromkeys(find_containers_with_retained(blueprint)))
    found.update(dict.fromkeys(run_policy.find_warnings(blueprint.resources.values())))
    return tuple(found)[:AT_MOST]


def find_containers_with_retained(blueprint: Blueprint) -> Iterator[str]:
    """Find the Namespaces and CustomResourceDefinitions that are kept because a retained resource is in them, or of their kind."""
    if not blueprint.retained:
        return
    resources = blueprint.resources.values()
    kept = [each for each in resources if each.is_retained]
    for resource in resources if kept else ():
        kind = kinds.make_key(resource.api_version.rpartition("/")[0], resource.kind)
        if kind not in containers.KINDS or resource.is_retained:
            continue
        container = find_known(resource)
        inside = next((each for each in kept if is_inside(each, resource, container)), None)
        if inside is not None:
            yield (
                f"{resource.path}: is kept as long as {members.root_of(inside.name)} is, which has deletionPolicy: Retain "
                f"and would be deleted with this {resource.kind}; set deletionPolicy: Retain here as well if you want "
                f"that"
            )


def is_inside(resource: ResourceBlueprint, other: ResourceBlueprint, container: Mapping[str, Any]) -> bool:
    """Whether a resource's object is in a Namespace, or of a CustomResourceDefinition's kind, that the Stack contains.

    other: the resource of the container, with the known part of its manifest.
    """
    if other.kind == CUSTOM_RESOURCE_DEFINITION.name:
        group, kind = (object_fields.text(container, "spec", *path) for path in (("group",), ("names", "kind")))
        return (group, kind) == (resource.api_version.rpartition("/")[0], resource.kind)
    metadata = object_fields.mapping(find_known(resource), "metadata")
    if namespace := object_fields.text(metadata, "namespace"):
        return namespace == object_fields.text(container, "metadata", "name")
    # The namespace is the value of another resource, most likely this one.
    return "namespace" in metadata and other.name in resource.requires


def find_lost_guards(before: Mapping[str, Any], after: Mapping[str, Any], *, path: str, objects: str) -> Iterator[str]:
    """Find the options whose removal lets a later deletion delete more than before, or changes the writer of objects.

    before, after: the options; path: of them; objects: names what they apply to.
    """
    if before.get("deletionPolicy") == ABANDON and after.get("deletionPolicy") != ABANDON:
        yield f"{path}.deletionPolicy: was Abandon; the deletion of {objects} now deletes all objects in it; set it again to keep them"
    if before.get("protected") is True and after.get("protected") is not True:
        yield f"{path}.protected: was true; anyone with the right to delete {objects} can now do so; set it again to prevent that"
    if before.get("maxRemoved") is not None and after.get("maxRemoved") is None:
        yield f"{path}.maxRemoved: was {before['maxRemoved']}; a change can now remove all resources; set it again to limit that"
    account, successor = before.get("serviceAccountName"), after.get("serviceAccountName")
    if account and successor != account:
        rights = f"the rights of {successor}" if successor else "the rights of a Stack in its own namespace"
        yield f"{path}.serviceAccountName: was {account}; the objects of {objects} are now written with {rights}"


def find_renames(former: Mapping[str, str], blueprint: Blueprint, *, is_new: Callable[[str], bool]) -> tuple[str, ...]:
    """Return warnings about new resources that look like renamed ones, whose data would be left behind.

    former: kinds (`Kind.group`) of the earlier resources, by name; is_new: whether a resource has no object yet.
    """
    present = {members.root_of(name) for name in blueprint.resources}
    left = {
        members.root_of(name): kind
        for name, kind in former.items()
        if data_kinds.may_hold_data(kind) and members.root_of(name) not in present
    }
    found: dict[str, None] = {}
    for resource in blueprint.resources.values() if left else ():
        kind = kinds.make_key(resource.api_version.rpartition("/")[0], resource.kind)
        olds = [name for name, other in left.items() if other == kind]
        if not olds or resource.is_name_pinned or not is_new(resource.name):
            continue
        if kind != data_kinds.STATEFUL_SET or data_kinds.has_claims(find_known(resource)):
            old, new = ", ".join(olds[:NAMED_AT_MOST]), members.root_of(resource.name)
            found[f"{resource.path}: {data_kinds.describe_rename(kind, old=old, new=new)}"] = None
    return tuple(found)[:AT_MOST]


def list_kinds(template: Any) -> dict[str, str]:
    """Return the kinds (`Kind.group`) of the resources of an unparsed template, by name."""
    resources = template.get("resources") if isinstance(template, dict) else None
    found = {}
    for name, resource in resources.items() if isinstance(resources, dict) else ():
        manifest = resource.get("manifest") if isinstance(resource, dict) else None
        if isinstance(manifest, dict):
            group = str(manifest.get("apiVersion", "")).rpartition("/")[0]
            found[str(name)] = kinds.make_key(group, str(manifest.get("kind", "")))
    return found


def is_worth_a_look(resource: ResourceBlueprint) -> bool:
    """Return whether a warning is possible. This avoids reading the manifests of most resources."""
    return resource.replacement is not None or resource.replace_on != () or resource.is_name_pinned


def _describe(resource: ResourceBlueprint) -> Iterator[str]:
    kind = kinds.make_key(resource.api_version.rpartition("/")[0], resource.kind)
    manifest = find_known(resource)
    if text := describe_replacement(resource, kind, manifest):
        yield text
    if resource.is_name_pinned and (text := describe_name(resource, kind, manifest)):
        yield text


def find_known(resource: ResourceBlueprint) -> Mapping[str, Any]:
    """Return the manifest of a resource, with null where its values are not known yet."""
    manifest = resource.manifest
    known = orjson.loads(manifest.raw)[0] if isinstance(manifest, ManifestTemplate) else None
    return known if isinstance(known, dict) else {}


def describe_replacement(resource: ResourceBlueprint, kind: str, manifest: Mapping[str, Any]) -> str:
    """Describe how a replacement that a resource allows affects its data; "" for no effect. kind: `Kind.group`."""
    word, policy = "replace", resource.replacement
    if overlap := data_kinds.describe_overlap(policy, manifest):
        return (
            f"{resource.path}.updatePolicy.replace: CreateFirst may damage data: {overlap}; remove it, so that the old "
            f"Pods stop first"
        )
    if policy is None and resource.replace_on:
        word, policy = "replaceOn", Replacement.CREATE_FIRST
    if policy is None or resource.restored is not None:
        # The user requested the restore, and the replacement has the data.
        return ""
    loss = data_kinds.describe_loss(kind, policy, has_claims=data_kinds.has_claims(manifest))
    if not loss:
        return ""
    shown = f"replace: {policy.value}" if word == "replace" else "replaceOn"
    advice = "write KeepClaims, or " if kind == data_kinds.STATEFUL_SET else ""
    return (
        f"{resource.path}.updatePolicy.{word}: {shown} may lose the data of a {resource.kind}: {loss}; "
        f"{advice}remove it if you do not want that"
    )


def describe_name(resource: ResourceBlueprint, kind: str, manifest: Mapping[str, Any]) -> str:
    """Return a warning if the kind's controller derives names from this one that would be too long, otherwise ""."""
    metadata = manifest.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    longest = names.NAME_LENGTHS.get(kind)
    if longest is None or not isinstance(name, str) or len(name) <= longest:
        return ""
    return (
        f"{resource.path}.manifest.metadata.name: has {len(name)} characters, and names that are derived from a "
        f"{resource.kind}'s name may become too long above {longest}, so it gets no Pod; shorten it"
    )
