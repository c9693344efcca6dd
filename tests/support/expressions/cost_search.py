"""Searches for expressions and inputs that exceed their cost bound: random ones, then a climb from the worst.

Every function that an expression can call has a form here.
"""

from __future__ import annotations

import math
import random
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hearth.model import limits
from hearth.template.cel import cel_environment, expressions, value_sizes
from hearth.template.cel.cost import Estimator
from hearth.template.cel.value_sizes import Bound, Meter, TooMuch

REFERENCE_STEPS = 100_000
REFERENCE_MICROSECONDS = 6_000.0
"""Time of the reference loop on an idle machine."""
SHORTEST = 20.0
"""Minimum measurable time in microseconds."""
LONGEST_TEXT, LONGEST_LIST = 120_000, 3_000
DEEPEST = 3

FORMS: dict[str, tuple[str, ...]] = {
    "S": (
        *("{S}.replace({S}, {S})", "{S}.replace({S}, {S}, {N})", "{S}.lowerAscii()", "{S}.upperAscii()", "{S}.trim()"),
        *("{S}.reverse()", "{S}.substring({N})", "{S}.substring(0, {N})", "{S}.charAt({N})", "{S} + {S}", "string({N})"),
        *("string({B})", "string({D})", "base64.encode({B})", "strings.quote({S})", "{L}.map(x, string(x)).join({S})"),
        *("{S}.split({S}).join({S})", "{T}.join({S})", "{T}.join()", "'%s'.format([{A}])", "'%s%s'.format([{A}, {A}])"),
        *("'%x'.format([{S}])", "'%X'.format([{B}])", "'%.1000f'.format([{D}])", "'%e %d %b %o'.format([{D}, {N}, {N}, {N}])"),
        *("cel.bind(y, {S}, y + y)", "({P} ? {S} : {S})", "{T}[{N}]", "optional.of({S}).orValue({S})", "quantity({Q})"),
        *("optional.of({S}).or(optional.none()).value()", "optional.ofNonZeroValue({S}).orValue('')", "string(type({A}))"),
        *("quantity({Q}).add(quantity({Q}))", "quantity({Q}).sub({N})", "string(timestamp({I}))", "string(duration({I}))"),
        *("dyn({S})", "string({P})", "[?optional.of({S})][0]", "{{'a': {S}}}.a"),
        *("toJson({A})", "toYaml({A})", "sha256({S})", "toJson({M})", "toYaml({L})", "sha256(toJson({A}))", "toYaml({S})"),
    ),
    "B": ("bytes({S})", "base64.decode({S})", "bytes(base64.encode({B}))", "{B} + {B}"),
    "L": (
        *("{L} + {L}", "{L}.map(x, x)", "{L}.map(x, [x, x])", "{L}.map(x, {S})", "{L}.filter(x, x != {N})", "{S}.split('')"),
        *("{L}.map(x, quantity({Q}))", "{L}.map(x, x != 1, x)", "[{A}, {A}, {A}]", "{M}.map(k, k)", "{L}.map(x, {{'a': x}})"),
        *("{M}.map(k, {M}[k])", "{T}", "cel.bind(y, {L}, y + y)", "{T}.map(x, x + {S})", "{T}.map(x, x.replace({S}, {S}))"),
    ),
    "T": ("sort({T})", "{S}.split({S})", "{S}.split({S}, {N})", "{T} + {T}", "{T}.filter(x, x != {S})", "{T}.map(x, x.reverse())"),
    "M": ("{{'a': {A}, {S}: {A}}}", "{{{S}: {L}}}", "merge({M}, {M})"),
    "N": (
        *("size({A})", "{S}.size()", "{S}.indexOf({S})", "{S}.lastIndexOf({S})", "{S}.indexOf({S}, {N})", "int({I})"),
        *("{N} + {N}", "{N} - {N}", "{N} * {N}", "{N} / 3", "{N} % 7", "-({N})", "math.greatest({L})", "math.least({L})"),
        *("{S}.lastIndexOf({S}, {N})", "math.abs({N})", "math.bitAnd({N}, {N})", "math.bitShiftLeft({N}, 3)", "math.sign({N})"),
        *("math.bitOr({N}, {N})", "math.bitXor({N}, {N})", "math.bitNot({N})", "math.bitShiftRight({N}, 2)", "uint({I})"),
        *("quantity({Q}).compareTo(quantity({Q}))", "quantity({Q}).asInteger()", "quantity({Q}).sign()"),
        *("timestamp({I}).getFullYear()", "timestamp({I}).getHours({S})", "timestamp({I}).getDayOfYear('Asia/Kolkata')"),
        *("timestamp({I}).getMonth('America/New_York')", "timestamp({I}).getDate()", "timestamp({I}).getDayOfMonth()"),
        *("timestamp({I}).getDayOfWeek()", "timestamp({I}).getMinutes()", "timestamp({I}).getSeconds()"),
        *("duration({I}).getMilliseconds()", "timestamp({I}).getMilliseconds()", "duration({I}).getHours()"),
        *("duration({S}).getHours()", "timestamp({S}).getFullYear()", "int({S})", "uint({S})", "quantity({S}).sign()"),
    ),
    "D": (
        *("double({I})", "double({S})", "quantity({S}).asApproximateFloat()", "double({N}) * 1.5", "quantity({Q}).asApproximateFloat()", "math.ceil({D})", "math.floor({D})"),
        *("math.round({D})", "math.trunc({D})", "sum({L})"),
    ),
    "P": (
        *("{S}.contains({S})", "{S}.startsWith({S})", "{S}.endsWith({S})", "{A} == {A}", "{A} != {A}", "{S} < {S}"),
        *("{S} >= {S}", "{N} <= {N}", "{D} > {D}", "{S} in {T}", "{N} in {L}", "{S} in {M}", "{L} in [{L}, {L}]", "!{P}"),
        *("({P} && {P})", "({P} || {P})", "{S}.matches({R})", "{S}.matches({S})", "isQuantity({Q})", "has({M}.a)"),
        *("isQuantity({S})", "bool({S})", "quantity({S}).isInteger()", "duration({S}) < duration({S})"),
        *("quantity({Q}).isGreaterThan(quantity({Q}))", "quantity({Q}).isLessThan(quantity({Q}))", "bool({I})"),
        *("quantity({Q}).isInteger()", "math.isNaN({D})", "math.isInf({D})", "math.isFinite({D})", "type({A}) == string"),
        *("{L}.all(x, x != {N})", "{L}.exists(x, x == {A})", "{L}.exists_one(x, x == 1)", "optional.of({A}).hasValue()"),
        *("{L}.exists(x, {L}.exists(y, x == y + 1))", "{T}.exists(x, x.contains({S}))", "{T}.all(x, x.matches({R}))"),
        *("{M}.exists(k, {M}[k] == {A})", "{L}.exists(x, isQuantity({Q}) && x == -1)", "{L} == {L}.map(x, x)"),
        *("{M}.?a.hasValue()", "{T}.all(x, x.split({S}).size() > 0)", "{M} == {M}", "{T} == {T}"),
    ),
}  # fmt: skip
"""Expression generators by type of their result: text, bytes, list, list of texts, map, integer, float, truth."""
LEAVES = {
    "S": ("s0", "s1", "s2", "'a'", "''"), "B": ("b'ab'",), "L": ("l0", "l1", "[1, 2]"), "T": ("t0", "t1"), "M": ("m0",),
    "N": ("n0", "size(s0)", "3"), "D": ("1.0e300", "0.1", "double(n0)"), "P": ("p0", "true"),
}  # fmt: skip
NUMBERS = (
    *("1", "1e400", "1e-400", "9" * 60, "0." + "9" * 60, "1.5Gi", "-100m", "1e", "7Ei", "123456789.123456789e-200"),
    *("2024-02-29T23:59:59.999999999+14:00", "1h2m3.000000001s", "9223372036854775807", "1" * 300, "1e308", "true"),
)
UNITS = (
    "a",
    "ab",
    "é",
    "日",
    "\N{GRINNING FACE}",
    '"',
    "\n",
    "\\",
    " ",
    "0",
    "\u2003",
    "A",
    ",",
    "\x00",
    "a" * 30 + "b",
    "1h",
    "1ns",
    "0.1h1m",
    "9",
    "A=",
)
STARTS = ("", "", "", "0.", "1e", "-", "2024-02-29T23:59:59.")
PIECES = (
    "a",
    ".",
    "[^b]",
    "\\pL",
    "(a|b)",
    "(a?)",
    "[a-z0-9]",
    "\\w",
    "(?i)k",
    "é",
    "(a*)*",
    "\\PL",
    "[[:alpha:]]",
    "^",
    "\\b",
)
VARIABLES = re.compile(r"\b[slmtnp][0-2]\b")
_HOLE = re.compile(r"\{([A-Z])\}")


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of one input."""

    unit: str = "a"
    start: str = ""
    """The prefix of a text."""
    length: int = 100
    odd: float = 1.0
    """Position of a different character in a text, as a fraction of its length; 2 for none."""
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Trial:
    """One expression on its inputs."""

    text: str
    shapes: dict[str, Shape] = field(default_factory=dict)

    @property
    def data(self) -> dict[str, Any]:
        """The data that the expression reads."""
        return {name: make_value(name[0], self.shapes[name]) for name in sorted(set(VARIABLES.findall(self.text)))}


@dataclass(frozen=True, slots=True)
class Finding:
    """How one trial went."""

    trial: Trial
    time: float
    """Minimum of several runs, in CPU microseconds on an idle machine."""
    bound: float

    @property
    def ratio(self) -> float:
        """The cost relative to the bound."""
        return self.time / self.bound if self.time >= SHORTEST else 0.0

    def __str__(self) -> str:
        return f"{self.ratio:.2f} (took {self.time:.0f} µs, bound {self.bound:.0f} µs): {self.trial.text} with {self.trial.shapes}"


def make_text(shape: Shape) -> str:
    """A text that repeats itself, except at one position."""
    made = (shape.start + shape.unit * (shape.length // len(shape.unit) + 1))[: shape.length]
    place = int(shape.odd * len(made))
    return made if shape.odd > 1 else f"{made[:place]}b{made[place + 1 :]}"


def make_value(kind: str, shape: Shape) -> Any:
    """An input of that kind."""
    count = min(shape.length, LONGEST_LIST)
    match kind:
        case "s":
            return make_text(shape)
        case "n":
            return shape.length
        case "p":
            return shape.odd > 1
        case "t":
            each = make_text(replace(shape, length=min(shape.length, 10 ** (1 + shape.depth))))
            return [each] * min(count, LONGEST_TEXT // max(len(each), 1))
        case "m":
            return {f"{shape.unit * 3}{number}": number for number in range(count)}
    value: Any = 1
    for _ in range(shape.depth):
        value = [value]
    return [value] * count


def measure_slowness() -> float:
    """The current slowdown of this machine compared with an idle one."""

    def loop() -> float:
        began, total = time.thread_time(), 0
        for number in range(REFERENCE_STEPS):
            total += number & 7
        return (time.thread_time() - began) * 1e6

    return max(min(loop() for _ in range(5)) / REFERENCE_MICROSECONDS, 1.0)


def find_estimator(text: str) -> Estimator:
    """The cost estimator of any expression, including those that normally need none."""
    return expressions.parse(text).estimator or expressions.find_estimator(text)


def examine(trial: Trial, *, slowness: float, repeats: int = 3) -> Finding | None:
    """Run a trial; None if it is not an expression, or its bound exceeds what the operator evaluates itself."""
    try:
        parsed = expressions.parse(trial.text)
    except cel_environment.CelCompileError:
        return None
    data = trial.data
    estimator = find_estimator(trial.text)
    bound = estimator.bound({name: Bound.of((value,)) for name, value in data.items()}, most=math.inf)
    is_small = estimator.is_surely_small(value_sizes.weigh(data, most_nodes=limits.SMALL_INPUT_NODES))
    if bound.time > limits.EVALUATION_MICROSECONDS and not is_small:
        return None
    times = []
    for _ in range(repeats):
        began = time.thread_time()
        expressions.run(parsed, data)
        times.append((time.thread_time() - began) * 1e6)
    claimed = min(bound.time, limits.EVALUATION_MICROSECONDS)
    return Finding(trial, time=min(times) / slowness, bound=claimed)


def measure_excess(trial: Trial) -> float:
    """The ratio of the value's size to its bound, in texts or nodes; 0 if there is no value."""
    try:
        parsed = expressions.parse(trial.text)
    except cel_environment.CelCompileError:
        return 0.0
    data = trial.data
    try:
        bound = find_estimator(trial.text).rule(
            {name: Bound.of((value,)) for name, value in data.items()}, Meter(limits.EVALUATION_MICROSECONDS)
        )
    except TooMuch:
        return 0.0
    found = expressions.run(parsed, data)
    if isinstance(found, expressions.Failed | bytes):
        return 0.0
    size = value_sizes.weigh(found, most_nodes=10**7)
    return max(
        size.nodes / bound.nodes, max(size.text, len(found) if isinstance(found, str) else 0) / max(bound.text, 32.0)
    )


