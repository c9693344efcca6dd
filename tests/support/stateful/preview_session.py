"""One Stack in a fake world: each edit is previewed at rest, then made, and what happens is compared with the preview."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies

from hearth.model import names
from hearth.model.child import Object
from hearth.preview import field_changes
from hearth.preview.changes import Action, Preview
from support.fake_world import preview_of
from support.fake_world.preview_of import Seen
from support.server import fake_kinds
from support.stateful import random_templates
from support.stateful.random_templates import Drafts, Edit
from support.stateful.session_state import Ordered
from support.stateful.stack_session import STACK, Session

HOOKS = ("PreCreate", "PostCreate", "PreUpdate", "PostUpdate", "PreReplace", "PostReplace", "PreDelete", "PostDelete")
CERTAIN = frozenset({Action.CREATE, Action.UPDATE, Action.REPLACE, Action.DELETE})
KNOWN_EDITS = tuple(what for what in random_templates.EDITS if what not in ("fails", "heal"))
"""Without those that let a probe fail, which only the run can know."""
SMALL = strategies.integers(0, 7)
edits = strategies.builds(Edit, what=strategies.sampled_from(KNOWN_EDITS), at=SMALL, other=SMALL, number=SMALL)
rules = strategies.lists(
    strategies.fixed_dictionaries(
        {
            "resource": strategies.sampled_from((*random_templates.NAMES[:4], "*")),
            "word": strategies.sampled_from(HOOKS),
        }
    ),
    max_size=2,
)
denials = strategies.lists(
    strategies.fixed_dictionaries(
        {
            "resource": strategies.sampled_from(random_templates.NAMES[:4]),
            "word": strategies.sampled_from(("Create", "Update", "Replace", "Delete")),
        }
    ),
    max_size=1,
)
planned = strategies.tuples(strategies.lists(edits, min_size=1, max_size=3), rules, denials)
"""An edit of the template, with the breakpoints and restrictions of that time."""


def make_environment(stops: Sequence[dict[str, str]], denied: Sequence[dict[str, str]]) -> Object:
    """The environment of a spec."""
    return {
        "breakpoints": [{"resource": each["resource"], "at": [each["word"]]} for each in stops],
        "restrictedActions": [{"resource": each["resource"], "deny": [each["word"]]} for each in denied],
    }


class PreviewSession:
    """The world and the Stack."""

    def __init__(self) -> None:
        """Start an operator."""
        self.session = Session(delay=None)
        self.drafts: Drafts = {}
        self.spec: Object = {}
        self.history: list[Object] = []

    def close(self) -> None:
        """End everything."""
        self.session.close()

    def begin(self, drafts: Drafts) -> None:
        """Create the Stack as its preview says."""
        self.drafts = drafts
        self.spec = Ordered(drafts=drafts).make_spec()
        preview = self.preview()
        self.session.create(Ordered(drafts=drafts))
        self.compare(preview, Seen(objects={}))

    def edit(self, changes: Sequence[Edit], stops: Sequence[dict[str, str]], denied: Sequence[dict[str, str]]) -> None:
        """Edit the Stack as the preview says."""
        for change in changes:
            self.drafts = random_templates.edit(self.drafts, change)
        if str(self._find_stack()["status"].get("phase")).endswith("Failed"):
            # The operator remembers which change was refused, so that it does not stop before that again.
            stops = ()
        self.spec = {**Ordered(drafts=self.drafts).make_spec(), "environment": make_environment(stops, denied)}
        before = self.see()
        preview = self.preview()
        self.session.run(self.session.world.user.replace_spec(STACK, self.spec))
        self.compare(preview, before)

    def preview(self) -> Preview:
        """What the spec would do."""
        self.history.append(self.spec)
        server = self.session.world.server
        versions = server.version
        preview = self.session.run(preview_of.preview_spec(server, self.spec))
        assert server.version == versions, "a preview writes nothing"
        return preview

    def see(self) -> Seen:
        """The objects of now."""
        return Seen.of(self.session.world.server, self.session.uid)

    def compare(self, preview: Preview, before: Seen) -> None:
        """Wait until nothing moves, and compare."""
        self.session.run(self.session.world.wait_rest(self._agree))
        after = self.see()
        happened, said = preview_of.find_deeds(before, after), preview_of.list_deeds(preview)
        uncertain = {each.resource for each in preview.changes if each.is_uncertain}
        wrong = []
        for resource in sorted({*happened, *said}):
            stated, seen = said.get(resource), happened.get(resource)
            if resource in uncertain and (stated is None or seen in (None, stated, Action.REPLACE)):
                continue
            if stated is not seen:
                wrong.append(f"{resource}: the preview says {stated}, and {seen} happened")
        wrong += self._compare_fields(preview, before, after)
        wrong += self._compare_stops(preview)
        if wrong:
            raise AssertionError(
                "\n".join([*wrong, preview_of.show(preview), self._describe(), *map(str, self.history)])
            )

    async def _agree(self) -> list[str]:
        """Nothing is expected of a rest."""
        return []

    def _compare_fields(self, preview: Preview, before: Seen, after: Seen) -> list[str]:
        """What is wrong with the fields that the preview names."""
        wrong = []
        for change in preview.changes:
            if change.action is not Action.UPDATE or change.ref is None:
                continue
            pairs = [
                (raw, after.objects[uid])
                for uid, raw in before.objects.items()
                if raw["metadata"]["name"] == change.ref.name
                and raw["kind"] == change.ref.kind
                and uid in after.objects
            ]
            if not pairs:
                continue
            seen = {each.text: each.new for each in field_changes.find_changes(*pairs[0])}
            named = {each.text: each.new for each in change.fields}
            unknown = {path for path, value in named.items() if "known after" in str(value)}
            missing = {path: value for path, value in named.items() if path not in unknown and seen.get(path) != value}
            extra = seen.keys() - named.keys()
            if missing or extra:
                wrong.append(f"{change.resource}: fields {missing} were not so; {extra} were not named")
        return wrong

    def _compare_stops(self, preview: Preview) -> list[str]:
        """Whether it stops where the preview says."""
        said = {(each.resource, each.hook) for each in preview.changes if each.action is Action.STOP}
        status: dict[str, Any] = (self._find_stack().get("status")) or {}
        seen = {(each["resource"], each["hook"]) for each in status.get("breakpoints") or ()}
        possible = {(each.resource, each.hook) for each in preview.changes if each.is_uncertain and each.hook}
        certain, unnamed = (
            said - possible,
            {each for each in seen - said if each[0] not in self._list_uncertain(preview)},
        )
        is_wrong = unnamed or not certain <= seen
        return [f"the preview says stops at {said}, and it stops at {seen}"] if is_wrong else []

    def _list_uncertain(self, preview: Preview) -> set[str]:
        return {each.resource for each in preview.changes if each.is_uncertain}

    def _find_stack(self) -> Object:
        found = self.session.world.server.find(fake_kinds.STACK.kind, STACK.namespace, STACK.name)
        assert found is not None
        return found

    def _describe(self) -> str:
        status = self._find_stack().get("status", {})
        ready = [each for each in status.get("conditions", ()) if each["type"] == "Ready"]
        kept = {key: status.get(key) for key in ("phase", "target", names.ANNOTATION_HASH, "breakpoints")}
        return f"{kept} {ready}"
