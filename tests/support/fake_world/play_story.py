"""Plays one story on the fake cluster and prints all events: `PYTHONPATH=tests python -m support.fake_world.play_story
<story>`.

For debugging failed stories; tests do not use it.
"""

from __future__ import annotations

import sys

from hearth.model.child import Object
from hearth.model.kinds import Kind
from support import virtual_time
from support.checks import expectations
from support.fake_world import fake_world
from support.fake_world.fake_world import FakeWorld
from support.server import fake_kinds
from support.stories import story, story_runner


class Narrator:
    """Prints each change of the server with its moment."""

    def __init__(self, world: FakeWorld) -> None:
        self._world = world
        self._reported = 0
        self._clock = virtual_time.VirtualClock()

    def on_change(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """The server's watcher."""
        for request in self._world.traffic.requests[self._reported :]:
            self.say(f"→ {request}")
        self._reported = len(self._world.traffic.requests)
        raw = after if after is not None else before
        if raw is None or kind == fake_kinds.CONTROLLER_REVISION.kind:
            return
        verb = "created" if before is None else "gone" if after is None else "changed"
        self.say(f"{kind.name.lower()}/{raw['metadata']['name']} {verb}")
        if kind in fake_kinds.STACK_KINDS.values() and after is not None and after.get("status"):
            ready = expectations.find_condition(after, "Ready")
            self.say(f"    {after['status'].get('phase')}: {ready.get('reason')}: {ready.get('message')}")

    def say(self, text: str) -> None:
        print(f"{self._clock.monotonic():9.3f}  {text}")


async def play(slug: str, world: FakeWorld) -> None:
    world.server.watchers.append(Narrator(world).on_change)
    await story_runner.Play(story.load(story.FOLDER / f"{slug}.yaml"), world).perform()
    print("as written;", ", ".join(f"{verb} {count}" for verb, count in world.traffic.count().items()))


if __name__ == "__main__":
    fake_world.run(lambda world: play(sys.argv[1], world))
