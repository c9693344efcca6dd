"""Parses expressions, binds their constants and evaluates them on plain Python values.

An expression is parsed once per text for all definitions, and its constants are bound once per definition. Types are
checked before, in `hearth.template.cel.type_checker`.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, TypeAlias, assert_never

import orjson
from cel_expr_python import cel
from google.protobuf.message import DecodeError

from hearth.model import chunked_work, limits, value_class
from hearth.model.child import Path
from hearth.model.chunked_work import MARKS_IN_A_PIECE, ChunkedWork
from hearth.model.object_list import ObjectList
from hearth.template.blueprint import Evaluating, EvaluationError, Known, Outcome, Pending, Values
from hearth.template.cel import (
    cel_environment,
    cel_values,
    cost,
    evaluation,
    field_references,
    syntax_tree,
    value_sizes,
)
from hearth.template.cel.cel_environment import Library
from hearth.template.cel.cost import Cost, Estimator
from hearth.template.cel.evaluation import Answer, Evaluator, PackedInput, PackedInputs
from hearth.template.cel.field_references import FieldRead
from hearth.template.cel.value_sizes import Large
from hearth.template.cel.weighted_cache import WeightedCache
from hearth.template.text import error_hints

Reads: TypeAlias = Mapping[str, frozenset[Path]]

USUAL_FIELDS = tuple(
    "apiVersion kind metadata spec status data stringData binaryData type immutable "
    "rules roleRef subjects subsets endpoints ports template provisioner parameters value".split()
)
"""Fields that represent a whole object when the schema of its kind is unknown."""
TEXTS_KEPT = 8_192
PARSED_BYTES_PER_BYTE, PARSED_BYTES = 42, 1_024
"""The memory of an expression for each byte of its CEL serialization, and the fixed part."""
UNPACK_TIME, UNPACK_MEMORY = 0.02, 16
"""Microseconds and bytes for each byte of an object that is unpacked."""
ESTIMATORS_KEPT = 256
"""Number of cached estimators, for expressions that need one only if their inputs are large."""
ZONE = re.compile(r"[+-]?\d{2}:\d{2}|[A-Za-z][\w+-]{0,30}(?:/[\w+-]{1,30}){0,2}", re.ASCII)
"""A time zone: an offset or a name."""
_TOO_DEEP = "the expression is nested too deeply; split it, e.g. with a condition"
_ERROR = cel.Type.ERROR
_COMPARED = operator.attrgetter("parsed", "path", "names", "constants", "reads", "is_sensitive", "needs_bound")
_OPTIONAL = "(\n{text}\n).orValue(null)"
UNWRITABLE = "it gives a value that a manifest cannot contain, e.g. an optional within a list; write [?…] or orValue(…)"


@value_class.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parsed:
    """The parsed text of an expression, valid in any location. Compared by identity: there is one per text."""

    text: str
    program: Any
    reads: field_references.ExpressionReads
    roots: tuple[str, ...]
    """The names that it reads, sorted."""
    required: tuple[FieldRead, ...]
    optional: tuple[FieldRead, ...]
    estimator: Estimator | None
    """None if the expression stays cheap for all small inputs."""


_parsed: WeightedCache[str, Parsed] = WeightedCache(most=TEXTS_KEPT, most_weight=limits.PARSED_BYTES)


def parse(text: str) -> Parsed:
    """Parse the expression `text`. Raises cel_environment.CelCompileError."""
    known = _parsed.find(text)
    if known is not None:
        return known
    parsed, size = parse_new(text)
    return _parsed.keep(text, parsed, weight=PARSED_BYTES + PARSED_BYTES_PER_BYTE * size)


def check_length(text: str) -> None:
    """Raise cel_environment.CelCompileError for an expression that is too long."""
    if len(text) > limits.EXPRESSION_LENGTH:
        found, most = len(text), limits.EXPRESSION_LENGTH
        raise cel_environment.refuse(f"the expression has {found} characters, but at most {most} are allowed; split it")


def check_zones(tree: Any) -> None:
    """Raise cel_environment.CelCompileError for a time zone that is not the name of one, written as text.

    CEL reads any other path as a file, even one that never ends, and keeps each name until the process ends.
    """
    for call in syntax_tree.list_calls(tree):
        if call.function not in cost.TIME_PARTS or not call.args:
            continue
        zone = call.args[-1].const_expr.string_value
        if not ZONE.fullmatch(zone):
            found = f"found {error_hints.quote(zone)}" if zone else "found an expression"
            raise cel_environment.refuse(
                f"{call.function} needs a time zone that is written as text, e.g. 'Europe/Paris' or '+02:00', {found}"
            )


def parse_new(text: str) -> tuple[Parsed, int]:
    """Parse a new expression; return it with the bytes of its CEL serialization.

    Raises cel_environment.CelCompileError.
    """
    if not text.strip():
        raise cel_environment.refuse("the expression is empty", is_syntax=True)
    check_length(text)
    program = compile_unchecked(text)
    try:
        serialized = program.serialize()
        tree = syntax_tree.parse_tree(serialized)
    except DecodeError:
        # The protobuf parser fails at a depth that CEL still accepts.
        raise cel_environment.refuse(_TOO_DEEP) from None
    check_zones(tree)
    reading = field_references.find_reads(tree)
    estimator = None if cost.is_harmless(text, tree) else cost.make_estimator(tree)
    if syntax_tree.soften_has(tree):
        environment = find_environment(cel_environment.find_library(text))
        program = environment.deserialize(syntax_tree.write_tree(tree))
    parsed = Parsed(
        text=text,
        program=program,
        reads=reading,
        roots=tuple(sorted({read.root for read in reading.reads})),
        required=(*(read for read in reading.reads if read.is_required), *reading.intermediate),
        optional=tuple(read for read in reading.reads if not read.is_required),
        estimator=estimator,
    )
    return parsed, len(serialized)


@functools.cache
def find_environment(library: Library) -> Any:
    """Find the environment for expressions without type checks."""
    return cel_environment.new_environment(library=library)


def compile_unchecked(text: str) -> Any:
    """Compile an expression without type checks. Raises cel_environment.CelCompileError."""
    environment = find_environment(cel_environment.find_library(text))
    return cel_environment.compile_text(environment, text, is_checked=False)


# The first environment takes longest to create. It is created here, so that no reconcile waits for it.
find_environment(Library.NONE)


@functools.lru_cache(maxsize=ESTIMATORS_KEPT)
def find_estimator(text: str) -> Estimator:
    """Find the estimator of an expression that usually needs no bound."""
    compiled = compile_unchecked(text)
    return cost.make_estimator(syntax_tree.parse_tree(compiled.serialize()))


def find_offset(parsed: Parsed, name: str) -> int:
    """Find the first offset of a name in the text of an expression, in characters."""
    return next((offset for each, offset in list_offsets(parsed.text) if each == name), 0)


def list_offsets(text: str) -> list[tuple[str, int]]:
    """List the names that an expression reads with their offsets. Raises cel_environment.CelCompileError."""
    check_length(text)
    try:
        tree = syntax_tree.parse_tree(compile_unchecked(text).serialize())
    except DecodeError:
        raise cel_environment.refuse(_TOO_DEEP) from None
    return field_references.list_offsets(tree)


def parse_optional(text: str) -> Parsed:
    """Parse an expression with an optional result: its value, or null without one."""
    return parse(_OPTIONAL.format(text=text))


@value_class.dataclass(frozen=True, slots=True)
class Failed:
    """An error that CEL returned instead of a value."""

    message: str


def run(parsed: Parsed, data: Mapping[str, Any]) -> Any:
    """Evaluate in CEL and return plain Python; Failed in case of an error."""
    try:
        result = parsed.program.eval(data=data)
    except RuntimeError as error:
        # Some steps into a value that is not a map raise this instead of returning an error value.
        return Failed(str(error))
    try:
        value = result.plain_value()
    except (TypeError, SystemError):
        # The wrapper cannot represent optionals and some other types.
        return Failed(UNWRITABLE)
    # The wrapper returns an error as text. Check the type only of texts, because reading it takes as long as reading
    # the value.
    return Failed(value) if value.__class__ is str and result.type() == _ERROR else value


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Expression:  # noqa: PLW1641 -- its constants have no hash
    """An expression whose constants in its definition are bound."""

    parsed: Parsed
    path: str
    """Its path from the root of the Stack."""
    names: tuple[str, ...]
    """The resources that it reads."""
    constants: Mapping[str, Any] = field(repr=False)
    """The other values that it reads."""
    reads: Reads
    is_sensitive: bool = False
    """Whether it reads a sensitive value, so that no message may contain details."""
    needs_bound: bool = False
    """Whether its cost is bounded before each evaluation."""
    evaluator: Evaluator = field(default=evaluation.ALONE, repr=False, compare=False)
    """Evaluates it if the evaluation may take long."""

    def __eq__(self, other: object) -> bool:
        """Return whether both have the same values. Constants count as JSON, because 1, 1.0 and true are equal in Python."""
        if not isinstance(other, Expression):
            return NotImplemented
        try:
            return _COMPARED(self) == _COMPARED(other) and orjson.dumps(self.constants) == orjson.dumps(other.constants)
        except TypeError:
            return False

    def evaluate(self, values_: Values) -> Outcome:
        """Evaluate it and return its value as JSON."""
        data, needs_bound = dict(self.constants), self.needs_bound
        packed: dict[str, PackedInput] = {}
        for name in self.names:
            fields: Any = values_.get(name)
            if fields is None:
                return self.wait_for_children(values_)
            if fields.__class__ is ObjectList:
                if not self.may_unpack(fields):
                    packed[name] = PackedInput(fields, self.reads[name])
                    continue
                # Read only the needed fields, so that a list of thousands of objects stays cheap.
                fields = [value_sizes.narrow(each, self.reads[name]) for each in fields]
                needs_bound = True
            elif fields.__class__ is Large:
                fields = value_sizes.narrow(fields, self.reads[name])
                needs_bound = needs_bound or not is_small(fields)
            data[name] = fields
        if packed:
            return self.delegate(PackedInputs(data=data, lists=packed, names=self.names))
        if not needs_bound or self.is_surely_small(data):
            began = self.evaluator.begin_work()
            if began is None:
                return self.delegate(data)
            outcome = self.run(data)
            self.evaluator.end_work(began)
            return outcome
        return self.run(data) if self.evaluator.admits(self.find_estimator().estimate(data)) else self.delegate(data)

    def run(self, data: Mapping[str, Any]) -> Outcome:
        """Evaluate it in this process."""
        found = run(self.parsed, data)
        if found.__class__ is Failed:
            return self.classify_failure(data, found.message, names=self.names)
        try:
            return Known(cel_values.convert(found))
        except cel_values.UnrepresentableValue as error:
            return self.refuse(str(error))

    def find_estimator(self) -> Estimator:
        """Return the estimator of its cost."""
        return self.parsed.estimator or find_estimator(self.parsed.text)

    def is_surely_small(self, data: Mapping[str, Any]) -> bool:
        """Return whether it needs no bound on these inputs."""
        return self.find_estimator().is_surely_small(value_sizes.weigh(data, most_nodes=limits.SMALL_INPUT_NODES))

    def may_unpack(self, objects: ObjectList) -> bool:
        """Return whether these objects may be unpacked in this process."""
        if self.evaluator is evaluation.ALONE:
            return objects.size <= limits.LIST_UNPACKED_BYTES
        return self.evaluator.admits(Cost(time=objects.size * UNPACK_TIME, memory=objects.size * UNPACK_MEMORY))

    def delegate(self, data: Mapping[str, Any] | PackedInputs) -> Outcome:
        """Evaluate it in the evaluator, which bounds its resources."""
        answer: Answer | None = self.evaluator.ask(self.parsed.text, data)
        match answer:
            case None:
                return Pending(
                    missing=(Evaluating(f"the evaluation of {error_hints.quote_expression(self.parsed.text)}"),)
                )
            case evaluation.Value():
                return Known(orjson.loads(answer.packed))
            case evaluation.Failure():
                # The evaluator has already looked for missing fields of packed objects.
                inputs = {} if isinstance(data, PackedInputs) else data
                names = () if isinstance(data, PackedInputs) else self.names
                return self.classify_failure(inputs, answer.message, names=names)
            case evaluation.Absent():
                return Pending(missing=answer.missing)
            case evaluation.Unwritable():
                return self.refuse(answer.message)
            case evaluation.Excess():
                text = error_hints.quote_expression(self.parsed.text)
                return EvaluationError(path=self.path, message=f"expression {answer.message}; simplify it: {text}")
        assert_never(answer)

    def wait_for_children(self, values_: Values) -> Pending:
        """Return a Pending for every resource that has no child."""
        absent = {name for name in self.names if values_.get(name) is None}
        missing = (str(read) for read in self.parsed.reads.reads if read.root in absent)
        return Pending(missing=tuple(dict.fromkeys(missing)))

    def classify_failure(
        self, data: Mapping[str, Any], message: str, *, names: tuple[str, ...]
    ) -> Pending | EvaluationError:
        """Return Pending if the evaluation failed because a path is missing, otherwise an error. Ignore the message."""
        missing = find_missing(self.parsed, names, data)
        if missing:
            return Pending(missing=missing)
        return self.refuse(f"fails: {cel_environment.clean(message)}")

    def refuse(self, complaint: str) -> EvaluationError:
        """Return the error, with details only if it reads nothing sensitive."""
        if self.is_sensitive:
            complaint = "fails; the cause is not shown because it reads a sensitive value"
        return EvaluationError(path=self.path, message=f"`{self.parsed.text}` {complaint}")


def find_missing(parsed: Parsed, names: Collection[str], data: Mapping[str, Any]) -> tuple[str, ...]:
    """Find the paths that an expression reads and that are missing. names: the inputs that are objects."""
    missing = [str(read) for read in parsed.required if read.root in names and is_awaited(parsed, read, data)]
    missing += [str(read) for read in parsed.optional if read.root in names and is_blocked(data, read)]
    return tuple(missing)


def is_awaited(parsed: Parsed, read: FieldRead, data: Mapping[str, Any]) -> bool:
    """Return whether `read` is a missing path of a child. A computed key is not known and counts as missing."""
    found, computed = data[read.root], read.steps
    if found.__class__ is list:
        if read.steps and isinstance(read.steps[0], int) and not 0 <= read.steps[0] < len(found):
            # A collection keeps its present number of members, so a position beyond them is an error, literal or
            # computed.
            return False
        computed = read.steps[1:]
    return field_references.is_missing(found, read.steps) or (
        parsed.reads.is_dynamic and field_references.EACH in computed
    )


def is_blocked(data: Mapping[str, Any], read: FieldRead) -> bool:
    """Return whether a null blocks an optional read in a way that CEL cannot bypass."""
    value: Any = data[read.root]
    for step in read.steps:
        if value is None:
            return True
        if not isinstance(step, str) or not isinstance(value, dict) or step not in value:
            return False
        value = value[step]
    return False


def bind(  # noqa: PLR0913 -- each is a separate part of an expression
    parsed: Parsed,
    *,
    path: str,
    constants: Mapping[str, Any],
    absent: Collection[str] = (),
    fields: Mapping[str, Collection[str]] = MappingProxyType({}),
    is_sensitive: bool = False,
    evaluator: Evaluator = evaluation.ALONE,
    collections: Collection[str] = (),
    needs_bound: bool = False,
) -> Expression:
    """Bind the `constants` that the expression reads; its other names are resources.

    absent: resources that do not exist; an optional read of them finds nothing. fields: by resource the fields of its
    kind, for an expression that reads a resource as a whole. is_sensitive: whether it reads a sensitive value.
    evaluator: evaluates it if that may take long. collections: the names of resources that are lists of objects.
    needs_bound: whether the constants are large.
    """
    bound: dict[str, Any] = {name: constants[name] for name in parsed.roots if name in constants}
    bound.update({name: {} for name in parsed.roots if name in absent})
    needs_bound = needs_bound or parsed.estimator is not None
    for name, value in bound.items():
        if value.__class__ is Large:
            bound[name] = value_sizes.narrow(value, find_paths(parsed, name, value.keys()))
            needs_bound = needs_bound or not is_small(bound[name])
    names = tuple(name for name in parsed.roots if name not in bound)
    found = {
        name: find_paths(parsed, name, fields.get(name, USUAL_FIELDS), is_list=name in collections) for name in names
    }
    return Expression(
        parsed=parsed,
        path=path,
        names=names,
        constants=bound,
        reads=found,
        is_sensitive=is_sensitive,
        needs_bound=needs_bound,
        evaluator=evaluator,
    )


def is_bounded(parsed: Parsed) -> bool:
    """Return whether an expression stays cheap on inputs of ordinary size."""
    if parsed.estimator is None:
        return True
    usual = value_sizes.make_usual(limits.USUAL_INPUT_NODES, limits.USUAL_INPUT_TEXT, limits.USUAL_INPUT_ELEMENTS)
    found = parsed.estimator.bound(dict.fromkeys(parsed.roots, usual), most=limits.USUAL_MICROSECONDS)
    return found.memory <= limits.EVALUATOR_MEMORY


def enlarge(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields, wrapped if they are so large that expressions should receive only the paths they read."""
    return fields if is_small(fields) else Large(fields)


