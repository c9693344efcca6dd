"""Implements the port `Evaluations` with a pool of evaluator processes that is shared fairly between tenants.

At most one expression of each Stack is evaluated at a time. Namespaces take turns, and so do the Stacks of a namespace.
After a slow expression, a Stack pauses for several times the duration before its next turn. Results are cached,
including the result that an expression exceeds a limit.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from hearth import supervision
from hearth.model import limits
from hearth.model.turns import FairTurns, find_share
from hearth.sandbox import frames, process
from hearth.sandbox.process import Lost, Process, Start
from hearth.template.cel import evaluation
from hearth.template.cel.cost import Cost
from hearth.template.cel.evaluation import Absent, Answer, Excess, PackedInputs, Unwritable, Value

LIMIT = "evaluations"
"""The label of the metric for expressions that exceed a limit."""
NOTIFY_INTERVAL = 0.25
"""Minimum seconds between two reconciles of a Stack for new results, while more are pending."""
HELD = 1.0
"""Seconds until a Stack whose expressions cannot be queued tries again."""
LONG = 0.1
"""Minimum seconds of an evaluation that is followed by a pause."""
KEY_BYTES = 16


@dataclass(slots=True, kw_only=True)
class Request:
    """An expression that waits to be evaluated."""

    text: str
    packed: bytes = field(repr=False)
    language: bytes = frames.CEL
    tries: int = 0


@dataclass(slots=True)
class Stack:
    """The pending evaluations of one Stack."""

    uid: str
    namespace: str
    queue: OrderedDict[bytes, Request] = field(default_factory=OrderedDict)
    size: int = 0
    """Bytes of the queued inputs."""
    running: bytes | None = None
    """The key of the running request."""
    rests_until: float = 0.0
    """Monotonic time in seconds of the end of the pause."""
    is_resting: bool = False
    """Whether the pool checks the Stack again at the end of the pause."""
    notified_at: float = float("-inf")
    """Time of the last notification about results."""
    waiters: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def is_idle(self) -> bool:
        """Whether no evaluation is pending."""
        return not self.queue and self.running is None

    def is_asked(self, key: bytes) -> bool:
        """Return whether this evaluation is already pending."""
        return key == self.running or key in self.queue


@dataclass(slots=True)
class Turn:
    """What one Stack may still do in this iteration of the event loop."""

    time_left: float = limits.TURN_MICROSECONDS
    """Microseconds."""
    bytes_left: int = limits.TURN_PACKED_BYTES
    """Of inputs for the processes."""
    resource: str = ""
    """The resource that was assessed last, "" for none."""
    assessments_left: int = 0
    """How often it can be assessed even without time."""
    is_put_off: bool = False
    """Whether the Stack is notified after this turn, because it has no share of it left."""


class Pool:
    """Evaluates expressions of all Stacks."""

    def __init__(
        self,
        *,
        notify: Callable[[str], None],
        on_limit: Callable[[str], None] = lambda _limit: None,
        start: Start = process.start,
        now: Callable[[], float] = time.monotonic,
        find_namespace: Callable[[str], str] = lambda stack_uid: stack_uid,
    ) -> None:
        """Start no process before it is needed. notify: gets the UID of a Stack whose evaluations can proceed.

        find_namespace: finds that of a Stack by its UID.
        """
        self._find_namespace = find_namespace
        self._notify = notify
        self._on_limit = on_limit
        self._start = start
        self._now = now
        self._stacks: dict[str, Stack] = {}
        """The Stacks with pending requests."""
        self._turns = FairTurns()
        """The Stacks whose next evaluation may start."""
        self._resting: list[tuple[float, str]] = []
        """A heap of the other Stacks with queued requests: the end of the pause in monotonic seconds, and the Stack."""
        self._results = Results()
        self._idle: list[Process] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._cancel_timer: Callable[[], None] | None = None
        self._queued_bytes = 0
        self._bytes_of: Counter[str] = Counter()
        """The queued bytes by namespace."""
        self._rests: dict[str, float] = {}
        """The end of the pause in monotonic seconds, by Stack without pending requests."""
        self._held: set[str] = set()
        """Stacks that have to try again later, because too much is queued."""
        self._whose = ""
        self._turn = Turn()

    # ------------------------------------------------------------ for callers

    def begin(self, stack_uid: str) -> None:
        """Assign the following requests to that Stack, with a new budget for this turn of the event loop."""
        self._whose = stack_uid
        self._turn = Turn()

    def begin_work(self, resource: str = "") -> float | None:
        """Return the monotonic time, or None if the Stack has no time left in this turn.

        resource: the resource whose object is assessed. A plan assesses an object several times, and its next turn would
        begin with the same assessments. So the first resource of a turn always has time, and so has the last one.
        """
        turn = self._turn
        if resource and (turn.time_left > 0 or not turn.resource):
            turn.resource, turn.assessments_left = resource, limits.ASSESSMENTS_IN_A_TURN
        is_assessed = bool(resource) and resource == turn.resource and turn.assessments_left > 0
        turn.assessments_left -= is_assessed
        return self._now() if is_assessed or turn.time_left > 0 else None

    def end_work(self, began: float) -> None:
        """Count the time since then, unless it was ordinary. Others may have had the processor for a part of it."""
        spent = (self._now() - began) * 1e6 - limits.ORDINARY_MICROSECONDS
        if spent > 0:
            self._turn.time_left -= spent

    def put_off(self) -> None:
        """Let the Stack ask again in its next turn."""
        if not self._turn.is_put_off:
            self._turn.is_put_off = True
            self._notify_later(self._whose)

    def admits(self, cost: Cost) -> bool:
        """Return whether an expression of that cost may be evaluated in this process, in this turn."""
        if not evaluation.is_small(cost) or cost.time > self._turn.time_left:
            return False
        self._turn.time_left -= cost.time
        return True

    def ask(self, text: str, data: Mapping[str, Any] | PackedInputs) -> Answer | None:
        """Return the result, or None while it is pending; the Stack is notified later."""
        return self._ask(text, data, frames.PACKED if isinstance(data, PackedInputs) else frames.CEL)

    def ask_script(self, text: str, data: Mapping[str, Any]) -> Answer | None:
        """Return the verdict of a health script on an object, or None while it is pending."""
        return self._ask(text, data, frames.LUA)

    def _ask(self, text: str, data: Mapping[str, Any] | PackedInputs, language: bytes) -> Answer | None:
        if self._turn.bytes_left <= 0:
            self.put_off()
            return None
        try:
            identity = data.identify() if isinstance(data, PackedInputs) else orjson.dumps(data)
        except TypeError:
            return Unwritable("reads a value that JSON cannot represent")
        self._turn.bytes_left -= len(identity) + limits.REQUEST_BYTES
        if len(identity) > limits.EVALUATOR_INPUT_BYTES:
            return Excess(f"reads more than {limits.EVALUATOR_INPUT_BYTES // 2**20} MiB")
        if isinstance(data, PackedInputs) and data.size > limits.LIST_READ_BYTES:
            return Excess(data.explain_excess())
        key = hashlib.blake2b(
            identity, digest_size=KEY_BYTES, key=hashlib.sha256(language + text.encode()).digest()
        ).digest()
        known = self._results.find(self._whose, key)
        if known is None and not self._is_asked(self._whose, key):
            packed = identity
            if isinstance(data, PackedInputs):
                packed = data.write()
                self._turn.bytes_left -= len(packed)
            self._enqueue(self._whose, key, Request(text=text, packed=packed, language=language))
        return known

    def _is_asked(self, stack_uid: str, key: bytes) -> bool:
        stack = self._stacks.get(stack_uid)
        return stack is not None and stack.is_asked(key)

    async def wait(self, stack_uid: str) -> None:
        """Wait until no result is pending for that Stack."""
        stack = self._stacks.get(stack_uid)
        if stack is not None:
            waiter = asyncio.get_running_loop().create_future()
            stack.waiters.append(waiter)
            await waiter
        else:
            await asyncio.sleep(HELD if stack_uid in self._held else 0.0)

    def forget(self, stack_uid: str) -> None:
        """Drop the pending evaluations and results of a deleted Stack."""
        self._results.forget(stack_uid)
        stack = self._stacks.pop(stack_uid, None)
        if stack is not None:
            self._turns.discard(stack_uid)
            self._count_bytes(stack, -stack.size)
            release(stack)

    async def close(self) -> None:
        """Stop all processes."""
        if self._cancel_timer is not None:
            self._cancel_timer()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(each.end() for each in self._idle))
        self._idle.clear()

    # ------------------------------------------------------------ turns

    def _enqueue(self, stack_uid: str, key: bytes, request: Request) -> None:
        stack = self._stacks.get(stack_uid)
        if stack is None:
            rest = self._rests.pop(stack_uid, 0.0)
            stack = self._stacks[stack_uid] = Stack(stack_uid, self._find_namespace(stack_uid), rests_until=rest)
        size = stack.size + len(request.packed)
        is_full = len(stack.queue) >= limits.EVALUATIONS_QUEUED or size > limits.EVALUATIONS_QUEUED_BYTES
        if stack.queue and is_full:
            # The Stack is notified as soon as its pending work is done.
            return
        if not self._has_room(stack.namespace, len(request.packed)):
            self._hold(stack)
            return
        self._put(stack, key, request)
        self._dispatch()

    def _has_room(self, namespace: str, size: int) -> bool:
        """Return whether the inputs of one more expression fit into what the others leave to the namespace.

        One that is larger than that fits if the namespace has no other, and others still find some room.
        """
        held, free = self._bytes_of[namespace], limits.ALL_EVALUATIONS_QUEUED_BYTES - self._queued_bytes
        most = find_share(held, free=free, most=limits.NAMESPACE_EVALUATIONS_QUEUED_BYTES)
        return held + size <= most or (not held and size <= free - limits.NAMESPACE_EVALUATIONS_QUEUED_BYTES)

    def _put(self, stack: Stack, key: bytes, request: Request) -> None:
        stack.queue[key] = request
        self._count_bytes(stack, len(request.packed))
        self._offer(stack)

    def _count_bytes(self, stack: Stack, change: int) -> None:
        stack.size += change
        self._queued_bytes += change
        self._bytes_of[stack.namespace] += change
        if not self._bytes_of[stack.namespace]:
            del self._bytes_of[stack.namespace]

    def _offer(self, stack: Stack) -> None:
        """Let a Stack take part in the turns, now or after its pause."""
        if not stack.queue or stack.running is not None or self._stacks.get(stack.uid) is not stack:
            return
        if stack.rests_until <= self._now():
            self._turns.add(stack.namespace, stack.uid)
        elif not stack.is_resting:
            stack.is_resting = True
            heapq.heappush(self._resting, (stack.rests_until, stack.uid))

    def _hold(self, stack: Stack) -> None:
        """Let a Stack whose expression cannot be queued ask again."""
        if not stack.is_idle:
            return
        self._leave(stack)
        if stack.uid not in self._held:
            self._held.add(stack.uid)
            self._notify_later(stack.uid, delay=HELD)

    def _leave(self, stack: Stack) -> None:
        """Record that a Stack waits for no result."""
        del self._stacks[stack.uid]
        now = self._now()
        self._rests = {uid: until for uid, until in self._rests.items() if until > now}
        if stack.rests_until > now:
            self._rests[stack.uid] = stack.rests_until

    def _notify_later(self, stack_uid: str, *, delay: float = 0.0) -> None:
        """Let a Stack ask again after a while."""

        def notify() -> None:
            self._held.discard(stack_uid)
            self._notify(stack_uid)

        supervision.call_later(delay, notify, where="evaluations")

    def _dispatch(self) -> None:
        """Start the evaluations that can start."""
        self._wake_rested()
        while len(self._tasks) < limits.EVALUATORS and (uid := self._turns.take(limits.EVALUATORS)) is not None:
            stack = self._stacks[uid]
            key, request = stack.queue.popitem(last=False)
            self._count_bytes(stack, -len(request.packed))
            stack.running = key
            self._begin(stack, key, request)
        self._arm_timer()

    def _wake_rested(self) -> None:
        now = self._now()
        while self._resting and self._resting[0][0] <= now:
            _, uid = heapq.heappop(self._resting)
            stack = self._stacks.get(uid)
            if stack is not None:
                stack.is_resting = False
                self._offer(stack)

    def _arm_timer(self) -> None:
        """Dispatch again once a Stack's pause ends."""
        if self._cancel_timer is not None:
            self._cancel_timer()
            self._cancel_timer = None
        if self._resting and len(self._tasks) < limits.EVALUATORS:
            self._cancel_timer = supervision.call_later(
                max(0.0, self._resting[0][0] - self._now()), self._dispatch, where="evaluations"
            )

    def _begin(self, stack: Stack, key: bytes, request: Request) -> None:
        async def evaluate() -> None:
            answer = await self._evaluate(stack, request)
            self._finish(stack, key, request, answer)

        def fail(_error: BaseException) -> None:
            self._finish(stack, key, request, Excess("cannot be evaluated because of an internal error"))

        def end(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            self._turns.end(stack.uid)
            if not task.cancelled():
                self._offer(stack)
                self._dispatch()

        task = supervision.spawn("evaluations", evaluate, on_error=fail)
        self._tasks.add(task)
        task.add_done_callback(supervision.guard("evaluations", end))

    async def _evaluate(self, stack: Stack, request: Request) -> Answer | None:
        """Return the result; None if the evaluation needs a retry."""
        request.tries += 1
        worker: Process | None = None
        begun = self._now()
        try:
            worker = self._idle.pop() if self._idle else await self._start()
            begun = self._now()
            return await worker.ask(request.text, request.packed, request.language)
        except Lost as lost:
            return Excess(str(lost)) if request.tries >= limits.EVALUATION_TRIES else None
        finally:
            took = self._now() - begun
            if took >= LONG:
                stack.rests_until = self._now() + limits.EVALUATION_REST * took
            if worker is not None:
                await self._put_back(worker)

    async def _put_back(self, process: Process) -> None:
        if process.is_usable:
            self._idle.append(process)
        else:
            await process.end()

    def _finish(self, stack: Stack, key: bytes, request: Request, answer: Answer | None) -> None:
        stack.running = None
        if self._stacks.get(stack.uid) is not stack:
            # The Stack was removed in the meantime.
            return
        if answer is None:
            self._put(stack, key, request)
            return
        if isinstance(answer, Excess):
            self._on_limit(LIMIT)
        self._results.keep(stack.uid, key, answer)
        now = self._now()
        if stack.is_idle:
            self._leave(stack)
            release(stack)
        elif now - stack.notified_at < NOTIFY_INTERVAL:
            return
        stack.notified_at = now
        self._notify(stack.uid)


def release(stack: Stack) -> None:
    """Wake the tasks that wait for that Stack."""
    for waiter in stack.waiters:
        if not waiter.done():
            waiter.set_result(None)
    stack.waiters.clear()


# The results of evaluations by Stack, up to a number of bytes. The Stack with the most bytes is evicted first.

ENTRY_BYTES = 512
"""Memory of an answer in addition to its value."""


@dataclass(slots=True)
class Shelf:
    """The cached results of one Stack, the least recently used first."""

    answers: OrderedDict[bytes, Answer] = field(default_factory=OrderedDict)
    size: int = 0
    """Bytes."""

    def drop_oldest(self) -> int:
        """Drop the least recently used result, and return its size in bytes."""
        _, answer = self.answers.popitem(last=False)
        freed = measure(answer)
        self.size -= freed
        return freed


class Results:
    """The cached results of all Stacks."""

    def __init__(
        self, *, most: int = limits.EVALUATION_RESULTS, most_per_stack: int = limits.EVALUATION_RESULTS_PER_STACK
    ) -> None:
        """most: bytes."""
        self._most = most
        self._most_per_stack = most_per_stack
        self._shelves: dict[str, Shelf] = {}
        self.size = 0
        """Bytes."""

    def find(self, stack: str, key: bytes) -> Answer | None:
        """Return a cached answer, and mark it as most recently used."""
        shelf = self._shelves.get(stack)
        answer = shelf.answers.get(key) if shelf is not None else None
        if shelf is not None and answer is not None:
            shelf.answers.move_to_end(key)
        return answer

    def keep(self, stack: str, key: bytes, answer: Answer) -> None:
        """Cache an answer, and drop older ones if there is no room."""
        shelf = self._shelves.setdefault(stack, Shelf())
        shelf.answers[key] = answer
        shelf.size += measure(answer)
        self.size += measure(answer)
        while shelf.size > self._most_per_stack and len(shelf.answers) > 1:
            self.size -= shelf.drop_oldest()
        while self.size > self._most:
            self.size -= max(self._shelves.values(), key=lambda each: each.size).drop_oldest()

    def forget(self, stack: str) -> None:
        """Drop all results of a Stack."""
        shelf = self._shelves.pop(stack, None)
        if shelf is not None:
            self.size -= shelf.size


def measure(answer: Answer) -> int:
    """Return the bytes that an answer takes."""
    match answer:
        case Value():
            return ENTRY_BYTES + len(answer.packed)
        case Absent():
            return ENTRY_BYTES + sum(map(len, answer.missing))
        case Excess():
            return ENTRY_BYTES
    return ENTRY_BYTES + len(answer.message)
