"""Watches every change of a fake cluster, and records deletions that no user requested or that come too early.

Uses only stored objects, specs, statuses and revisions, never the state of the operator.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.checks import expectations, group_expansion, invariants, members, template_verification, volume_writers
from support.checks.stored_revisions import StoredRevisions
from support.server import fake_kinds
from support.server.request_faults import Request, Traffic

CLAIM = "PersistentVolumeClaim"
TRIP = 0.05
"""Seconds until a request arrives, including any further requests of the same step."""
WORD = re.compile(r"[-a-z0-9.]+")
NOTHING: Object = {"resources": {}}


@dataclass(slots=True)
class StackSeen:
    """The recorded facts about one Stack."""

    raw: Object
    specs: deque[tuple[float, Object]] = field(default_factory=lambda: deque(maxlen=32))
    """Its specs, each with the time it was set."""
    reached: frozenset[str] = frozenset()
    """UIDs of the children that existed when a revision was last reached."""
    is_waived: bool = False
    """Whether the user has waived delays since then."""
    waived_at: float = -math.inf
    """When the user last waived delays."""
    in_service: int = 0
    """Groups only: the number of members that must stay ready after it was complete."""
    paused_at: float | None = None
    suspended_at: float | None = None


class Oversight:
    def __init__(self, traffic: Traffic, now: Callable[[], float]) -> None:
        """now: virtual seconds."""
        self._traffic = traffic
        self._now = now
        self._watches_service = True
        self.slack = TRIP
        """Seconds after which the operator has seen every change."""
        self.wrong: list[str] = []
        self._stacks: dict[str, StackSeen] = {}
        self._templates: dict[str, Object] = {}
        """The templates of StackDefinitions by kind."""
        self._instances: dict[str, Object] = {}
        """The stored instances of StackDefinitions by UID."""
        self._revisions = StoredRevisions()
        self._children: dict[str, Object] = {}
        self._born: dict[str, float] = {}
        """The creation times of children by UID."""
        self._proven: set[str] = set()
        """The children that were ready at some point."""
        self._unanswered: set[str] = set()
        """The children whose creation got no response, so that the operator only learns of them from an event."""
        self._touched: dict[tuple[str, str], float] = {}
        """Time when another client last changed or deleted an object, by Stack and resource."""

    def events_take(self, delay: float) -> None:
        """Seconds that events travel from now on."""
        self.slack = TRIP + delay

    # ------------------------------------------------------------ reports

    def on_request(self, request: Request) -> None:
        """Check a request of the operator: it must not write a child of a paused Stack, or delete a child of a
        suspended one.
        """
        if request.verb not in {"apply", "delete"}:
            return
        for uid, seen in self._stacks.items():
            if request.stack not in ("", uid):
                continue
            if seen.paused_at is not None and self._now() > seen.paused_at + self.slack:
                self.wrong.append(f"{request} was sent while the Stack is paused")
            suspended_at = seen.suspended_at if request.verb == "delete" else None
            if suspended_at is not None and self._now() > suspended_at + self.slack:
                self.wrong.append(f"{request} was sent while the Stack is suspended")

    def on_change(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """The server's watcher."""
        raw = after if after is not None else before
        if raw is None:
            return
        self._take_owner(kind, raw, after)
        if kind == fake_kinds.CONTROLLER_REVISION.kind:
            return
        if names.LABEL_RESOURCE in invariants.labels_of(raw):
            self._take_child(raw, before, after)
        elif before is not None and names.LABEL_RESOURCE in invariants.labels_of(before):
            self._take_release(before)

    def _take_owner(self, kind: Kind, raw: Object, after: Object | None) -> None:
        """Record an owner or its template. after: None if it was deleted."""
        if kind == fake_kinds.STACK.kind:
            self._take_stack(raw, is_gone=after is None)
        elif kind == fake_kinds.STACK_DEFINITION.kind:
            self._take_definition(raw)
        elif kind.group == fake_kinds.DEFINED_GROUP:
            self._take_instance(raw, is_gone=after is None)
        elif kind == fake_kinds.RESOURCE_GROUP.kind:
            self._take_stack({**raw, "spec": group_expansion.expand(raw["spec"])}, is_gone=after is None)
            if after is not None:
                rolling = raw["spec"].get("rollingUpdate") or {}
                least = min(rolling.get("minInService", 0), raw["spec"].get("replicas", 1))
                self._stacks[raw["metadata"]["uid"]].in_service = least
                # A group never rolls back, so none of its objects are kept for an earlier revision.
                self._stacks[raw["metadata"]["uid"]].is_waived = True
        elif kind == fake_kinds.CONTROLLER_REVISION.kind and after is not None:
            self._revisions.on_stored(after)

    def _take_definition(self, raw: Object) -> None:
        """Record the template of its instances, which follow at once."""
        kind = raw["spec"]["names"]["kind"]
        # Templates in other objects are not supported here.
        self._templates[kind] = raw["spec"].get("template", NOTHING)
        for instance in [each for each in self._instances.values() if each["kind"] == kind]:
            self._take_instance(instance, is_gone=False)

    def _take_instance(self, raw: Object, *, is_gone: bool) -> None:
        """Record an instance of a StackDefinition as its Stack."""
        stated = raw.get("spec") or {}
        self._instances[raw["metadata"]["uid"]] = raw
        if is_gone:
            del self._instances[raw["metadata"]["uid"]]
        parameters = {key: value for key, value in stated.items() if key != "stack"}
        spec = {**(stated.get("stack") or {}), "template": self._templates[raw["kind"]], "parameters": parameters}
        self._take_stack({**raw, "spec": spec}, is_gone=is_gone)

    def _take_stack(self, raw: Object, *, is_gone: bool) -> None:
        uid = raw["metadata"]["uid"]
        if is_gone:
            self._stacks.pop(uid, None)
            return
        seen = self._stacks.setdefault(uid, StackSeen(raw=raw))
        if not seen.specs or seen.specs[-1][1] != raw["spec"]:
            accepted = [spec["template"] for _, spec in seen.specs if is_accepted(spec)]
            if is_accepted(raw["spec"]) and accepted and accepted[-1] != raw["spec"]["template"]:
                # A recent spec may be combined with the new template.
                seen.is_waived = self._now() < seen.waived_at + self.slack
            seen.specs.append((self._now(), raw["spec"]))
        if names.REQUEST_CLEANUP in (raw["metadata"].get("annotations") or {}):
            old = (seen.raw["metadata"].get("annotations") or {}).get(names.REQUEST_CLEANUP)
            if raw["metadata"]["annotations"][names.REQUEST_CLEANUP] != old:
                seen.is_waived, seen.waived_at = True, self._now()
        is_paused = bool(raw["spec"].get("paused"))
        if is_paused != (seen.paused_at is not None):
            seen.paused_at = self._now() if is_paused else None
        is_suspended = bool(raw["spec"].get("suspended")) and "deletionTimestamp" not in raw["metadata"]
        if is_suspended != (seen.suspended_at is not None):
            seen.suspended_at = self._now() if is_suspended else None
        old_status, status = expectations.status_of(seen.raw), expectations.status_of(raw)
        phase = str(status.get("phase"))
        if phase.endswith("Complete") and phase != "SuspendComplete" and old_status != status:
            seen.reached = frozenset(self._find_reached(uid, status))
        seen.raw = raw

    def _find_reached(self, uid: str, status: Mapping[str, Any]) -> Iterator[str]:
        """The UIDs of a complete Stack's children, except those that an automatic rollback kept."""
        target = status.get("target") or {}
        found = [each for each in self._children.values() if invariants.whose(each)[0] == uid]
        if target.get("cause") == "AutomaticRollback":
            wanted = self._find_revision(uid, target)["resources"]
            found = [each for name, resource in wanted.items() for each in self._choose(uid, name, resource)]
        for each in found:
            yield each["metadata"]["uid"]

    def _choose(self, uid: str, name: str, resource: Mapping[str, Any]) -> list[Object]:
        """The oldest object of a resource that matches a revision; all objects if none matches."""
        found = [each for each in self._children.values() if invariants.whose(each) == (uid, name)]
        stated = template_verification.Scope(values={}).evaluate(resource["manifest"])
        fit = [each for each in found if not find_wrong(stated, resource, each)]
        return sorted(fit, key=lambda each: int(invariants.which(each)[2]))[:1] or found

    def _find_revision(self, uid: str, target: Mapping[str, Any]) -> Object:
        """The template of the revision that a target names."""
        number = target.get("revision", 0)
        return members.with_members(self._revisions.get(uid, number)) if number else NOTHING

    def _take_child(self, raw: Object, before: Object | None, after: Object | None) -> None:
        if self._traffic.acting is None and before is not None and self._is_tampered(before, after):
            self._touched[invariants.whose(raw)] = self._now()
        if before is not None and is_ready(before):
            self._proven.add(raw["metadata"]["uid"])
        if self._is_deleted_now(before, after):
            self.wrong += self._judge_deletion(raw)
        # The object was created or adopted.
        if raw["metadata"]["uid"] not in self._born:
            self._born[raw["metadata"]["uid"]] = self._now()
            if self._traffic.acting is not None and self._traffic.is_answer_lost:
                self._unanswered.add(raw["metadata"]["uid"])
        if after is None or "deletionTimestamp" in after["metadata"]:
            self._children.pop(raw["metadata"]["uid"], None)
        else:
            self._children[raw["metadata"]["uid"]] = after
        # While a group grows, it has too few members until the new ones are ready.
        if before is not None and is_ready(before) and not (after is not None and is_ready(after)):
            self._look_at_service(invariants.whose(raw)[0])

    def _take_release(self, raw: Object) -> None:
        """An object lost its labels."""
        self._children.pop(raw["metadata"]["uid"], None)
        if self._traffic.acting is not None and self._traffic.acting.verb == "release":
            uid, resource = invariants.whose(raw)
            seen = self._stacks.get(uid)
            if seen is not None:
                self.wrong += self._find_names(raw, resource, uid, seen, what="released")

    def forget_service(self) -> None:
        """Accept from now on that any number of members is out of service."""
        self._watches_service = False

    def _look_at_service(self, uid: str) -> None:
        """Check that enough members of a group are ready, at any time after it was first complete."""
        seen = self._stacks.get(uid)
        if not self._watches_service:
            return
        if seen is None or not seen.in_service or not seen.reached or "deletionTimestamp" in seen.raw["metadata"]:
            return
        ready = sum(is_ready(each) for each in self._children.values() if invariants.whose(each)[0] == uid)
        if ready < seen.in_service:
            self.wrong.append(f"{ready} members are ready, but {seen.in_service} must be")

    def _is_tampered(self, before: Object, after: Object | None) -> bool:
        return after is None or any(before.get(key) != after.get(key) for key in (before.keys() | after) - {"status"})

    def _is_deleted_now(self, before: Object | None, after: Object | None) -> bool:
        acting = self._traffic.acting
        if before is None or acting is None or acting.verb != "delete":
            return False
        return "deletionTimestamp" not in before["metadata"]

    # ------------------------------------------------------------ violations of a deletion

    def _judge_deletion(self, raw: Object) -> Iterator[str]:
        uid, resource = invariants.whose(raw)
        seen = self._stacks.get(uid)
        if seen is None:
            yield f"{raw['metadata']['name']} was deleted after its Stack had gone"
            return
        is_going = "deletionTimestamp" in seen.raw["metadata"]
        policies = {find_policy(members.with_members(spec), resource) for spec in self._find_specs(seen)}
        policies |= {find_policy(each, resource) for each in self._find_followed(uid, seen)}
        if raw["kind"] == CLAIM and self._is_of_restore(raw, seen):
            policies |= {find_restore_policy(each, resource) for each in self._find_followed(uid, seen)}
        target = expectations.status_of(seen.raw).get("target") or {}
        # A rollback may replace a StatefulSet under the same name, because the earlier definition may not contain the
        # later policy.
        is_taken_back = raw["kind"] == "StatefulSet" and target.get("cause", "Spec") != "Spec"
        goes_first = is_taken_back or bool(policies & {"DeleteFirst", "KeepClaims"})
        if not goes_first and not self._is_disposable(raw, seen):
            # Objects that an automatic rollback keeps are not in use: they are kept for their data.
            is_spared = target.get("cause") == "AutomaticRollback" and not is_going
            live = [each for each in self._children.values() if not (is_spared and each["kind"] == CLAIM)]
            live = [each for each in live if invariants.whose(each)[0] == uid and self._is_known(each)]
            yield from self._find_users(raw, live)
            yield from self._find_dependents(raw, live, [] if is_going else self._find_followed(uid, seen))
        yield from self._find_names(raw, resource, uid, seen, what="deleted")
        if is_going:
            return
        if raw["kind"] == CLAIM and not self._is_asked(raw, seen, policies):
            yield f"the claim {raw['metadata']['name']} was deleted, and that was not requested"
        if raw["metadata"]["uid"] in seen.reached and not goes_first and not seen.is_waived:
            missing = [list(self._find_missing(uid, template)) for template in self._find_followed(uid, seen)]
            if all(missing):
                yield f"{raw['metadata']['name']}, which was reached, was deleted before {missing[0]} were ready"

    def _find_names(self, raw: Object, resource: str, uid: str, seen: StackSeen, *, what: str) -> Iterator[str]:
        """Find a resource that names an object in deletion, other than one that may replace the object."""
        for other in self._find_relatives(uid):
            found = [list(find_namers(raw, each)) for each in self._find_followed(other, self._stacks[other])]
            if found and all(found):
                stack = self._stacks[other].raw["metadata"]["name"]
                yield f"{raw['kind']} {raw['metadata']['name']} was {what} although {found[0][0]} of {stack} names it"
        if "deletionTimestamp" in seen.raw["metadata"]:
            return
        followed = self._find_followed(uid, seen)
        found = [list(find_namers(raw, each)) for each in followed]
        if found and all(found) and not self._may_replace(raw, resource, followed, found):
            yield f"{raw['kind']} {raw['metadata']['name']} was {what} although {found[0][0]} names it"

    def _may_replace(self, raw: Object, resource: str, followed: list[Object], found: list[list[str]]) -> bool:
        """Whether its own resource names it now, or an earlier definition allows its replacement."""
        if resource in found[0]:
            return True
        earlier = [each for each, namers in zip(followed, found, strict=True) if resource in namers]
        is_unused = raw["metadata"]["uid"] not in self._proven
        return any(is_unused or find_policy(each, resource) in {"DeleteFirst", "KeepClaims"} for each in earlier)

    def _find_relatives(self, uid: str) -> Iterator[str]:
        """The other Stacks of a tree that are not being deleted, with objects in the same cluster."""
        own, place = self._find_root(uid), find_cluster(self._stacks[uid])
        for other, seen in self._stacks.items():
            is_alive = "deletionTimestamp" not in seen.raw["metadata"]
            if other != uid and is_alive and find_cluster(seen) == place and self._find_root(other) == own:
                yield other

    def _find_root(self, uid: str) -> str:
        """The outermost Stack that one is nested in."""
        climbed = {uid}
        while uid in self._stacks and (parent := invariants.whose(self._stacks[uid].raw)[0]) in self._stacks:
            if parent in climbed:
                break
            climbed.add(parent)
            uid = parent
        return uid

    def _is_disposable(self, raw: Object, seen: StackSeen) -> bool:
        """Whether a replaced object was never ready, so that no other object was created from it."""
        if raw["metadata"]["uid"] in self._proven or "deletionTimestamp" in seen.raw["metadata"]:
            return False
        uid, resource = invariants.whose(raw)
        return all(resource in (each.get("resources") or {}) for each in self._find_followed(uid, seen))

    def _is_of_restore(self, raw: Object, seen: StackSeen) -> bool:
        """Whether a restore replaces a claim, or created the claim and was then cancelled."""
        is_made = names.ANNOTATION_RESTORED in invariants.annotations_of(raw)
        return is_made or any((spec.get("rollback") or {}).get("toSnapshot") for spec in self._find_specs(seen))

    def _is_known(self, raw: Object) -> bool:
        """Whether the operator can know of an object: late events or a lost response to its creation hide it for a
        while.
        """
        uid = raw["metadata"]["uid"]
        is_known = self.slack == TRIP and uid not in self._unanswered
        return is_known or self._now() > self._born[uid] + self.slack

    def _find_users(self, raw: Object, live: list[Object]) -> Iterator[str]:
        """Objects of the same Stack that name the one that is being deleted."""
        name, resource = raw["metadata"]["name"], invariants.whose(raw)[1]
        for each in live:
            # Ignore an object that is evaluated from another one: it may get the name from a value of a different
            # object, and will be renamed.
            made_of = {place.partition("/")[0] for place in find_required(each)}
            is_made_of_it = bool({resource, members.all_of(resource)} & made_of)
            is_user = invariants.whose(each)[1] != resource and is_made_of_it and name in find_words(each)
            # If a revision reversed a dependency, the records name each other. Both objects are deleted at the same
            # time.
            if is_user and not self._is_in_circle(raw, each, live):
                yield f"{name} was deleted although {each['metadata']['name']} uses it"

    def _find_dependents(self, raw: Object, live: list[Object], followed: list[Object]) -> Iterator[str]:
        """Objects of the same Stack whose record requires the one that is being deleted, and nothing in its place."""
        stack, resource, number, _ = invariants.which(raw)
        others = [each for each in self._children.values() if each["metadata"]["uid"] != raw["metadata"]["uid"]]
        if any(invariants.whose(each) == (stack, resource) for each in others):
            return
        for each in live:
            name = invariants.whose(each)[1]
            places = {f"{resource}/{number}", f"{members.all_of(resource)}/1"}
            if name == resource or not places & find_required(each):
                continue
            # An object that matches a definition was evaluated with its requirements, even if its record differs.
            is_free = any(
                name in (template.get("resources") or {})
                and resource not in find_needs(template["resources"][name])
                and name not in self._find_missing(stack, template)
                for template in followed
            )
            if not is_free and not self._is_in_circle(raw, each, live):
                yield f"{resource} was deleted before {name}, which requires it"

    def _is_in_circle(self, raw: Object, dependent: Object, live: list[Object]) -> bool:
        """Whether an object directly or indirectly requires an object that requires it."""
        places = {"/".join(invariants.which(each)[1:3]): each for each in live}
        reached: set[str] = set()
        queue = [raw]
        while queue:
            for place in find_required(queue.pop()) - reached:
                reached.add(place)
                if place in places:
                    queue.append(places[place])
                elif place.endswith("[*]/1"):
                    found = [each for each in live if f"{members.all_of(invariants.whose(each)[1])}/1" == place]
                    reached.update("/".join(invariants.which(each)[1:3]) for each in found)
                    queue += found
        return "/".join(invariants.which(dependent)[1:3]) in reached

    def _is_asked(self, raw: Object, seen: StackSeen, policies: set[str]) -> bool:
        """Whether the user requested the deletion of a claim, by a definition without it or a policy that replaces it."""
        if policies & {"CreateFirst", "DeleteFirst"}:
            return True
        status = expectations.status_of(seen.raw)
        if (status.get("target") or {}).get("cause") == "AutomaticRollback" and self._is_followed(seen):
            return False
        uid, resource = invariants.whose(raw)
        templates = self._find_followed(uid, seen)
        kinds = [(each["resources"].get(resource) or {}).get("manifest", {}).get("kind") for each in templates]
        return any(kind != CLAIM for kind in kinds)

    def _find_specs(self, seen: StackSeen) -> list[Object]:
        """The current spec and the recent ones, newest first."""
        found: list[Object] = []
        for _, spec in reversed(seen.specs):
            found.append(spec)
            since = next(begun for begun, each in seen.specs if each is spec)
            if since < self._now() - self.slack:
                break
        return found

    def _is_followed(self, seen: StackSeen) -> bool:
        """Whether the status describes the current spec, and has done so for a moment."""
        return bool(expectations.status_of(seen.raw).get("observedGeneration") == seen.raw["metadata"]["generation"])

    def _find_followed(self, uid: str, seen: StackSeen) -> list[Object]:
        """The templates that the operator may be following."""
        target = expectations.status_of(seen.raw).get("target") or {}
        is_rollback = target.get("cause", "Spec") != "Spec"
        found = (
            [] if is_rollback and self._is_followed(seen) else list(map(members.with_members, self._find_specs(seen)))
        )
        ready = expectations.find_condition(seen.raw, "Ready")
        is_refused = ready.get("reason") in {"InvalidTemplate", "RevisionNotFound", "RevisionUnavailable"}
        # The operator may have rejected a definition without reporting it yet.
        is_refused = is_refused or any(members.MISTAKEN in (each.get("resources") or {}) for each in found)
        # A change that waits for its window is not followed; marks still replace objects of the running definition.
        is_held = expectations.find_condition(seen.raw, "ChangeHeld").get("status") == "True"
        if is_rollback or is_refused or is_held:
            found.append(self._find_revision(uid, target))
        return found

    def _find_missing(self, uid: str, template: Object) -> Iterator[str]:
        """The resources of a template that are not ready, or differ from it."""
        for name, resource in (template.get("resources") or {}).items():
            if self._now() < self._touched.get((uid, name), -1e9) + self.slack:
                continue
            stated = template_verification.Scope(values={}).evaluate(resource["manifest"])
            found = [each for each in self._children.values() if invariants.whose(each) == (uid, name)]
            if not any(is_ready(each) and not find_wrong(stated, resource, each) for each in found):
                yield name


