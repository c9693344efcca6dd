"""Deletes a StatefulSet without its Pods and claims, after enlarging the claims to the size of their new templates.

Everything is first tried by dry run. If a claim cannot be enlarged, or the API server rejects the new definition, the
StatefulSet stays unchanged. After a crash, the same step continues and skips claims that are already large enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hearth.engine import stateful_set_claims
from hearth.engine.ports import WorkloadCluster
from hearth.engine.stateful_set_claims import Misses, TooManyMissing
from hearth.engine.writes import apply_preparation
from hearth.model import limits, value_class
from hearth.model.errors import ApiStatusError
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.tenancy import Boundary
from hearth.model.text import enumeration, redaction
from hearth.model.well_known_kinds import VOLUME_CLAIM
from hearth.plan.resource import set_replacement
from hearth.plan.resource.set_replacement import ClaimSize
from hearth.plan.retry import api_errors
from hearth.plan.retry.backoff import StepFailure
from hearth.plan.retry.retry_triggers import RetryTrigger, TriggerType
from hearth.plan.state.steps import Detach
from hearth.plan.target import volume_restore

REFUSED: Final = (400, 403, 422)
"""Response codes that reject the change itself."""
REASON: Final = "ClaimsNotEnlarged"
FORBIDDEN: Final = "Forbidden"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Enlargement:
    """A claim and its new size."""

    claim: Mapping[str, Any]
    size: ClaimSize

    @property
    def ref(self) -> ObjectRef:
        """Return the reference of the claim."""
        metadata = self.claim["metadata"]
        return ObjectRef(group="", kind=VOLUME_CLAIM.name, namespace=metadata["namespace"], name=metadata["name"])

    @property
    def patch(self) -> dict[str, Any]:
        """Return the change of the claim."""
        return set_replacement.make_resize(self.claim, self.size.wanted)


@value_class.dataclass(frozen=True, slots=True)
class Detachment:
    """The deletion of one StatefulSet without its Pods and claims."""

    step: Detach
    cluster: WorkloadCluster
    """The cluster as the account of the Stack accesses it."""
    boundary: Boundary

    async def detach(self) -> StepFailure | str:
        """Enlarge the claims and delete the StatefulSet; return the changes, or why nothing was deleted.

        Raises ApiStatusError and Unreachable.
        """
        async with apply_preparation.time_limit():
            done = await self._prepare_within_rights()
            if isinstance(done, str):
                await self.cluster.delete(self.step.child, keeps_dependents=True)
            return done

    async def _prepare_within_rights(self) -> StepFailure | str:
        """Call `_prepare`, and explain a missing right to read the objects of its dry runs."""
        try:
            return await self._prepare()
        except ApiStatusError as error:
            if not error.is_forbidden:
                raise
            is_claim = api_errors.read_details(error.status or {}).get("kind") == VOLUME_CLAIM.plural
            kind = VOLUME_CLAIM if is_claim else self.step.child.kind
            return self._forbid(self._describe(error), kind=kind)

    def _forbid(self, said: str, *, kind: Kind) -> StepFailure:
        """Return the failure of a step that lacks a right, with the commands that grant it to the account of the Stack."""
        namespace = self.step.child.namespace
        grant = f"; to allow it, run: {self.boundary.explain_grant(kind, namespace)}" if self.boundary.account else ""
        rights = RetryTrigger(type=TriggerType.RIGHTS, namespace=namespace)
        return self._fail(f"{said}{grant}", reason=FORBIDDEN, causes=(rights,), is_final=False)

    async def _prepare(self) -> StepFailure | str:
        """Enlarge the claims, after all of it was tried."""
        live = await stateful_set_claims.find_live(self.cluster, self.step.child.ref, kind=self.step.child.kind)
        if live is None or live["metadata"]["uid"] != self.step.child.uid:
            # Another client deleted the StatefulSet in the meantime. The deletion step handles that.
            return ""
        if objection := self._find_objection(live):
            return self._fail(objection)
        try:
            await self.cluster.create_dry_run(self.step.manifest, kind=self.step.child.kind)
        except ApiStatusError as error:
            if error.code not in REFUSED:
                raise
            return self._fail(f"the new definition is not accepted: {self._describe(error)}")
        try:
            found = await self._find_smaller(live)
        except TooManyMissing as error:
            return self._fail(str(error))
        return await self._enlarge(live, found)

    async def _find_smaller(self, live: Mapping[str, Any]) -> list[Enlargement]:
        """Return the claims that are smaller than the new templates want. Raises TooManyMissing."""
        misses = Misses()
        return [
            Enlargement(claim=claim, size=size)
            for size in set_replacement.find_sizes(live, self.step.manifest)
            async for claim in stateful_set_claims.list_live(
                self.cluster, live, size.template, kind=VOLUME_CLAIM, misses=misses
            )
            if set_replacement.is_below(claim, size.wanted)
        ]

    def _find_objection(self, live: Mapping[str, Any]) -> str:
        """Return why the StatefulSet cannot be replaced under its name, even if all its claims can be enlarged, or "" if it can."""
        if set_replacement.is_selector_changed(live, self.step.manifest):
            return (
                "spec.selector changes, so its Pods would be left without a controller, and their names conflict "
                "with the new Pods; revert the selector, or set updatePolicy.replace: DeleteFirst, which stops the "
                "Pods first"
            )
        smaller = [each for each in set_replacement.find_sizes(live, self.step.manifest) if each.is_smaller]
        if smaller and not self.step.keeps_larger:
            size = smaller[0]
            return (
                f"spec.volumeClaimTemplates[{size.template}] would get smaller ({size.present} → {size.wanted}), but "
                f"claims cannot shrink; request at least {size.present}"
            )
        replicas = (live.get("spec") or {}).get("replicas") or 0
        if replicas > limits.CLAIMS_BEYOND_REPLICAS:
            return f"it has {replicas} replicas, and at most {limits.CLAIMS_BEYOND_REPLICAS} are supported"
        return ""

    async def _enlarge(self, live: Mapping[str, Any], found: Sequence[Enlargement]) -> StepFailure | str:
        """Try all enlargements, then write them; return the changes, or the obstacle."""
        for each in found:
            # A tenant can choose names and templates, so they do not prove that a claim belongs to the StatefulSet.
            foreign = volume_restore.explain_foreign_claim(each.claim, live) or self.boundary.find_denial(each.ref)
            if foreign:
                return self._fail(
                    f"{each.ref} {foreign}, so it is not enlarged to {each.size.wanted}; enlarge it yourself"
                )
        for is_written in (False, True):
            for number, each in enumerate(found):
                try:
                    await (self.cluster.change_object if is_written else self.cluster.change_dry_run)(
                        each.ref, each.patch, kind=VOLUME_CLAIM
                    )
                except ApiStatusError as error:
                    if error.code not in REFUSED:
                        raise
                    done = f"{number} of {len(found)} claims are enlarged; " if is_written and number else ""
                    return await self._explain(each, error, done=done)
        kept = "its Pods and claims stay"
        if any(each.is_smaller for each in set_replacement.find_sizes(live, self.step.manifest)):
            kept += "; claims that are larger than the definition specifies keep their size"
        if not found:
            return kept
        named = enumeration.enumerate_names([f"{each.ref} to {each.size.wanted}" for each in found])
        return f"{kept}; larger claims: {named}"

    async def _explain(self, enlargement: Enlargement, error: ApiStatusError, *, done: str) -> StepFailure:
        """Explain why a claim cannot be enlarged: a missing right, or the API server's message."""
        ref = enlargement.ref
        said = f"{done}{ref} cannot be enlarged to {enlargement.size.wanted}: {self._describe(error)}"
        is_right = error.is_forbidden and not api_errors.read_causes(error.status or {})
        if is_right and not await self.cluster.is_allowed(
            "patch", kind=VOLUME_CLAIM, namespace=ref.namespace, name=ref.name
        ):
            return self._forbid(said, kind=VOLUME_CLAIM)
        return self._fail(
            f"{said}; the StorageClass of a claim must have allowVolumeExpansion: true, and the claim must be bound; otherwise "
            f"revert the size"
        )

    def _describe(self, error: ApiStatusError) -> str:
        hidden = self.step.sensitive_texts
        return api_errors.describe(
            error.code, error.status, kind=self.step.child.kind.name, hidden=hidden or (), is_guarded=hidden is not None
        )

    def _fail(
        self, message: str, *, reason: str = REASON, causes: tuple[RetryTrigger, ...] = (), is_final: bool = True
    ) -> StepFailure:
        text = f"cannot replace {self.step.child.ref} with its claims kept: {message}; it was not deleted"
        return StepFailure(
            reason=reason,
            message=redaction.redact(text, self.step.sensitive_texts or frozenset()),
            causes=causes,
            is_final=is_final,
        )
