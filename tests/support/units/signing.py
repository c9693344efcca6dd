"""Signatures on test objects: real ones, and dummy ones for `Trusting`."""

from __future__ import annotations

from hearth.model import names, signatures
from hearth.model.child import Object, parse_incarnation
from hearth.model.kinds import Kind
from hearth.model.signatures import Signer
from support.checks import members


class Trusting:
    """Accepts every signature."""

    def is_signed(self, purpose: str, value: object, signature: str) -> bool:
        return True


class Writing:
    """Writes a dummy signature that only `Trusting` accepts."""

    def sign(self, purpose: str, value: object) -> str:
        """The same for anything."""
        return "signed"


def sign(raw: Object, *, kind: Kind | None = None, signer: Signer | None = None) -> Object:
    """The same object, signed for its labels and annotations; without a signer, valid only for `Trusting`."""
    metadata = raw["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    identity = names.identity(
        stack_uid=labels.get(names.LABEL_STACK_UID, ""),
        group=kind.group if kind is not None else "",
        kind=kind.name if kind is not None else "",
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
    )
    signature = signatures.write(
        identity,
        resource=members.resource_of(raw),
        incarnation=parse_incarnation(annotations.get(names.ANNOTATION_INCARNATION, "")),
        requires=annotations.get(names.ANNOTATION_REQUIRES, ""),
        signer=signer if signer is not None else Writing(),
    )
    return {
        **raw,
        "metadata": {**metadata, "annotations": {names.ANNOTATION_SIGNATURE: signature, **annotations}},
    }