def is_accepted(spec: Object) -> bool:
    """Whether the definition can be accepted and becomes a new target."""
    return "template" in spec and members.MISTAKEN not in (spec["template"].get("resources") or {})


def find_wrong(stated: Any, resource: Mapping[str, Any], raw: Object) -> list[str]:
    """Differences between an object and its manifest, except fields that others may keep."""
    return [*template_verification.find_differences(template_verification.less_left(stated, resource, raw), raw, "")]


def find_restore_policy(template: Object, resource: str) -> str:
    """The replacement policy of a restored claim: a claim with an explicit name must be deleted first."""
    manifest = (template["resources"].get(resource) or {}).get("manifest") or {}
    return "DeleteFirst" if "name" in (manifest.get("metadata") or {}) else "CreateFirst"


def find_policy(template: Object, resource: str) -> str:
    """The replacement policy of a resource, if its template sets one."""
    found = (template.get("resources") or {}).get(resource) or {}
    default = "DeleteFirst" if volume_writers.stops_first(found.get("manifest") or {}) else ""
    return str((found.get("updatePolicy") or {}).get("replace", default))


def find_cluster(seen: StackSeen) -> Any:
    """The cluster that a Stack's objects are in."""
    return seen.raw["spec"].get("kubeConfig")


def find_namers(raw: Object, template: Object) -> Iterator[str]:
    """The resources of a template that set the name of that object."""
    metadata = raw["metadata"]
    for name, resource in (template.get("resources") or {}).items():
        manifest = resource["manifest"]
        stated = manifest.get("metadata") or {}
        if "when" in resource or (manifest["apiVersion"], manifest["kind"]) != (raw["apiVersion"], raw["kind"]):
            continue
        if stated.get("name") == metadata["name"] and stated.get("namespace") in (None, metadata.get("namespace")):
            yield name


