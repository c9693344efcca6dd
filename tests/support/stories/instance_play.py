"""Plays a story with instances of StackDefinitions instead of Stacks: same steps, same expectations.

The template of each Stack moves to a definition, its parameters and options to the spec of the instance.
"""

from __future__ import annotations

from hearth.model import names
from hearth.model.child import Object
from hearth.template.instances.instance_form import FURTHER_OPTIONS, USUAL_OPTIONS
from support.server import fake_kinds
from support.stories.story import Story
from support.stories.story_runner import Play, StackPlayed
from support.stories.world import Address

GROUP = fake_kinds.DEFINED_GROUP
VERSION = "v1alpha1"
OPTIONS = (*USUAL_OPTIONS, *FURTHER_OPTIONS)


class InstancePlay(Play):
    """One performance of one story."""

    def address_of(self, stack: str) -> Address:
        """The address of that Stack, as an object of its own kind."""
        if not self._is_instance(stack):
            return super().address_of(stack)
        return Address(
            api_version=f"{GROUP}/{VERSION}", kind=find_kind(stack), namespace=self._world.namespace, name=stack
        )

    def _is_instance(self, stack: str) -> bool:
        """Whether the story itself creates that Stack. Other Stacks are nested."""
        made = {step.stack for step in self._story.steps if step.action == "apply"}
        return self.stacks[stack].kind == names.STACK and stack in made

    async def put(self, stack: StackPlayed, spec: Object) -> None:
        """Write the definition if the template changes, then the instance."""
        if not self._is_instance(stack.name):
            await super().put(stack, spec)
            return
        await self._define(stack.name, spec["template"])
        parameters, options = spec.get("parameters") or {}, {key: spec[key] for key in OPTIONS if key in spec}
        await super().put(stack, {**parameters, **({"stack": options} if options else {})})

    async def _define(self, stack: str, template: Object) -> None:
        address = address_of_definition(stack)
        spec = make_definition(stack, template)
        live = await self._world.user.find(address)
        if live is None:
            self.definitions.append(address)
            metadata = {"name": address.name}
            await self._world.user.create(
                {"apiVersion": address.api_version, "kind": address.kind, "metadata": metadata, "spec": spec}
            )
        elif live["spec"]["template"] != template:
            await self._world.user.replace_spec(address, spec)
        else:
            return

        async def look() -> list[str]:
            found = await self._world.user.find(address) or {"metadata": {}}
            status = found.get("status") or {}
            is_seen = status.get("observedGeneration") == found["metadata"].get("generation")
            is_served = any(
                each["reason"] not in ("KindNotServed", "KindTaken") for each in status.get("conditions") or ()
            )
            return [] if is_seen and is_served else [f"the definition {address.name} is not processed yet: {status}"]

        # Without an operator, it has no effect.
        await self._world.wait_until(look)

    async def after_end(self) -> None:
        """Delete the definitions together with their kinds."""
        for address in self.definitions:
            await self._world.user.delete(address)

            async def look(address: Address = address) -> list[str]:
                return [f"{address.name} is left"] if await self._world.user.find(address) is not None else []

            assert await self._world.wait_rest(look) == []


def find_kind(stack: str) -> str:
    """The kind whose only instance is a Stack of the story."""
    return "".join(part.capitalize() for part in stack.split("-"))


def address_of_definition(stack: str) -> Address:
    """The address of the StackDefinition of that kind."""
    plural = f"{find_kind(stack).lower()}s"
    api_version = f"{names.GROUP}/{names.VERSION}"
    return Address(api_version=api_version, kind=names.DEFINITION_KIND, namespace="", name=f"{plural}.{GROUP}")


def make_definition(stack: str, template: Object) -> Object:
    """The spec of the StackDefinition of that kind."""
    kind = find_kind(stack)
    return {
        "group": GROUP,
        "names": {"kind": kind, "plural": f"{kind.lower()}s"},
        "versions": [{"name": VERSION}],
        "scope": "Namespaced",
        "template": template,
        "options": list(FURTHER_OPTIONS),
    }


def can_be_played(played: Story) -> bool:
    """Whether all Stacks of a story have their template in the spec, and no parameters from elsewhere, window or approval."""
    applied = [step.what for step in played.steps if step.action == "apply" and step.kind == names.STACK]
    edited = [step.what for step in played.steps if step.action == "edit"]
    words = {"template", "parameters", *OPTIONS}
    return (
        bool(applied)
        and all(isinstance(each, dict) and each.keys() <= words and "template" in each for each in applied)
        and not any("window" in each or "approval" in each for each in edited)
    )
