"""One Stack in a fake world: each edit is previewed at rest, then applied, and the changes are compared with the
preview.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies

from hearth.model.child import Object
from hearth.preview.changes import Preview
from support.fake_world import preview_of
from support.fake_world.preview_of import Seen
from support.server import fake_kinds
from support.stateful import random_templates
from support.stateful.random_templates import Drafts, Edit
from support.stateful.session_state import Ordered
from support.stateful.stack_session import Session
from support.stories.stack_manifests import STACK

HOOKS = ("PreCreate", "PostCreate", "PreUpdate", "PostUpdate", "PreReplace", "PostReplace", "PreDelete", "PostDelete")
KNOWN_EDITS = tuple(what for what in random_templates.EDITS if what not in ("fails", "heal"))
"""Edits without failing probes, because previews cannot predict those."""
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
"""An edit of the template, with the breakpoints and restrictions at that time."""


def make_environment(stops: Sequence[dict[str, str]], denied: Sequence[dict[str, str]]) -> Object:
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
            # The operator remembers the rejected change, so it does not stop before it again.
            stops = ()
        self.spec = {**Ordered(drafts=self.drafts).make_spec(), "environment": make_environment(stops, denied)}
        before = self.see()
        preview = self.preview()
        self.session.run(self.session.world.user.replace_spec(STACK, self.spec))
        self.compare(preview, before)

    def preview(self) -> Preview:
        """The predicted effect of the spec."""
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
        status = self._find_stack().get("status") or {}
        if wrong := preview_of.find_disagreements(preview, before, self.see(), status):
            raise AssertionError("\n".join([*wrong, preview_of.show(preview), str(status), *map(str, self.history)]))

    async def _agree(self) -> list[str]:
        """Nothing is expected of a rest."""
        return []

    def _find_stack(self) -> Object:
        found = self.session.world.server.find(fake_kinds.STACK.kind, STACK.namespace, STACK.name)
        assert found is not None
        return found