def is_small(fields: Any) -> bool:
    """Return whether an expression may receive the whole value. For most objects, their JSON shows this fastest."""
    try:
        if len(orjson.dumps(fields)) <= limits.SMALL_INPUT_BYTES:
            return True
    except TypeError:
        # It is not JSON, so its values are counted.
        pass
    found = value_sizes.weigh(fields, most_nodes=limits.SMALL_INPUT_NODES)
    return found.text <= limits.SMALL_INPUT_TEXT


def find_paths(parsed: Parsed, name: str, fields: Collection[str], *, is_list: bool = False) -> frozenset[Path]:
    """Return the paths that are read of `name`; every one of `fields` if it is read as a whole.

    is_list: whether the name is a list. The paths are then those of its objects.
    """
    reads = field_references.find_object_reads(parsed.reads, (name,) if is_list else ())
    paths = {read.path for read in reads if read.root == name}
    if () in paths:
        return frozenset((field,) for field in fields)
    return field_references.shorten(paths)


def merge_reads(many: Iterable[Reads]) -> Reads:
    """Return the union of all reads."""
    return chunked_work.finish(merge_reads_in_pieces(many))


def merge_reads_in_pieces(many: Iterable[Reads]) -> ChunkedWork[Reads]:
    """Return the union of all reads."""
    paths: dict[str, set[Path]] = {}
    for number, one in enumerate(many, start=1):
        if number % MARKS_IN_A_PIECE == 0:
            yield
        for name, found in one.items():
            paths.setdefault(name, set()).update(found)
    merged: dict[str, frozenset[Path]] = {}
    for name, read in paths.items():
        if len(merged) % MARKS_IN_A_PIECE == 0:
            yield
        merged[name] = field_references.shorten(read)
    return merged