class Search:
    """Searches for the worst trials, by chance and by small changes of bad ones."""

    def __init__(self, seed: int) -> None:
        """Start an empty search. seed: of all random choices."""
        self.random = random.Random(seed)
        self.slowness = measure_slowness()

    def make_text(self, kind: str, depth: int = DEEPEST) -> str:
        """An expression of that type."""
        if kind == "A":
            kind = self.random.choice("SLTMND")
        if kind == "I":
            return repr(self.random.choice(NUMBERS))
        if kind == "Q":
            return repr(self.random.choice(NUMBERS[:10]))
        if kind == "R":
            return self.make_pattern()
        if kind == "L" and self.random.random() < 0.1:
            return f"[{','.join('1' * self.random.choice((10, 100, 1500)))}]"
        if depth <= 0 or self.random.random() < 0.2:
            return self.random.choice(LEAVES[kind])
        return self.fill(self.random.choice(FORMS[kind]), depth - 1)

    def fill(self, form: str, depth: int = 0) -> str:
        """The form with operands."""
        filled = _HOLE.sub(lambda hole: self.make_text(hole[1], depth), form.replace("{{", "\0").replace("}}", "\1"))
        return filled.replace("\0", "{").replace("\1", "}")

    def make_pattern(self) -> str:
        """A pattern, as a text of CEL."""
        made = ""
        for _ in range(self.random.randint(1, 4)):
            made += self.random.choice(PIECES)
            made += self.random.choice(("", "*", "+", "{9}", "{0,99}", "{900}", "?"))
            if self.random.random() < 0.2:
                made = f"({made}){self.random.choice(('*', '{30}', ''))}"
        return "r'" + made * self.random.choice((1, 1, 1, 20)) + self.random.choice(("", "$", "c")) + "'"

    def make_shape(self) -> Shape:
        return Shape(
            unit=self.random.choice(UNITS),
            start=self.random.choice(STARTS),
            length=int(10 ** self.random.uniform(0, 4.7)),
            odd=self.random.choice((0.0, 0.5, 0.99999, 2.0)),
            depth=self.random.choice((0, 0, 0, 1, 3)),
        )

    def make_trial(self, form: str, depth: int) -> Trial:
        text = self.fill(form, depth)
        return Trial(text, {name: self.make_shape() for name in set(VARIABLES.findall(text))})

    def change(self, trial: Trial) -> Trial:
        """Another input, or another size of one."""
        if not trial.shapes:
            return trial
        name = self.random.choice(sorted(trial.shapes))
        old = trial.shapes[name]
        new = self.random.choice(
            (
                replace(old, length=max(1, min(int(old.length * self.random.uniform(0.3, 3.0)), LONGEST_TEXT))),
                replace(old, unit=self.random.choice(UNITS)),
                replace(old, odd=self.random.choice((0.0, 0.5, 0.99999, 2.0))),
                self.make_shape(),
                self.random.choice(list(trial.shapes.values())),
            )
        )
        return Trial(trial.text, {**trial.shapes, name: new})

    def climb(self, form: str, *, depth: int, starts: int, steps: int) -> Finding | None:
        """The worst trial of a form: start from the worst, and take each step that is worse."""
        found = [self.examine(self.make_trial(form, depth)) for _ in range(starts)]
        worst = max((each for each in found if each is not None), key=lambda each: each.ratio, default=None)
        if worst is None:
            return None
        for _ in range(steps):
            tried = self.examine(self.change(worst.trial))
            if tried is not None and tried.ratio > worst.ratio:
                worst = tried
        # More runs remove the remaining noise of the machine.
        return examine(worst.trial, slowness=min(self.slowness, measure_slowness()), repeats=15)

    def examine(self, trial: Trial) -> Finding | None:
        """Run a trial."""
        return examine(trial, slowness=self.slowness)

    def run(self, *, depths: tuple[int, ...], starts: int, steps: int) -> Iterator[Finding]:
        """Yield the worst of each form."""
        for depth in depths:
            for form in (each for forms in FORMS.values() for each in forms):
                found = self.climb(form, depth=depth, starts=starts, steps=steps)
                if found is not None:
                    yield found
