"""Decides whether the operator may adopt an existing object that has the name of a child."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from hearth.model import child, names, signatures, value_class
from hearth.model.kinds import ObjectRef
from hearth.model.signatures import Signatures
from hearth.model.text import finalizers

StackMayExist: TypeAlias = Callable[[str, str], bool]
"""Return whether a Stack with that UID exists, or may exist. The second argument is its namespace, "" if unknown."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionDenial:
    """Reason why the operator does not adopt an object."""

    reason: str
    """One CamelCase word."""
    message: str
    """Text that follows the name of the object."""
    is_final: bool
    """Whether only the user can resolve it."""
    is_of_stack: bool = False
    """Whether another Stack needs the object."""


EXCHANGED = (
    "; if that Stack has removed it and both Stacks wait for each other, request a cleanup "
    "of both, which deletes all objects that were removed: kubectl stack cleanup STACK"
)
"""The addition to a message about two Stacks that exchange objects."""


def find_adoption_denial(
    live: Mapping[str, Any], *, ref: ObjectRef, adopts: bool, may_exist: StackMayExist, our_signatures: Signatures
) -> AdoptionDenial | None:
    """Return why the live object at `ref` cannot be adopted, or None if it can.

    adopts: whether the adoption policy allows it; our_signatures: verifies our signatures.
    """
    stack = find_stack(live, ref, our_signatures)
    owner = describe_owner(live, is_proven=stack is not None)
    if stack is not None and may_exist(stack, find_stack_namespace(live)):
        message = (
            f"{owner}, which still needs it; it was not changed: give the resource another name, or "
            f"remove the object from that Stack with deletionPolicy: Retain{EXCHANGED}"
        )
        return AdoptionDenial(reason="NotOwned", message=message, is_final=True, is_of_stack=True)
    if "deletionTimestamp" in live["metadata"]:
        hold = finalizers.describe_hold(live["metadata"].get("finalizers") or ())
        message = f"is being deleted{f' ({hold})' if hold else ''}; it will be recreated after that object is deleted"
        return AdoptionDenial(reason="Terminating", message=message, is_final=False)
    if adopts:
        return None
    gone = ", which no longer exists" if stack is not None else ""
    message = (
        f"{owner}{gone}; it was not changed: "
        f"adopt it with adoptionPolicy: Adopt, give the resource another name, or delete the object"
    )
    return AdoptionDenial(reason="NotOwned", message=message, is_final=True)


def is_child_of(live: Mapping[str, Any], ref: ObjectRef, *, stack_uid: str, our_signatures: Signatures) -> bool:
    """Return whether our signature proves that this object is a child of that Stack, regardless of other metadata."""
    text = str((live["metadata"].get("annotations") or {}).get(names.ANNOTATION_SIGNATURE, ""))
    identity = names.identity(
        stack_uid=stack_uid, group=ref.group, kind=ref.kind, namespace=ref.namespace, name=ref.name
    )
    return signatures.read(identity, text, signatures=our_signatures) is not None


def find_proven_stack(live: Mapping[str, Any], ref: ObjectRef, our_signatures: Signatures) -> str:
    """Return the UID of the Stack that a signature proves to be the owner of this object; "" for none."""
    uid = names.owner_of(str((live["metadata"].get("annotations") or {}).get(names.ANNOTATION_IDENTITY, "")))
    return uid if uid and is_child_of(live, ref, stack_uid=uid, our_signatures=our_signatures) else ""


def find_stack(live: Mapping[str, Any], ref: ObjectRef, our_signatures: Signatures) -> str | None:
    """Return the UID of the Stack whose child this object is, even if that Stack is deleted.

    Copied annotations do not make an object a child. Without a signature, for example on an old object, a label that
    our apply owns is enough: it protects the object from other Stacks, and grants no access.
    """
    metadata = live["metadata"]
    labelled = str((metadata.get("labels") or {}).get(names.LABEL_STACK_UID, ""))
    named = names.owner_of(str((metadata.get("annotations") or {}).get(names.ANNOTATION_IDENTITY, "")))
    for uid in dict.fromkeys((named, labelled)):
        if uid and is_child_of(live, ref, stack_uid=uid, our_signatures=our_signatures):
            return uid
    return labelled if labelled and child.is_labelled(metadata) else None


# The owner of an object according to its metadata. Used in messages only, because the metadata is untrusted.

LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_HELM_RELEASE = "meta.helm.sh/release-name"
UNMANAGED = "is not managed by any Stack"


def describe_owner(raw: Mapping[str, Any], *, is_proven: bool) -> str:
    """Describe the most likely owner of the object, as text that follows its name: `belongs to the Stack prod/shop`.

    is_proven: whether the object proves that it is the child of a Stack.
    """
    metadata = raw["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    stack = _find_stack(metadata)
    if stack and names.ANNOTATION_IDENTITY in annotations:
        if is_proven:
            return f"belongs to the Stack {stack}"
        return f"was applied by the Stack {stack}, but its labels and annotations hearth.dev/… were changed since"
    for owner in metadata.get("ownerReferences") or ():
        return f"belongs to {str(owner.get('kind', '')).lower()}/{owner.get('name', '')}"
    if LABEL_HELM_RELEASE in annotations:
        return f"belongs to the Helm release {annotations[LABEL_HELM_RELEASE]}"
    if LABEL_MANAGED_BY in labels:
        return f"belongs to {labels[LABEL_MANAGED_BY]!r} (its label {LABEL_MANAGED_BY})"
    if stack:
        return f"{UNMANAGED} (released by the Stack {stack})"
    managers = _managers(metadata)
    return f"{UNMANAGED} (written by {managers[0]!r})" if managers else UNMANAGED


def find_stack_namespace(raw: Mapping[str, Any]) -> str:
    """Return the namespace of the Stack that applied the object, "" if none did."""
    return _find_stack(raw["metadata"]).partition("/")[0]


def _find_stack(metadata: Mapping[str, Any]) -> str:
    """Return `namespace/name` of the Stack that applied the object, "" if none did.

    If there are several, prefer the one that the object's label names, then the first.
    """
    found = [
        manager.removeprefix(names.FIELD_MANAGER_PREFIX)
        for manager in _managers(metadata)
        if manager.startswith(names.FIELD_MANAGER_PREFIX)
    ]
    label = (metadata.get("labels") or {}).get(names.LABEL_STACK)
    labelled = (stack for stack in found if names.stack_label(stack.rpartition("/")[2]) == label)
    return next(labelled, found[0] if found else "")


def _managers(metadata: Mapping[str, Any]) -> list[str]:
    """Return the field managers in the order of the object, each once."""
    return list(dict.fromkeys(str(entry.get("manager", "")) for entry in metadata.get("managedFields") or ()))
