"""Messages for users about an edit that ends a rollback.

An edit of a single parameter restores the whole definition in the spec, including the changes that the rollback undid.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from hearth.model.text import enumeration
from hearth.plan.target.target import EMPTY_REVISION, Target, TargetCause

IGNORED: Final = "spec.rollback"
"""The field that the warning begins with."""
ENDED: Final = "RollbackEnded"
"""Reason of the Event."""
NAMED_AT_MOST: Final = 20
"""Resources of one verb in a message."""
CAUSES: Final = frozenset({TargetCause.ROLLBACK.value, TargetCause.AUTOMATIC.value})


def describe_ignored(target: Target | None, *, name: str, namespace: str) -> Iterator[str]:
    """Describe a rollback request that has no effect, with the command that repeats it. name, namespace: of the Stack."""
    order = target.rollback if target is not None and target.cause is TargetCause.SPEC else None
    if target is None or order is None or target.revision == order.revision:
        return
    if not order.is_resolved:
        stated = f"toSnapshot: {order.snapshot}" if order.snapshot else f"toRevision: {order.to_revision}"
        yield (
            f"{IGNORED}.{stated} has no effect: it was rejected, and template or parameters were changed after it was "
            f"written; remove it"
        )
        return
    scope = f"{name} {{}} -n {namespace}".removesuffix(" -n ")
    stated, verb = f"toRevision: {order.to_revision}", f"rollback {scope.format(f'--to {order.revision}')}"
    if order.snapshot:
        stated, verb = f"toSnapshot: {order.snapshot}", f"restore {scope.format(order.snapshot)}"
    why = "template or parameters were changed after it was written, and the later change takes precedence"
    if order.is_ended:
        why = "a retry applied the definition in the spec again"
    yield f"{IGNORED}.{stated} has no effect: {why}; remove it, or roll back again: kubectl stack {verb}"


def describe_end(
    before: Target, target: Target, *, old: Collection[str], new: Collection[str], changed: Sequence[str]
) -> str:
    """Describe the changes that return when a rollback ends.

    before: the rollback; target: the definition in the spec; old, new: their resources; changed: resources in both that
    differ.
    """
    what = f"revision {before.revision}" if before.revision != EMPTY_REVISION else "nothing"
    parts = (
        ("changed", changed),
        ("added", [name for name in new if name not in old]),
        ("removed", [name for name in old if name not in new]),
    )
    found = "; ".join(
        f"{verb}: {enumeration.enumerate_names(names, most=NAMED_AT_MOST)}" for verb, names in parts if names
    )
    return (
        f"ended the rollback to {what}: the whole definition in the spec is restored as revision {target.revision}, "
        f"including all changes that the rollback had undone{f' ({found})' if found else ''}"
    )


def warn_of_end(status: Mapping[str, Any], *, name: str, namespace: str) -> str:
    """Return the warning for an edit of the definition while a rollback is the target, or "" if none is.

    status: of the Stack before the edit. Any client may have written it, so it only decides about this text.
    """
    target = status.get("target")
    if (
        not isinstance(target, dict)
        or not isinstance(target.get("revision"), int)
        or str(target.get("cause")) not in CAUSES
    ):
        return ""
    back, failed = target["revision"], status.get("lastFailedRevision")
    # The reverted revision is known to be the one in the spec only after a failure.
    is_failed = target["cause"] == TargetCause.AUTOMATIC and isinstance(failed, int)
    numbers = f" {back} {failed}" if is_failed and back not in (failed, EMPTY_REVISION) else ""
    return (
        f"spec: this edit ends the rollback to revision {back}; the whole definition in the spec is restored, including "
        f"all changes that the rollback undid: kubectl stack history {name}{numbers} -n {namespace}"
    )
