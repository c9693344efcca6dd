"""Outlines of definitions: digests of all that a compilation depends on. They show which elements of long lists changed.

Only the members of these are compiled: a part of the definition. Must not know what an element means.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from hearth.model import value_class
from hearth.model.chunked_work import ChunkedWork
from hearth.template.blueprint import Blueprint, Definition, ListOutline, Outline, StackIdentity
from hearth.template.cel.expression_validator import ValidExpression

CHUNK = 4
"""Elements with one digest. Members of a changed chunk are compiled again, 0.06 ms each; a digest costs 0.002 ms."""
BLOCK = 256
"""Elements that are digested at once, 0.01 ms. Only the chunks of a changed block get new digests."""
DIGEST_SIZE = 16
"""Bytes. With a collision, a member would keep its former manifest; 128 bits exclude that."""
LONG = 512
"""Elements from which a list has an outline. Fewer members are compiled in less than 40 ms."""
LARGE = 16 * 1024
"""Bytes of JSON from which a list has an outline. Expressions get such parameters reduced to what they read."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionPart:
    """All of a template with only some members of its collections. A list of the definition contains only their elements."""

    positions: Mapping[str, Sequence[int]]
    """By parameter, the positions that the elements of its list have in the whole list."""
    indices: tuple[int, ...] | None = None
    """Of a group, the indices of its members; None for a Stack."""

    def find_positions(self, for_each: ValidExpression | None) -> Sequence[int] | None:
        """Return the positions of the elements that a `forEach` names; None if it names all."""
        name = find_list(for_each)
        return self.positions.get(name) if name is not None else None


def name_read(name: str) -> str:
    """Return what stands for a list of external objects among the names of parameters, of which none ends so."""
    return f"{name}[]"


def find_list(for_each: ValidExpression | None) -> str | None:
    """Return the parameter, or the list of external objects, whose elements a `forEach` names, if that is all it does."""
    reads = for_each.parsed.reads.reads if for_each is not None else ()
    if for_each is not None and len(for_each.parsed.roots) == 1 and for_each.parsed.roots[0] == for_each.parsed.text:
        return name_read(for_each.parsed.text)
    if for_each is None or len(reads) != 1 or reads[0].root != "params" or len(reads[0].steps) != 1:
        return None
    (step,) = reads[0].steps
    return step if isinstance(step, str) and str(reads[0]) == for_each.parsed.text else None


def make(
    definition: Definition, *, stack: StackIdentity, place: str, previous: Blueprint | None = None
) -> ChunkedWork[Outline | None]:
    """Make the outline; None if the definition has no long list and is no large group, or is no JSON.

    place: the cluster and the generation of its kinds; previous: a blueprint of nearly the same lists, which saves most
    digests and changes none. The digests stay in this process, so they need no key.
    """
    origin = previous.compiled_from if previous is not None else None
    known = origin.outline.lists if origin is not None else {}
    # User input: it may differ from its declared type.
    given: Any = definition.parameters
    read = {name_read(name): each.value for name, each in definition.read.items()}
    values = {**given, **read} if isinstance(given, dict) else {}
    try:
        lists: dict[str, ListOutline] = {}
        for name, value in values.items():
            if (found := (yield from outline_list(value, known.get(name)))) is not None:
                lists[name] = found
        if not lists and (definition.size is None or definition.size.replicas < LONG):
            return None
        rest = {name: None if name in lists else value for name, value in values.items()}
        parts = (definition.template, rest if values else given, definition.origins)
        paths = (definition.template_path, definition.parameters_path)
        head = orjson.dumps((*parts, *paths, place))
    except TypeError:
        return None
    return Outline(head=digest(head), stack=stack, lists=lists, size=definition.size, surge=definition.surge)


def outline_list(value: Any, known: ListOutline | None = None) -> ChunkedWork[ListOutline | None]:
    """Make the outline of a parameter; None unless it is a long list. Raises TypeError if it is no JSON.

    known: the outline of a similar list.
    """
    if not isinstance(value, list) or len(value) < LONG:
        return None
    texts = [orjson.dumps(value[at : at + BLOCK]) for at in range(0, len(value), BLOCK)]
    if sum(map(len, texts)) < LARGE:
        return None
    blocks = list(map(digest, texts))
    chunks: list[bytes] = []
    for number, block in enumerate(blocks):
        chunks.append(find_chunks(known, number, block) or digest_chunks(value[number * BLOCK : (number + 1) * BLOCK]))
        yield
    return ListOutline(length=len(value), blocks=b"".join(blocks), chunks=b"".join(chunks))


def find_chunks(known: ListOutline | None, number: int, block: bytes) -> bytes:
    """Return the digests of the chunks of a block that the known list has at the same place; empty if it has not."""
    if known is None or known.blocks[number * DIGEST_SIZE : (number + 1) * DIGEST_SIZE] != block:
        return b""
    size = BLOCK // CHUNK * DIGEST_SIZE
    return known.chunks[number * size : (number + 1) * size]


def digest_chunks(elements: list[Any]) -> bytes:
    """Return the digests of the chunks of one block."""
    return b"".join(digest(orjson.dumps(elements[at : at + CHUNK])) for at in range(0, len(elements), CHUNK))


def digest(text: bytes) -> bytes:
    """Return the digest of a text."""
    return hashlib.blake2b(text, digest_size=DIGEST_SIZE).digest()


def find_changed(known: ListOutline, new: ListOutline) -> Sequence[int]:
    """Return the positions in the new list whose elements may differ from those of the known one."""
    if known == new:
        return ()
    starts = range(0, len(new.chunks), DIGEST_SIZE)
    changed = [at for at in starts if known.chunks[at : at + DIGEST_SIZE] != new.chunks[at : at + DIGEST_SIZE]]
    firsts = (at // DIGEST_SIZE * CHUNK for at in changed)
    return [position for first in firsts for position in range(first, min(first + CHUNK, new.length))]