def find_required(raw: Object) -> set[str]:
    """The places that an object's record requires."""
    recorded = invariants.annotations_of(raw).get(names.ANNOTATION_REQUIRES, "")
    return set(recorded.split(",")) - {""}


def find_needs(resource: Mapping[str, Any]) -> set[str]:
    """The requirements of a resource in a template, by reference or by `dependsOn`."""
    used = {
        match[1].partition(".")[0] for match in template_verification.PLAIN.finditer(json.dumps(resource["manifest"]))
    }
    return used | set(resource.get("dependsOn", ()))


def find_words(raw: Object) -> set[str]:
    """Every word in an object outside its own metadata."""
    annotations = {
        key: value for key, value in invariants.annotations_of(raw).items() if not key.startswith(f"{names.GROUP}/")
    }
    said = {key: value for key, value in raw.items() if key not in {"metadata", "apiVersion", "kind", "status"}}
    return set(WORD.findall(json.dumps([annotations, said])))


def is_ready(raw: Mapping[str, Any]) -> bool:
    """Whether a test object is ready."""
    status = raw.get("status") or {}
    if raw["kind"] == CLAIM:
        return bool(status.get("phase") == "Bound")
    if raw["kind"] == "Probe":
        return bool(status.get("ready")) and status.get("observedGeneration") == raw["metadata"]["generation"]
    return True
