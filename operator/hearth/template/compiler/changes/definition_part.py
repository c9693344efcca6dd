"""The part of a definition to compile: all of its template, with only some members of its collections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hearth.model import value_class
from hearth.template.cel.expression_validator import ValidExpression


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionPart:
    """The members that are compiled. A list of the definition contains only their elements."""

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
