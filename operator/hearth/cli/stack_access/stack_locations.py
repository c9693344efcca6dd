"""Resolves an argument to an object: `shop` to a Stack, `rg/queue` to a ResourceGroup, `webapp/shop` to an instance."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from hearth.cli.stack_views import type_words
from hearth.cli.stack_views.lists import stack_list
from hearth.cli.stack_views.stack_state import StackState
from hearth.model import errors, names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.text import enumeration
from hearth.model.well_known_kinds import RESOURCE_GROUP, STACK

if TYPE_CHECKING:
    from hearth.cli.stack_access.session import Session

CATEGORY: Final = "hearth"
"""The category that the operator gives to each kind of a StackDefinition."""


class UnknownType(errors.HearthError):
    """Error for an argument with a type that is no kind of Stack, or not the required kind."""


@value_class.dataclass(frozen=True, slots=True)
class InstanceKind:
    """The kind of a StackDefinition, and its names in arguments."""

    kind: Kind
    words: frozenset[str]
    """The names that kubectl accepts, in lower case: `webapp`, `webapps`, `wa`, `webapps.platform.example`."""


@value_class.dataclass(frozen=True, slots=True)
class StackLocation:
    """Kind, namespace and name of an object."""

    kind: Kind
    namespace: str
    name: str

    @property
    def is_group(self) -> bool:
        """Whether it is a ResourceGroup."""
        return self.kind == RESOURCE_GROUP

    @property
    def title(self) -> str:
        """Return its name for messages, whether it exists or not."""
        return self.parse({"kind": self.kind.name, "metadata": {"name": self.name}}).title

    def parse(self, raw: Object) -> StackState:
        """Return the object that was read there."""
        return parse(raw, self.kind)


def parse(raw: Object, kind: Kind) -> StackState:
    """Return an object of that kind as a Stack."""
    return StackState(raw, None if kind.group == names.GROUP else kind)


async def locate(session: Session, namespace: str, argument: str) -> StackLocation:
    """Return the location of the object that an argument names. Raises UnknownType, ApiStatusError and Unreachable."""
    found, path = await locate_within(session, namespace, argument)
    if path:
        raise UnknownType(f"{argument!r} is not the name of a Stack: a name has no slash, except in TYPE/NAME")
    return found


async def locate_within(
    session: Session, namespace: str, argument: str, *, has_path: bool = False
) -> tuple[StackLocation, Sequence[str]]:
    """Split an argument into the location of the object and the path within it. Raises the same errors as `locate`.

    has_path: whether `shop/web` may be a resource of the Stack `shop`.
    """
    first, *rest = argument.split("/")
    if not rest:
        return StackLocation(STACK, namespace, first), ()
    word = first.lower()
    if word in type_words.STACK or word in type_words.GROUP:
        kind = STACK if word in type_words.STACK else RESOURCE_GROUP
        return StackLocation(kind, namespace, rest[0]), rest[1:]
    known = await list_instance_kinds(session)
    found = [each.kind for each in known if word in each.words]
    if len(found) > 1:
        listed = enumeration.enumerate_names(sorted(f"{kind.plural}.{kind.group}/{rest[0]}" for kind in found))
        raise UnknownType(f"{first} matches several types; use one of {listed}")
    if found:
        return StackLocation(found[0], namespace, rest[0]), rest[1:]
    if has_path:
        return StackLocation(STACK, namespace, first), rest
    types = sorted(f"{kind.plural}.{kind.group}" for kind in (STACK, RESOURCE_GROUP, *(each.kind for each in known)))
    raise UnknownType(f"the server has no Stack type {first!r}; it has {enumeration.enumerate_names(types)}")


async def read(session: Session, location: StackLocation) -> StackState:
    """Return the object. Raises ApiStatusError and Unreachable."""
    return location.parse(await session.get(location.kind, location.namespace, location.name))


async def get_stack(session: Session, namespace: str, argument: str, *, wanted: str) -> StackState:
    """Return the Stack or instance that an argument names. wanted: a feature that ResourceGroups lack.

    Raises UnknownType, ApiStatusError and Unreachable.
    """
    location = await locate(session, namespace, argument)
    if location.is_group:
        raise UnknownType(f"a ResourceGroup has no {wanted}; specify a Stack")
    return await read(session, location)


def make_absence(location: StackLocation) -> errors.ApiStatusError:
    """Return the error for a missing object, with the namespace that was searched."""
    kind = location.kind
    message = f'{kind.plural}.{kind.group} "{location.name}" not found in namespace {location.namespace}'
    return errors.ApiStatusError(code=404, status={"reason": "NotFound", "message": message})


async def list_instance_kinds(session: Session) -> Sequence[InstanceKind]:
    """Return the kinds of all StackDefinitions that the server serves, one version of each."""
    from hearth.kube.discovery.discovery import AGGREGATED

    answer = await session.connection.request("GET", "/apis", accept=AGGREGATED)
    return [found for group in object_fields.entries(answer, "items") for found in find_instance_kinds(group)]


def find_instance_kinds(group: Mapping[str, Any]) -> Sequence[InstanceKind]:
    """Return the kinds of one group, as discovery describes it."""
    from hearth.kube.discovery.discovery import is_well_formed

    name = object_fields.text(group, "metadata", "name")
    if name == names.GROUP:
        return ()
    found: dict[str, InstanceKind] = {}
    # The server lists its preferred version first.
    for version in object_fields.entries(group, "versions"):
        for resource in object_fields.entries(version, "resources"):
            if CATEGORY in object_fields.texts(resource, "categories"):
                each = parse_instance_kind(name, object_fields.text(version, "version"), resource)
                if is_well_formed(each.kind):
                    found.setdefault(each.kind.plural, each)
    return list(found.values())


def parse_instance_kind(group: str, version: str, resource: Any) -> InstanceKind:
    """Return the kind that discovery describes."""
    plural, kind = object_fields.text(resource, "resource"), object_fields.text(resource, "responseKind", "kind")
    words = {plural, kind, object_fields.text(resource, "singularResource")}
    words |= {f"{each}.{group}" for each in words} | set(object_fields.texts(resource, "shortNames"))
    found = Kind(group=group, version=version, name=kind, plural=plural, namespaced=True)
    return InstanceKind(found, frozenset(each.lower() for each in words if each))


async def list_kinds(session: Session) -> Collection[Kind]:
    """Return all kinds of Stacks: our own, and the kinds of StackDefinitions."""
    return [STACK, RESOURCE_GROUP, *(each.kind for each in await list_instance_kinds(session))]


async def list_all(
    session: Session, namespace: str, kinds: Collection[Kind], *, selector: str = ""
) -> list[StackState]:
    """Return the objects of all these kinds, sorted; namespace: "" for all. Raises ApiStatusError and Unreachable.

    Kinds that the user cannot list are left out, see `Session.denied`. If the user can list none, raises
    ApiStatusError.
    """

    async def list_of(kind: Kind) -> list[StackState]:
        return [parse(raw, kind) for raw in await session.list_allowed(kind, namespace, selector=selector)]

    found = await asyncio.gather(*map(list_of, kinds))
    denied = [session.denied[kind, namespace] for kind in kinds if (kind, namespace) in session.denied]
    if denied and len(denied) == len(kinds):
        raise denied[0]
    return stack_list.sort(each for stacks in found for each in stacks)
