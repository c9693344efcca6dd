"""Two Stacks that change each other's objects without end: what is sent is bounded, on the fake cluster in virtual time."""

from __future__ import annotations

from pathlib import Path

from support.fake_world import fake_world
from support.stories import story, story_runner

CIRCLE = """
story: two Stacks that read and change each other's objects are slowed down
steps:
  - stack: other
    apply:
      template:
        resources:
          theirs: {externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: shop-a}}, optional: true}
          b: {config: {n: "${string(int(theirs.?data.?n.orValue('0')) + 1)}"}}
    expect: {phase: CreateComplete, objects: {b: {data.n: "1"}}}
  - apply:
      template:
        resources:
          theirs: {externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: other-b}}, optional: true}
          a: {config: {n: "${string(int(theirs.?data.?n.orValue('0')) + 1)}"}}
    until: {}
  - wait: 60m
    until: {requests: {apply: <=250}}
  - stack: other
    edit: {template: {resources: {theirs: null, b: {config: {n: "0"}}}}}
    expect: {phase: UpdateComplete, objects: {b: {data.n: "0"}}}
"""


def test_stacks_that_feed_each_other_are_slowed_down(tmp_path: Path) -> None:
    """To about one apply a minute each; a change of one ends it."""
    file = tmp_path / "circle.yaml"
    file.write_text(CIRCLE)
    fake_world.run(lambda world: story_runner.Play(story.load(file), world).perform())
