"""Controller of StackDefinitions. If a definition has errors, its instances stay on their revision.

`_reconcile` contains the life of one definition, from top to bottom. kopf's handlers call it after every change, and
again after an error.
"""

from __future__ import annotations

import asyncio
import enum
import functools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
import structlog

from hearth import answers, supervision
from hearth.engine import cooperative_work
from hearth.engine.admission import definition_review
from hearth.engine.cluster_objects import Revision, StackObject
from hearth.engine.definition import definition_sources, rejections
from hearth.engine.definition.definition_sources import ReadSpec, SourceReader
from hearth.engine.definition.revision_builder import RevisionBuilder
from hearth.engine.ports import StackDefinitionClient
from hearth.engine.services import Services
from hearth.engine.stack_definitions import definition_objects
from hearth.engine.stack_definitions.definition_objects import (
    DefinitionObjects,
    DefinitionRevisions,
    make_owner,
)
from hearth.engine.work_queue import Broadcast, KindsChanged, SourceChanged
from hearth.model import names, object_fields, retry_delays
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition, Mistake, SourceForbidden, SourceNotFound, TamperedRevision
from hearth.model.kinds import Kind, ObjectRef
from hearth.model.phases import PhaseConditions
from hearth.model.sharding import Place
from hearth.model.text import enumeration, times
from hearth.plan.rollouts import instance_state, rollout_decision, rollout_gates, rollout_policy, rollout_report
from hearth.plan.rollouts.instance_state import InstanceState
from hearth.plan.rollouts.rollout_decision import RolloutDecision, RolloutPhase, RolloutRecord
from hearth.plan.rollouts.rollout_gates import GateResult, RolloutAttempt
from hearth.plan.rollouts.rollout_policy import RolloutPolicy
from hearth.plan.rollouts.rollout_report import EVENT_TYPES, DefinitionReason
from hearth.plan.stack.options import HISTORY_LIMIT
from hearth.plan.status import conditions
from hearth.template.instances import instance_form
from hearth.template.instances.instance_form import KUBE_CONFIG, InstanceForm, InstanceForms

logger = structlog.get_logger(__name__)

LOOK = 1.0
"""Seconds from a change of an instance until all instances are checked."""
STATUS_LASTS = 0.2
"""Usual duration of a status write in seconds. Writes of several instances within this time count together."""
LONGEST_LOOK = 2.0
"""Maximum seconds between two checks of instances that are in progress but do not change."""
SETTLED_LOOK = 30.0
"""Maximum seconds between two checks of instances without progress. A change by another client is noticed at once."""
NAMED = 20
"""Maximum number of instances that a message lists."""
ORPHAN = "Orphan"
"""The deletion policy that keeps the kind and its objects."""
SOURCE_READER = "@definition "
"""Prefix of the reader ID of a StackDefinition's template, used in place of a Stack's UID."""
CONSEQUENCE = "nothing changes: all objects of the kind keep their revision"


class OperatorActivity(enum.Enum):
    """The operator's present activity for a StackDefinition."""

    READY = "ready"
    """Nothing is left to do."""
    WORKING = "working"
    STALLED = "stalled"
    """It waits for a user to fix a problem."""
    PAUSED = "paused"
    """A user paused it, or must approve it."""


@dataclass(slots=True)
class ServedDefinition:
    """One StackDefinition whose kind is watched."""

    kind: Kind
    forms: InstanceForms
    states: dict[str, tuple[StackObject, InstanceState]] = field(default_factory=dict)
    """The state of each instance by UID, with the record that it was read from."""
    raw: Object | None = None
    """The last accepted definition, or None if its instances do not get the newest revision."""
    pause: float = LOOK
    """Seconds until the next check of instances that do not change."""
    judged: int = 0
    """The revision that `unfit` and `rules` describe."""
    rules: Mapping[str, Any] = field(default_factory=dict)
    """The rules for the parameters of that revision."""
    unfit: dict[str, tuple[tuple[int, int], str]] = field(default_factory=dict)
    """By UID of an instance without that revision: the version of its spec, and why the spec does not fit the revision;
    "" if it does."""


