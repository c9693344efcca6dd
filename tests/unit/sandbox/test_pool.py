"""The evaluator pool: order of evaluations, stored results, and notifications."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from hearth.model import limits
from hearth.sandbox import frames
from hearth.sandbox.pool import Pool, Results
from hearth.sandbox.process import CPU, Lost, Process
from hearth.template.cel.cost import Cost
from hearth.template.cel.evaluation import Answer, Excess, Unwritable, Value
from support.units import waiting

SMALL = Cost(time=100.0, memory=100.0)


@dataclass
class Desk:
    """Evaluators that respond when the test releases them, with durations that it sets."""

    asked: list[str] = field(default_factory=list)
    """The texts, in the order they were evaluated."""
    reported: list[str] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)
    running: dict[str, asyncio.Future[Answer]] = field(default_factory=dict)
    started: int = 0
    now: float = 0.0

    def make_pool(self) -> Pool:
        return Pool(
            notify=self.reported.append,
            on_limit=self.reached.append,
            start=self.start,
            now=lambda: self.now,
            find_namespace=lambda uid: uid.partition("/")[0],
        )

    async def start(self) -> Process:
        self.started += 1
        return Worker(self)  # type: ignore[return-value]  # not a real process

    async def answer(self, text: str, answer: Answer | Exception, *, after: float = 0.0) -> None:
        self.now += after
        if isinstance(answer, Exception):
            self.running.pop(text).set_exception(answer)
        else:
            self.running.pop(text).set_result(answer)
        await turn()


@dataclass
class Worker:
    desk: Desk
    is_usable: bool = True

    async def ask(self, text: str, packed: bytes, language: bytes = frames.CEL) -> Answer:
        text = text if language == frames.CEL else f"script {text}"
        self.desk.asked.append(text)
        self.desk.running[text] = asyncio.get_running_loop().create_future()
        try:
            answer = await self.desk.running[text]
        except Lost:
            self.is_usable = False
            raise
        self.is_usable = answer is not CPU
        return answer

    async def end(self) -> int:
        return 0


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture
async def pool(desk: Desk) -> AsyncIterator[Pool]:
    made = desk.make_pool()
    yield made
    await made.close()


async def turn() -> None:
    """Let all runnable tasks continue."""
    for _ in range(10):
        await asyncio.sleep(0)


def ask(pool: Pool, stack: str, text: str, **data: Any) -> Answer | None:
    pool.begin(stack)
    return pool.ask(text, data)


async def test_an_answer_is_pending_then_kept_and_the_stack_is_notified(desk: Desk, pool: Pool) -> None:
    first = ask(pool, "shop", "x", x=1)
    await turn()
    await desk.answer("x", Value(b"1"))

    assert (first, desk.reported) == (None, ["shop"])
    assert ask(pool, "shop", "x", x=1) == Value(b"1")
    assert desk.asked == ["x"]


@pytest.mark.parametrize(
    ("stack", "text", "data"),
    [
        pytest.param("shop", "x", {"x": 2}, id="other-inputs"),
        pytest.param("shop", "x + 0", {"x": 1}, id="another-text"),
        pytest.param("other", "x", {"x": 1}, id="another-stack"),
    ],
)
async def test_an_answer_is_kept_for_the_same_question_of_the_same_stack(
    desk: Desk, pool: Pool, stack: str, text: str, data: dict[str, Any]
) -> None:
    ask(pool, "shop", "x", x=1)
    await turn()
    await desk.answer("x", Value(b"1"))

    assert ask(pool, stack, text, **data) is None


async def test_each_stack_has_one_expression_evaluated_at_a_time_and_they_take_turns(desk: Desk, pool: Pool) -> None:
    for number in range(100):
        ask(pool, "hostile", f"x{number}")
    ask(pool, "shop", "y")
    await turn()

    assert desk.asked == ["x0", "y"]


async def test_a_stack_whose_expressions_take_long_waits_for_its_next_turn(desk: Desk, pool: Pool) -> None:
    ask(pool, "hostile", "x")
    ask(pool, "hostile", "y")
    await turn()
    await desk.answer("x", CPU, after=1.0)
    ask(pool, "shop", "z")
    await turn()
    before = list(desk.asked)
    desk.now += limits.EVALUATION_REST
    ask(pool, "shop", "next")
    await turn()

    assert (before, desk.asked) == (["x", "z"], ["x", "z", "y"])


async def test_an_excess_is_kept_and_counted(desk: Desk, pool: Pool) -> None:
    ask(pool, "shop", "x")
    await turn()
    await desk.answer("x", CPU)

    assert (ask(pool, "shop", "x"), desk.reached, desk.asked) == (CPU, ["evaluations"], ["x"])


async def test_a_lost_process_is_replaced_and_its_expression_tried_again_a_few_times(desk: Desk, pool: Pool) -> None:
    ask(pool, "shop", "x")
    await turn()
    for _ in range(limits.EVALUATION_TRIES):
        await desk.answer("x", Lost("crashed the process that evaluated it"))

    assert ask(pool, "shop", "x") == Excess("crashed the process that evaluated it")
    assert (desk.asked, desk.started) == (["x"] * limits.EVALUATION_TRIES, limits.EVALUATION_TRIES)


async def test_a_process_that_answered_is_asked_again(desk: Desk, pool: Pool) -> None:
    for number in range(100):
        ask(pool, "shop", f"x{number}")
    await turn()
    for number in range(100):
        await desk.answer(f"x{number}", Value(b"1"))

    assert desk.started == 1


async def test_a_mistake_of_ours_is_an_answer_too(desk: Desk, pool: Pool) -> None:
    ask(pool, "shop", "x")
    await turn()
    await desk.answer("x", ZeroDivisionError())

    assert ask(pool, "shop", "x") == Excess("cannot be evaluated because of an internal error")


async def test_results_of_a_stack_that_is_gone_are_dropped(desk: Desk, pool: Pool) -> None:
    ask(pool, "shop", "x")
    await turn()
    pool.forget("shop")
    await desk.answer("x", Value(b"1"))

    assert (desk.reported, ask(pool, "shop", "x")) == ([], None)


async def test_what_waits_continues_when_nothing_is_to_come(desk: Desk, pool: Pool) -> None:
    ask(pool, "shop", "x")
    ask(pool, "shop", "y")
    waiting = asyncio.create_task(pool.wait("shop"))
    await turn()
    await desk.answer("x", Value(b"1"))
    is_early = waiting.done()
    await desk.answer("y", Value(b"1"))

    assert (is_early, waiting.done()) == (False, True)


async def test_in_one_turn_a_stack_has_a_share_of_the_process_itself(pool: Pool) -> None:
    each = Cost(time=limits.EVALUATION_MICROSECONDS, memory=1.0)
    pool.begin("shop")
    admitted = [pool.admits(each) for _ in range(20)]
    pool.begin("shop")

    assert sum(admitted) == limits.TURN_MICROSECONDS / limits.EVALUATION_MICROSECONDS
    assert pool.admits(each)


@pytest.mark.parametrize(
    ("microseconds", "count"),
    [
        pytest.param(limits.ORDINARY_MICROSECONDS - 1, 1_000, id="ordinary"),
        pytest.param(limits.TURN_MICROSECONDS / 10 + limits.ORDINARY_MICROSECONDS + 1, 10, id="costly"),
        pytest.param(10 * limits.TURN_MICROSECONDS, 1, id="longer-than-a-turn"),
    ],
)
async def test_measured_work_of_a_stack_ends_with_its_turn(
    desk: Desk, pool: Pool, microseconds: float, count: int
) -> None:
    def work() -> bool:
        began = pool.begin_work()
        if began is not None:
            desk.now += microseconds / 1e6
            pool.end_work(began)
        return began is not None

    pool.begin("shop")
    done = sum(work() for _ in range(1_000))
    pool.begin("shop")

    assert done == count
    assert work()


async def test_the_first_resource_of_a_turn_and_the_last_one_have_time_for_all_of_their_assessments(
    desk: Desk, pool: Pool
) -> None:
    def assess(resource: str) -> bool:
        began = pool.begin_work(resource)
        if began is not None:
            desk.now += limits.TURN_MICROSECONDS / 1.5e6
            pool.end_work(began)
        return began is not None

    def waste() -> None:
        desk.now += limits.TURN_MICROSECONDS / 1e6

    pool.begin("shop")
    assert [assess(each) for each in ("a", "b", "c", "b", "a")] == [True, True, False, True, False]

    pool.begin("shop")
    began = pool.begin_work()
    assert began is not None
    waste()
    waste()
    pool.end_work(began)
    assert pool.begin_work() is None
    assert [assess(each) for each in ("a", "b", "a")] == [True, False, True]
    assert sum(assess("a") for _ in range(100)) == limits.ASSESSMENTS_IN_A_TURN - 2


async def test_a_stack_that_is_put_off_is_notified_once_after_its_turn(desk: Desk, pool: Pool) -> None:
    pool.begin("shop")
    for _ in range(3):
        pool.put_off()
    early = list(desk.reported)
    await waiting.wait_until(lambda: bool(desk.reported))
    await turn()

    assert (early, desk.reported) == ([], ["shop"])


async def test_many_small_requests_use_up_the_share_of_a_turn(pool: Pool) -> None:
    pool.begin("shop")
    for number in range(3_000):
        pool.ask("x", {"x": number})

    assert pool.ask("x", {"x": 0}) is None
    assert pool._turn.bytes_left <= 0


@pytest.mark.parametrize(
    ("cost", "is_admitted"),
    [
        pytest.param(SMALL, True, id="small"),
        pytest.param(Cost(time=1e6, memory=1.0), False, id="time"),
        pytest.param(Cost(time=1.0, memory=1e9), False, id="memory"),
    ],
)
async def test_what_is_evaluated_in_the_process_itself(pool: Pool, cost: Cost, is_admitted: bool) -> None:
    pool.begin("shop")

    assert pool.admits(cost) is is_admitted


async def test_inputs_beyond_the_share_of_a_turn_are_not_even_looked_at(desk: Desk, pool: Pool) -> None:
    large = "a" * limits.TURN_PACKED_BYTES
    pool.begin("shop")
    pool.ask("x", {"x": large})
    pool.ask("y", {"x": large})
    await waiting.wait_until(lambda: bool(desk.reported))

    assert (desk.asked, desk.reported) == (["x"], ["shop"])


async def test_what_has_no_json_is_no_question(pool: Pool) -> None:
    assert isinstance(ask(pool, "shop", "x", x=2**70), Unwritable)


async def test_inputs_that_are_too_large_for_any_process_are_an_excess(pool: Pool) -> None:
    answer = ask(pool, "shop", "x", x="a" * (limits.EVALUATOR_INPUT_BYTES + 1))

    assert answer == Excess("reads more than 16 MiB")


def fill(results: Results, stack: str, count: int, size: int) -> None:
    for number in range(count):
        results.keep(stack, f"{stack}{number}".encode(), Value(b"a" * (size - 512)))


def test_results_are_bounded_and_the_largest_gives_way() -> None:
    results = Results(most=10_000, most_per_stack=8_000)
    fill(results, "small", 2, 1_000)
    fill(results, "large", 20, 1_000)

    assert results.size == 10_000
    assert [results.find("small", f"small{number}".encode()) is not None for number in range(2)] == [True, True]
    assert results.find("large", b"large19") is not None


def test_forgotten_results_take_no_memory() -> None:
    results = Results()
    fill(results, "shop", 20, 1_000)
    results.forget("shop")

    assert results.size == 0


async def test_a_script_and_an_expression_of_the_same_text_have_answers_of_their_own(desk: Desk, pool: Pool) -> None:
    ask(pool, "shop", "x", x=1)
    await turn()
    await desk.answer("x", Value(b"1"))

    assert pool.ask_script("x", {"x": 1}) is None
    await turn()
    await desk.answer("script x", Value(b"null"))

    assert (ask(pool, "shop", "x", x=1), pool.ask_script("x", {"x": 1})) == (Value(b"1"), Value(b"null"))


async def test_namespaces_take_turns_however_many_stacks_they_have(desk: Desk, pool: Pool) -> None:
    for number in range(30):
        for each in "xyz":
            ask(pool, f"many/{number}", f"{each}{number}")
    ask(pool, "other/a", "o")
    await turn()
    assert desk.asked == ["x0", "x1"]
    await desk.answer("x0", Value(b"1"))
    await desk.answer("x1", Value(b"1"))
    assert desk.asked[2:] == ["o", "x2"]


async def test_inputs_of_one_namespace_leave_room_to_others(desk: Desk, pool: Pool) -> None:
    text = "x" * (1024 * 1024)
    for number in range(40):
        ask(pool, f"many/{number}", "x", data=text)
    await turn()
    queued = pool._queued_bytes
    assert queued <= limits.NAMESPACE_EVALUATIONS_QUEUED_BYTES
    for name in "abcdefgh":
        for number in range(40):
            ask(pool, f"{name}/{number}", "x", data=text)
    assert queued < pool._queued_bytes < limits.ALL_EVALUATIONS_QUEUED_BYTES
    ask(pool, "late/a", "late", data="x" * 64)
    assert pool._bytes_of["late"] > 0


async def test_one_large_input_fits_where_nothing_else_waits(desk: Desk, pool: Pool) -> None:
    for number in range(limits.EVALUATORS):
        ask(pool, f"busy/{number}", "x")
    large = "x" * (limits.EVALUATOR_INPUT_BYTES - 100)
    ask(pool, "a/a", "a", data=large)
    ask(pool, "b/b", "b", data=large)
    assert (pool._bytes_of["a"] > len(large), pool._bytes_of["b"]) == (True, 0)
    ask(pool, "c/c", "c", data="small")
    assert pool._bytes_of["c"] > 0


async def test_a_stack_that_is_forgotten_while_it_waits_is_never_taken_up(desk: Desk, pool: Pool) -> None:
    for each in "xyz":
        ask(pool, "shop/a", each)
    await turn()
    pool.forget("shop/a")
    await desk.answer("x", Value(b"1"))
    assert desk.asked == ["x"]
    ask(pool, "shop/a", "z")
    await turn()
    assert desk.asked == ["x", "z"]