class StackDefinitionController:
    """The controller of all StackDefinitions."""

    def __init__(
        self,
        services: Services,
        client: StackDefinitionClient,
        *,
        builder: RevisionBuilder,
        groups: frozenset[str],
    ) -> None:
        """Do nothing before `start`. groups: API groups where kinds may be created."""
        self._services = services
        self._client = client
        self._builder = builder
        self._groups = groups
        self._revisions = DefinitionRevisions(services.management_cluster, services.hashes)
        self._objects = DefinitionObjects(client, services.hashes, checks_authors=services.checks_authors)
        self._served: dict[str, ServedDefinition] = {}
        """The served definitions by name of the StackDefinition."""
        self._reasons: dict[str, DefinitionReason] = {}
        """The last reason of `Ready`, by name of the StackDefinition."""
        self._known: set[str] = set()
        """The names of all StackDefinitions, served or not."""
        self._sources: dict[str, frozenset[ObjectRef]] = {}
        """By name of the StackDefinition: the objects that contain its template, if it is in other objects."""
        self._locks: dict[str, asyncio.Lock] = {}
        self._due: dict[tuple[str, bool], tuple[float, Callable[[], None]]] = {}
        """By name, and by whether only the instances are checked: the monotonic time in seconds of the next check, and
        a function that cancels it."""
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Watch the instances of every accepted definition before any Stack is reconciled.

        Otherwise, objects of an instance would briefly have no owner.
        """
        for raw in await self._client.list_definitions():
            await supervision.contain("definitions", functools.partial(self._resume, raw), lambda: None)
            self.reconcile_now(raw["metadata"]["name"])
        # Start following last, so that each definition is served only once.
        if not self._services.share.leads_all:
            self._client.follow(self._on_other)

    async def stop(self) -> None:
        """Stop all checks of definitions and instances."""
        for _, cancel in self._due.values():
            cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def count_reasons(self) -> Mapping[str, float]:
        """Count the StackDefinitions by the reason of their condition `Ready`."""
        return Counter(self._reasons.values())

    def _on_other(self, name: str, uid: str) -> None:
        """Reconcile a definition that another process leads."""
        if not self._services.share.leads(uid):
            self.reconcile_now(name)

    def reconcile_now(self, name: str) -> None:
        """Reconcile a definition that may have changed, and retry that until it succeeds."""
        self._schedule_reconcile(name, 0.0)

    def on_broadcast(self, event: Broadcast) -> None:
        """Reconcile the definitions that an event without a single Stack concerns."""
        match event:
            case KindsChanged():
                # Another client may have changed or deleted one of their kinds.
                concerned = list(self._known)
            case SourceChanged(ref):
                concerned = [name for name, refs in self._sources.items() if ref in refs]
            case _:
                return
        for name in concerned:
            self.reconcile_now(name)

    def on_instance(self, stack: StackObject) -> None:
        """Check the instances of a definition soon, because one was created or changed."""
        if (served := self._served.get(stack.definition)) is not None:
            self._schedule_reconcile(stack.definition, LOOK, served)

    def on_gone(self, uid: str) -> None:
        """Check the instances of a definition soon, because one was deleted."""
        self._look_at_all_of(uid, LOOK)

    def on_status(self, uid: str) -> None:
        """Check the instances of a definition once the status of one, which is being written, is likely stored."""
        self._look_at_all_of(uid, STATUS_LASTS)

    def _look_at_all_of(self, uid: str, delay: float) -> None:
        for name, served in self._served.items():
            if uid in served.states:
                self._schedule_reconcile(name, delay, served)

    # ------------------------------------------------------------ the life of one definition

    async def _resume(self, raw: Object) -> None:
        """Serve the kind as it was accepted before, even if the spec has changed since."""
        owner_stack = self._make_owner(raw)
        if not self._services.share.leads(owner_stack.uid):
            await self._follow(raw)
            return
        forms = await self._read_forms(owner_stack)
        if forms.by_number and not is_orphaning(raw) and await self._objects.is_served(raw):
            await self._serve(raw, forms)

    async def _reconcile(self, raw: Object) -> float | None:
        owner_stack = self._make_owner(raw)
        if (known := self._served.get(owner_stack.name)) is not None:
            known.raw = None
        # 0. Skip a definition that an operator of another installation serves.
        if raw["spec"]["group"] not in self._groups and await self._objects.is_of_another(raw):
            return None
        # 1. Deletion: only without instances, and the kind before the definition.
        if owner_stack.deleting:
            return await self._delete(raw)
        # 2. Template: report all errors at once. If there is one, nothing changes.
        read = await self._read_template(raw, owner_stack)
        if read is None:
            return None
        raw = {**raw, "spec": read.spec}
        # 3. Revision: immutable, and stored before the kind gets any of its fields.
        if names.DEFINITION_FINALIZER not in owner_stack.finalizers:
            found = await self._client.write_finalizers(raw, [*owner_stack.finalizers, names.DEFINITION_FINALIZER])
            if found is None:
                return None
            raw = {**found, "spec": read.spec}
        try:
            await self._revisions.take_back(owner_stack)
            newest = await self._revisions.store(owner_stack, raw["spec"])
        except TamperedRevision as error:
            await self._report(
                raw, reason=DefinitionReason.REVISION_TAMPERED, message=str(error), activity=OperatorActivity.STALLED
            )
            return retry_delays.STACK_DEFINITION.first
        # 4. Kind, and the roles of its users. The kind fits all revisions that instances may have.
        served = known
        forms = served.forms if served is not None else await self._read_forms(owner_stack)
        self._add_newest(forms, newest, served)
        is_served, retry = await self._keep_kind(raw, forms)
        if not is_served:
            return retry
        # 5. Instances: watched with these revisions.
        served = served or await self._serve(raw, forms)
        # 6. Rollout: decide which instances get the newest revision now.
        served.raw, served.pause = raw, LOOK
        return await self._roll_out(served, raw)

    def _add_newest(self, forms: InstanceForms, newest_form: InstanceForm, served: ServedDefinition | None) -> None:
        """Add the newest revision. A right that it takes back, all instances lose at once, whichever revision they have."""
        is_new = forms.by_number.setdefault(newest_form.number, newest_form) is newest_form
        forms.current = forms.current or newest_form.number
        if is_new and served is not None:
            self._client.renew_rights(served.kind)

    async def _follow(self, raw: Object) -> float | None:
        """Serve this process's instances of a definition that another process leads.

        The leader makes the kind and the revisions, and reports the status. All processes make the same rollout
        decisions, because they decide from the state on the API server. Each moves only its own instances.
        """
        owner_stack = self._make_owner(raw)
        name, newest = owner_stack.name, (raw.get("status") or {}).get("revision")
        served = self._served.get(name)
        if is_orphaning(raw) or await self._revisions.find_orphaned(owner_stack):
            await self._forget(name)
            return None
        is_meant = self._services.share.place is not Place.ELSEWHERE or KUBE_CONFIG in raw["spec"].get("options", ())
        if served is None and not (newest and is_meant and await self._objects.is_served(raw)):
            return None
        forms = served.forms if served is not None else InstanceForms(name)
        if newest not in forms.by_number:
            await self._catch_up(owner_stack, forms)
        if newest not in forms.by_number:
            return retry_delays.STACK_DEFINITION.first
        served = served or await self._serve(raw, forms)
        served.raw, served.pause = (None if owner_stack.deleting else raw), LOOK
        return None if owner_stack.deleting else await self._roll_out(served, raw)

    async def _catch_up(self, owner_stack: StackObject, forms: InstanceForms) -> None:
        """Read the revisions that another process stored, and drop those that it deleted."""
        found = await self._client.list_revisions(owner_stack.uid, owner_stack.namespace)
        verified = self._revisions.sort(owner_stack, found).verified
        for number in forms.by_number.keys() - {each.number for each in verified}:
            del forms.by_number[number]
        await self._read_into(forms, owner_stack, [each for each in verified if each.number not in forms.by_number])
        if (served := self._served.get(owner_stack.name)) is not None and forms.by_number:
            self._client.renew_rights(served.kind)

    async def _roll_out(self, served: ServedDefinition, raw: Object) -> float:
        """Move the instances whose turn it is to another revision; return the seconds until the next check.

        Writes only the status of the definition, and only if the status changes.
        """
        await self._judge_fit(served)
        decision = self._decide(served, raw)
        for uid, number in decision.moves.items():
            self._client.move(served.kind, uid, number)
        is_leader = self._services.share.leads(raw["metadata"]["uid"])
        is_news = is_leader and await self._report_rollout(raw, decision)
        if is_leader and decision.is_settled and len(served.forms.by_number) > HISTORY_LIMIT:
            await self._truncate(served, raw, decision)
        longest = SETTLED_LOOK if decision.is_settled else LONGEST_LOOK
        served.pause = LOOK if is_news or decision.moves else min(2 * served.pause, longest)
        return min(served.pause, decision.due)

    async def _keep_kind(self, raw: Object, forms: InstanceForms) -> tuple[bool, float | None]:
        """Create the kind and its roles; return whether everything exists, and the seconds until the next try."""
        state = await self._objects.make(raw, forms=forms.by_number.values(), former=self._find_former_uids(raw))
        if state.refusal:
            await self._report(
                raw, reason=DefinitionReason.KIND_TAKEN, message=state.refusal, activity=OperatorActivity.STALLED
            )
            return False, retry_delays.DEFINITION_RIGHTS.first
        if not state.is_served:
            await self._report(raw, reason=DefinitionReason.KIND_NOT_SERVED, message=state.waits_for)
            return False, retry_delays.NEW_KIND.first
        if refusal := await self._keep_roles(raw):
            await self._report(
                raw, reason=DefinitionReason.ROLES_REFUSED, message=refusal, activity=OperatorActivity.STALLED
            )
            return False, retry_delays.DEFINITION_RIGHTS.first
        return True, None

    async def _keep_roles(self, raw: Object, *, is_deleting: bool = False) -> str:
        """Create the roles that the spec requests, and delete its other roles. Returns the obstacle, or ""."""
        wanted = [] if is_deleting else definition_objects.make_roles(raw["spec"])
        made, named = definition_objects.find_recorded_roles(raw), [each["metadata"]["name"] for each in wanted]
        if not made and not named:
            return ""
        if made != named:
            # Record the names first, so that the roles are found again if this process ends before they are complete.
            await self._record(raw, {"roles": [*dict.fromkeys([*made, *named])]})
        refusal = await self._objects.keep_roles(raw, wanted, former=self._find_former_uids(raw))
        if not refusal and made != named:
            await self._record(raw, {"roles": named})
        return refusal

    def _find_former_uids(self, raw: Object) -> frozenset[str]:
        """Find the UIDs that a StackDefinition had before it was restored from a backup."""
        return frozenset(each.owner for each in self._revisions.find_former(self._make_owner(raw)))

    async def _record(self, raw: Object, part: Object) -> None:
        await self._client.write_definition_status(raw, part)
        raw["status"] = {**(raw.get("status") or {}), **part}

    async def _truncate(self, served: ServedDefinition, raw: Object, decision: RolloutDecision) -> None:
        """Delete old revisions that no instance has or is pinned to."""
        states = [state for _, state in served.states.values()]
        needed = {max(served.forms.by_number), served.forms.current, decision.record.revision}
        needed |= {number for each in states for number in (each.revision, each.pin) if number is not None}
        for number in await self._revisions.truncate(self._make_owner(raw), needed=needed):
            served.forms.by_number.pop(number, None)

    async def _read_template(self, raw: Object, owner_stack: StackObject) -> ReadSpec | None:
        """Return the spec with its template, or None if it is missing or has errors, which are reported."""
        spec, name = raw["spec"], owner_stack.name
        self._follow_sources(name, frozenset(each.ref for each in definition_sources.find_definition_sources(spec)))
        mistakes: list[Mistake] = [*self._find_wrong_group(spec), *self._find_wrong_account(spec)]
        read = None
        try:
            read = await definition_sources.read_definition_spec(SourceReader(self._services.management_cluster), spec)
            mistakes += await definition_review.find_mistakes(self._builder, read, owner_stack)
        except InvalidDefinition as error:
            mistakes += error.mistakes
        except SourceNotFound as error:
            if not mistakes:
                message = f"{error} ({CONSEQUENCE})"
                await self._report(
                    raw, reason=DefinitionReason.SOURCE_NOT_FOUND, message=message, activity=OperatorActivity.STALLED
                )
                if isinstance(error, SourceForbidden):
                    # No event reports that a permission was granted.
                    self._schedule_reconcile(name, retry_delays.DEFINITION_RIGHTS.first)
                return None
        if not mistakes:
            return read
        message = rejections.describe_mistakes(InvalidDefinition(mistakes), consequence=CONSEQUENCE)
        await self._report(
            raw, reason=DefinitionReason.INVALID_DEFINITION, message=message, activity=OperatorActivity.STALLED
        )
        return None

    def _follow_sources(self, name: str, refs: frozenset[ObjectRef]) -> None:
        """Be notified of changes of the objects with the template of a definition, and of no others."""
        if refs == self._sources.get(name, frozenset()):
            return
        self._services.management_cluster.follow_sources(SOURCE_READER + name, refs)
        self._sources[name] = refs
        if not refs:
            del self._sources[name]

    async def _judge_fit(self, served: ServedDefinition) -> None:
        """Find the instances whose spec fits their own revision and not the newest: they keep their own."""
        newest = served.forms.newest
        if served.judged != newest.number:
            served.judged, served.unfit, served.rules = newest.number, {}, instance_form.read_rules(newest)
        for stack in list(self._client.find_instances(served.kind)):
            known = served.unfit.get(stack.uid)
            if stack.definition_revision == newest.number or (known is not None and known[0] == stack.spec_version):
                continue
            own = served.forms.by_number.get(stack.definition_revision)
            if stack.omitted_size:
                stack = await self._services.management_cluster.open_stack(stack)  # noqa: PLW2901 -- the same, complete
            stated = orjson.loads(stack.packed_stated)
            work = instance_form.find_unfit(newest, served.rules, stated, own_form=own)
            wrong = await cooperative_work.finish(work)
            served.unfit[stack.uid] = stack.spec_version, str(wrong[0]) if wrong else ""

    def _find_wrong_group(self, spec: Object) -> Iterator[Mistake]:
        group = spec["group"]
        if group == names.GROUP or group.endswith((f".{names.GROUP}", ".k8s.io", ".kubernetes.io")):
            yield Mistake(path="spec.group", message=f"is {group}, which is reserved; use a group of your own domain")
        elif group not in self._groups:
            allowed = enumeration.enumerate_names(sorted(self._groups))
            listed = f"allowed groups: {allowed}" if allowed else "no group is allowed"
            yield Mistake(
                path="spec.group",
                message=(
                    f"is {group}, but the operator is not allowed to define kinds in it ({listed}); use another "
                    "group, or ask an administrator to start the operator with "
                    f"--definition-groups={','.join(sorted({*self._groups, group}))}"
                ),
            )

    def _find_wrong_account(self, spec: Object) -> Iterator[Mistake]:
        stated = spec.get("account")
        if not isinstance(stated, dict):
            return
        account, known = f"{stated.get('namespace')}:{stated.get('name')}", self._services.tenancy.definer_accounts
        if account not in known:
            allowed = enumeration.enumerate_names(sorted(known))
            listed = f"allowed: {allowed}" if allowed else "none is allowed"
            yield Mistake(
                path="spec.account",
                message=(
                    f"is {account}, but the operator is not allowed to act as that ServiceAccount ({listed}); use "
                    "another one, or ask an administrator to start the operator with "
                    f"--definition-accounts={','.join(sorted({*known, account}))}"
                ),
            )

    async def _read_forms(self, owner_stack: StackObject) -> InstanceForms:
        """Read all revisions that count."""
        forms = InstanceForms(owner_stack.name)
        await self._read_into(forms, owner_stack, self._revisions.load(owner_stack).verified)
        return forms

    async def _read_into(self, forms: InstanceForms, owner_stack: StackObject, revisions: Iterable[Revision]) -> None:
        """Add revisions, unless another client changed them."""
        for revision in revisions:
            try:
                forms.by_number[revision.number] = await self._revisions.read(owner_stack, revision)
            except TamperedRevision as error:
                logger.warning("ignoring a revision", definition=owner_stack.name, error=str(error))
        # The revision that completed its rollout is known only after the instances are checked.
        forms.current = forms.current if forms.current in forms.by_number else max(forms.by_number, default=0)

    async def _serve(self, raw: Object, forms: InstanceForms) -> ServedDefinition:
        """Watch the instances, and wait until all are known."""
        kind = definition_objects.find_kind(raw["spec"])
        self._client.serve(kind, forms)
        served = self._served[raw["metadata"]["name"]] = ServedDefinition(kind, forms)
        await self._client.wait_served(kind)
        return served

    def _decide(self, served: ServedDefinition, raw: Object) -> RolloutDecision:
        found = [self._read_state(served, each) for each in self._client.find_instances(served.kind)]
        if len(served.states) > len(found):
            present = {each.uid for each in found}
            served.states = {uid: each for uid, each in served.states.items() if uid in present}
            served.unfit = {uid: each for uid, each in served.unfit.items() if uid in present}
        policy = rollout_policy.parse(raw["spec"].get("rollout") or {})
        newest_number, now = served.forms.newest.number, self._services.clock.now()
        requests = rollout_report.read_requests(raw["metadata"].get("annotations") or {})
        record = rollout_decision.begin(self._read_record(raw, policy), newest_number, requests, now=now)
        decision = rollout_decision.decide(
            policy,
            found,
            newest=newest_number,
            minimum=served.forms.newest.minimum,
            before=record,
            requests=requests,
            gates=self._find_gates(raw, policy, record) if policy.gates else (),
            now=now,
        )
        # New instances get the newest revision until a revision that they may have has completed its rollout.
        completed, newest = decision.record.completed, served.forms.newest
        is_usable = completed in served.forms.by_number and completed >= newest.minimum
        served.forms.current = completed if is_usable else newest.number
        return decision

    def _read_record(self, raw: Object, policy: RolloutPolicy) -> RolloutRecord:
        """Return the record in the status. With gates, one that the operator did not sign proves no passed wave."""
        status, uid = raw.get("status"), raw["metadata"]["uid"]
        record = rollout_report.decode(status, policy)
        if policy.gates and not rollout_report.is_genuine(status, uid, signatures=self._services.hashes):
            return RolloutRecord(completed=record.completed)
        return record

    def _find_gates(self, raw: Object, policy: RolloutPolicy, record: RolloutRecord) -> tuple[GateResult, ...]:
        """Return the result of each gate after each wave, from the signed approvals of the StackDefinition."""
        verified = self._revisions.load(self._make_owner(raw)).verified
        attempt = RolloutAttempt(
            definition=raw["metadata"]["name"],
            uid=raw["metadata"]["uid"],
            revision=record.revision,
            revision_hash=next((each.hash for each in verified if each.number == record.revision), ""),
            started=record.started,
            restart=record.restart,
        )
        stamps = object_fields.text(raw, "metadata", "annotations", names.ANNOTATION_APPROVALS)
        hashes = self._services.hashes
        return rollout_gates.find_results(policy.gates, policy.wave_names, attempt, stamps, hashes=hashes)

    def _read_state(self, served: ServedDefinition, stack: StackObject) -> InstanceState:
        """Return the rollout state of an instance. It is read once for each version of its object."""
        known = served.states.get(stack.uid)
        _, unfit = served.unfit.get(stack.uid, (None, ""))
        if known is not None and known[0] is stack and known[1].unfit == unfit:
            return known[1]
        status, revision = stack.status, stack.definition_revision
        since = stack.in_progress_since
        state = InstanceState(
            uid=stack.uid,
            namespace=stack.namespace,
            name=stack.name,
            revision=revision,
            observed=instance_state.find_observed(status),
            active=object_fields.number(status, "definitionRevision") or 0,
            health=instance_state.find_health(status, generation=stack.generation, revision=revision),
            since=times.parse_time(since) if since else None,
            pin=served.forms.find_pin(orjson.loads(stack.packed_stated)),
            pin_mistake=stack.pin_mistake,
            labels=stack.labels,
            promoted=rollout_report.read_number(stack.annotations.get(names.PROMOTE, "")),
            hold=instance_state.find_hold_cause(stack.settings, status),
            unfit=unfit,
            message=instance_state.find_message(status),
        )
        served.states[stack.uid] = (stack, state)
        return state

    async def _delete(self, raw: Object) -> float | None:
        """Delete the kind after its last instance, then remove the finalizer of the definition."""
        name = raw["metadata"]["name"]
        if names.DEFINITION_FINALIZER not in (raw["metadata"].get("finalizers") or ()):
            if (owner_stack := self._make_owner(raw)).is_orphaning:
                await self._revisions.delete_all(owner_stack)
            await self._forget(name)
            return None
        if is_orphaning(raw) or await self._revisions.find_orphaned(self._make_owner(raw)):
            return await self._orphan(raw)
        served = self._served.get(name)
        instances = list(self._client.find_instances(served.kind)) if served is not None else []
        if instances:
            first = enumeration.enumerate_first(
                (f"{each.namespace}/{each.name}" for each in instances[:NAMED]), count=len(instances)
            )
            message = f"objects of the kind exist, {len(instances)} in total: {first}; delete them first"
            await self._report(
                raw, reason=DefinitionReason.DELETION_BLOCKED, message=message, activity=OperatorActivity.STALLED
            )
            return None
        if (left := await self._objects.delete(raw)) is not None:
            if left.refusal:
                await self._report(
                    raw,
                    reason=DefinitionReason.DELETION_BLOCKED,
                    message=left.refusal,
                    activity=OperatorActivity.STALLED,
                )
            return retry_delays.DEFINITION_RIGHTS.first if left.refusal else retry_delays.NEW_KIND.first
        if refusal := await self._keep_roles(raw, is_deleting=True):
            await self._report(
                raw, reason=DefinitionReason.DELETION_BLOCKED, message=refusal, activity=OperatorActivity.STALLED
            )
            return retry_delays.DEFINITION_RIGHTS.first
        await self._let_go(raw)
        await self._forget(name)
        return None

    async def _orphan(self, raw: Object) -> float | None:
        """Keep the kind and its objects unmanaged, and remove the finalizer of the definition."""
        name = raw["metadata"]["name"]
        await self._forget(name)
        # A write in progress may have restored a finalizer, so repeat until a check finds none.
        if await self._client.release_instances(definition_objects.find_kind(raw["spec"])):
            return retry_delays.NEW_KIND.first
        owner_stack = self._make_owner(raw)
        is_orphaned = await self._revisions.find_orphaned(owner_stack)
        await self._let_go(raw)
        # Delete the revisions last: until the finalizer is removed, they may be the only record of the request.
        if is_orphaned:
            await self._revisions.delete_all(owner_stack)
        return None

    async def _let_go(self, raw: Object) -> None:
        """Remove the operator's finalizer from a definition."""
        left = [each for each in raw["metadata"]["finalizers"] if each != names.DEFINITION_FINALIZER]
        await self._client.write_finalizers(raw, left)

    async def _forget(self, name: str) -> None:
        self._known.discard(name)
        self._follow_sources(name, frozenset())
        self._reasons.pop(name, None)
        served = self._served.pop(name, None)
        if served is not None:
            await self._client.withdraw(served.kind)

    # ------------------------------------------------------------ time and status

    def _schedule_reconcile(self, name: str, delay: float, served: ServedDefinition | None = None) -> None:
        """Reconcile a definition after a delay, or only look at its instances, unless that is due earlier.

        served: the definition whose instances are looked at; None for all of the definition.
        """
        key = name, served is not None
        due = self._services.clock.monotonic() + delay
        known, cancel = self._due.get(key, (math.inf, lambda: None))
        if known > due:
            cancel()
            self._due[key] = due, self._services.clock.call_later(delay, lambda: self._start_sync(name, served))

    def _start_sync(self, name: str, served: ServedDefinition | None) -> None:
        self._due.pop((name, served is not None), None)
        task = supervision.spawn("definitions", lambda: self._attempt(name, served), name=f"definition {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _attempt(self, name: str, served: ServedDefinition | None) -> None:
        work = self.handle(name) if served is None else self._look_at_instances(name, served)
        if error := await answers.find_error(work):
            logger.warning("cannot reconcile a StackDefinition; retrying", definition=name, error=str(error))

    async def handle(self, name: str) -> None:
        """Reconcile one StackDefinition, and later as often as that is needed, also after an error.

        Raises ApiStatusError and Unreachable.
        """
        delay: float | None = retry_delays.STACK_DEFINITION.first
        try:
            async with self._locks.setdefault(name, asyncio.Lock()):
                raw = await self._client.get_definition(name)
                if raw is None:
                    await self._forget(name)
                    delay = None
                else:
                    self._known.add(name)
                    is_leader = self._services.share.leads(raw["metadata"]["uid"])
                    delay = await (self._reconcile(raw) if is_leader else self._follow(raw))
        finally:
            served = self._served.get(name)
            if delay is not None:
                self._schedule_reconcile(name, delay, served if served is not None and served.raw is not None else None)

    async def _look_at_instances(self, name: str, served: ServedDefinition) -> None:
        async with self._locks.setdefault(name, asyncio.Lock()):
            if self._served.get(name) is not served:
                return
            if served.raw is None:
                # The definition was rejected or is being deleted, which depends on its instances.
                self.reconcile_now(name)
                return
            delay = retry_delays.STACK_DEFINITION.first
            try:
                delay = await self._roll_out(served, served.raw)
            finally:
                self._schedule_reconcile(name, delay, served)

    async def _report_rollout(self, raw: Object, decision: RolloutDecision) -> bool:
        """Report the progress of the newest revision; return whether the report is new."""
        is_approvable = self._services.plans.is_approvable
        reason, message = rollout_report.explain(decision, is_approvable=is_approvable)
        before = (raw.get("status") or {}).get("rollout")
        rollout = rollout_report.encode(decision)
        signed = rollout_report.list_signed(raw["metadata"]["uid"], rollout)
        rollout["signature"] = self._services.hashes.sign(rollout_report.RECORD, signed)
        counts = {
            "revision": decision.record.revision,
            "instances": decision.instances,
            "updated": decision.updated,
            "rollout": rollout,
        }
        if rollout_report.list_new_results(decision, before):
            # Stored first: if the process ends in between, the status still lacks it, and it is stored again.
            evidence = rollout_report.write_evidence(rollout, raw["metadata"]["uid"], signer=self._services.hashes)
            await self._revisions.write_evidence(self._make_owner(raw), decision.record.revision, evidence)
        is_news = await self._report(
            raw,
            reason=reason,
            message=message,
            announcement=rollout_report.explain(decision, is_public=True, is_approvable=is_approvable)[1],
            activity=find_activity(decision),
            counts=counts,
        )
        for type_, found, text in rollout_report.find_events(decision, before):
            await self._services.management_cluster.emit_event(
                self._make_owner(raw), type_=type_, reason=found, message=text
            )
        return is_news

    async def _report(
        self,
        raw: Object,
        *,
        reason: DefinitionReason,
        message: str,
        announcement: str = "",
        activity: OperatorActivity = OperatorActivity.WORKING,
        counts: Object | None = None,
    ) -> bool:
        """Write the status if it changes; return whether it did.

        announcement: the message of the Event, which quotes no instance; "" for the same.
        """
        name, before, generation = (
            raw["metadata"]["name"],
            raw.get("status") or {},
            raw["metadata"].get("generation", 0),
        )
        self._reasons[name] = reason
        row = PhaseConditions(
            ready="True" if activity is OperatorActivity.READY else "False",
            reconciling=activity is OperatorActivity.WORKING,
            stalled=activity is OperatorActivity.STALLED,
            reason=reason,
        )
        status: Object = {
            **(counts or {}),
            "observedGeneration": generation,
            "revisionNamespace": self._services.own_namespace,
            "conditions": conditions.build_conditions(
                row,
                headline=(reason, message),
                generation=generation,
                before=before.get("conditions") or (),
                now=times.format_time(self._services.clock.now()),
            ),
        }
        stored = {key: without_nulls(value) for key, value in status.items()}
        if all(before.get(key) == value for key, value in stored.items()):
            return False
        await self._client.write_definition_status(raw, status)
        raw["status"] = {**before, **stored}
        if is_news(before, reason, message) and (type_ := EVENT_TYPES.get(reason)) is not None:
            owner_stack, emit = self._make_owner(raw), self._services.management_cluster.emit_event
            await emit(owner_stack, type_=type_, reason=reason, message=announcement or message)
        return True

    def _make_owner(self, raw: Object) -> StackObject:
        return make_owner(raw, namespace=self._services.own_namespace)


def find_activity(decision: RolloutDecision) -> OperatorActivity:
    """Return the operator's next action for a rollout."""
    match decision.record.phase:
        case RolloutPhase.COMPLETE:
            return OperatorActivity.READY
        case RolloutPhase.STOPPED | RolloutPhase.ROLLED_BACK:
            return OperatorActivity.STALLED
        case RolloutPhase.PAUSED:
            return OperatorActivity.PAUSED
        case RolloutPhase.PROGRESSING | RolloutPhase.ROLLING_BACK:
            if decision.is_at_gate:
                return OperatorActivity.PAUSED
            return OperatorActivity.READY if decision.waits_for_users else OperatorActivity.WORKING


def is_orphaning(raw: Object) -> bool:
    """Return whether a StackDefinition is being deleted without its kind."""
    is_requested = names.FINALIZER_ORPHAN in (raw["metadata"].get("finalizers") or ())
    return "deletionTimestamp" in raw["metadata"] and (is_requested or raw["spec"].get("deletionPolicy") == ORPHAN)


def is_news(status: Object, reason: DefinitionReason, message: str) -> bool:
    """Return whether the reason differs from the status, or the status lacks this error.

    The message of a rollout changes with each instance; its reason changes only for important events.
    """
    ready = conditions.find(status, "Ready")
    has_own_message = reason == DefinitionReason.INVALID_DEFINITION
    return ready.get("reason") != reason or (has_own_message and ready.get("message") != message)


def without_nulls(value: Any) -> Any:
    """Return a field of a status as the API server stores it: a null in a merge patch removes its key."""
    return {key: each for key, each in value.items() if each is not None} if isinstance(value, dict) else value
