"""The meaning of words that controllers use in condition types, reasons and phases.

The word lists are in `general_rule.yaml`.
"""

from __future__ import annotations

import enum
import functools
import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from hearth.model import limits, value_class

FILE = "general_rule.yaml"
"""Name of a file next to this module."""
PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
NOT, NO = ("not", "non"), "no"
REACH: Final = 3
"""Number of words before a word that are searched for a negation."""
ING = "ing"
WORD_CHARACTERS = re.compile(r"[A-Za-z0-9]+")


class Meaning(enum.Enum):
    """Meaning of a word. Within a text, the first of these meanings counts."""

    FAILED = "failed"
    WAITING = "waiting"
    RESTING = "resting"
    UNKNOWN = "unknown"
    READY = "ready"
    WEAK = "weak"
    """Waiting, but only if no other word of the text has a meaning."""
    UNREAD = "unread"
    """A word that is the desired state for some kinds and a fault for others."""


@functools.cache
def load() -> Mapping[str, Any]:
    """Return the content of the data file."""
    text = Path(__file__).with_name(FILE).read_text()
    loaded: Mapping[str, Any] = yaml.load(text, Loader=yaml.CSafeLoader)
    return loaded


@value_class.dataclass(frozen=True, slots=True)
class WordList:
    """Words by meaning."""

    exact: Mapping[str, Meaning]
    prefixes: tuple[tuple[str, Meaning], ...]

    def find(self, word: str) -> Meaning | None:
        """Return the meaning of one word in lower case, or None."""
        meaning = self.exact.get(word)
        if meaning is not None or word in NEUTRAL_ING:
            return meaning
        meaning = next((meaning for prefix, meaning in self.prefixes if word.startswith(prefix)), None)
        if meaning is None and word.endswith(ING) and len(word) > len(ING) + 1:
            return Meaning.WAITING
        return meaning


def read_words(written: Mapping[str, str]) -> WordList:
    """Parse the lists of words. A word in two lists belongs to the first one."""
    exact: dict[str, Meaning] = {}
    prefixes: list[tuple[str, Meaning]] = []
    for name, words in written.items():
        meaning = Meaning(name)
        for word in words.split():
            if word.endswith("*"):
                prefixes.append((word.removesuffix("*"), meaning))
            else:
                exact.setdefault(word, meaning)
    return WordList(exact, tuple(prefixes))


NEUTRAL_ING: Final = frozenset(load()["ing"].split())
WORDS: Final = read_words(load()["words"])
DIRECTIONS: Final = frozenset(load()["directions"].split())
PLAIN_ERRORS: Final = frozenset(load()["plain_errors"].split())
PLAIN_REASONS: Final = frozenset(load()["plain_reasons"].split())
ABSENCES: Final = tuple(load()["absences"])
NEGATIONS: Final = frozenset(load()["negations"].split())
LEADING: Final = frozenset(load()["leading"].split())
NOT_FAILED: Final = frozenset(load()["not_failed"].split())
NOT_WAITING: Final = frozenset(load()["not_waiting"].split())
PHRASES: Final = {phrase: Meaning(meaning) for phrase, meaning in load()["phrases"].items()}
JOINED: Final = {tuple(words.split()): word for words, word in load()["joined"].items()}
JOINED_LENGTH: Final = 3
TO_REST: Final = frozenset(load()["to_rest"].split())
RESTING_ALONE: Final = frozenset(load()["resting_alone"].split())
AT_WORK: Final = frozenset(load()["at_work"].split())
OVER: Final = frozenset(load()["conditions"]["over"].split())
"""Words that mean the end of work, successful or not."""
SUCCESS: Final = frozenset(load()["success"].split())
WORK: Final = tuple(load()["work"])
WORK_WORDS: Final = frozenset(name.lower() for name in WORK)
NO_MEANINGS: Final[Mapping[Meaning | None, Meaning]] = {
    Meaning.FAILED: Meaning.READY,
    Meaning.WAITING: Meaning.READY,
    Meaning.READY: Meaning.WAITING,
}
"""Meaning of a word after `no`, by its own meaning."""


def split(text: str) -> tuple[str, ...]:
    """Return the first words of a name or phrase in lower case. Words that form one term are joined: `UpToDate`."""
    words = tuple(part[0].lower() for part in itertools.islice(PART.finditer(text), limits.HEALTH_WORDS))
    for at in range(len(words) - JOINED_LENGTH + 1):
        joined = JOINED.get(words[at : at + JOINED_LENGTH])
        if joined is not None:
            return (*words[:at], joined, *words[at + JOINED_LENGTH :])
    return words


def find_meanings(text: str) -> tuple[Meaning | None, ...]:
    """Return the meaning of each word, with `not …` and `no …` as one word."""
    words, found = split(text), list[Meaning | None]()
    at = 0
    while at < len(words):
        following = words[at + 1] if at + 1 < len(words) else ""
        joined = find_pair(words[at], following) if following else None
        meaning = joined or WORDS.find(words[at])
        # `not all pods ready`
        is_negated = (
            meaning is Meaning.READY and joined is None and not NEGATIONS.isdisjoint(words[max(at - REACH, 0) : at])
        )
        found.append(Meaning.WAITING if is_negated else meaning)
        at += 2 if joined is not None else 1
    return tuple(found)


def find_pair(word: str, following: str) -> Meaning | None:
    """Return the meaning of two words together, or None if each has its own."""
    phrase = PHRASES.get(f"{word} {following}")
    if phrase is not None:
        return phrase
    if word in NOT:
        if following in NOT_FAILED:
            return Meaning.FAILED
        meaning = WORDS.find(following)
        if meaning is Meaning.FAILED:
            return Meaning.READY
        return Meaning.WAITING if following in NOT_WAITING or meaning is Meaning.READY else None
    return NO_MEANINGS.get(WORDS.find(following)) if word == NO else None


def read(text: str) -> Meaning | None:
    """Return the meaning of a reason or a phrase, or None if none of its words has one. Only its first part is read."""
    return _read(text[: limits.HEALTH_WORD_CHARACTERS])


@functools.lru_cache(maxsize=limits.HEALTH_WORDS_KEPT)
def _read(text: str) -> Meaning | None:
    words, meanings = split(text), find_meanings(text)
    if LEADING.intersection(words[:1]):
        return Meaning.WAITING
    found = next((meaning for meaning in Meaning if meaning in meanings), None)
    if found is Meaning.WAITING and words[-1] in OVER and words[-2].endswith(ING):
        # `Fencing-Completed`
        return Meaning.READY
    if found is Meaning.FAILED and any(absence in text.lower() for absence in ABSENCES):
        failing = {word for word in words if WORDS.find(word) is found}
        return Meaning.WAITING if failing <= PLAIN_ERRORS else found
    if found is Meaning.RESTING and len(words) > 1:
        resting = {word for word in words if WORDS.find(word) is found}
        return Meaning.WAITING if resting <= RESTING_ALONE else found
    return Meaning.WAITING if found is Meaning.WEAK else found


def is_plain(reason: str) -> bool:
    """Return whether a reason reports only that the last reconcile failed: `Error`, `ReconcileError`."""
    words = split(reason[: limits.HEALTH_WORD_CHARACTERS])
    return PLAIN_REASONS.issuperset(words) and any(WORDS.find(word) is Meaning.FAILED for word in words)


def has_succeeded(text: str) -> bool:
    """Return whether a text means that work has succeeded: `Succeeded`."""
    return not SUCCESS.isdisjoint(split(text[: limits.HEALTH_WORD_CHARACTERS])[-1:])


def is_over(text: str) -> bool:
    """Return whether a text means that work has ended, successfully or not: `Complete`, `BackupFinished`."""
    return not OVER.isdisjoint(split(text[: limits.HEALTH_WORD_CHARACTERS])[-1:])


def goes_to_rest(text: str) -> bool:
    """Return whether a text means that the object is being stopped: `stopping`."""
    return not TO_REST.isdisjoint(split(text[: limits.HEALTH_WORD_CHARACTERS]))


def is_pending(text: str) -> bool:
    """Return whether a reason explicitly means that something is pending: `InProgress`, `WaitingForNodes`."""
    words = split(text[: limits.HEALTH_WORD_CHARACTERS])
    return not LEADING.isdisjoint(words[:1]) or PHRASES.get(" ".join(words[-2:])) is Meaning.WAITING


def is_busy(text: str) -> bool:
    """Return whether a text contains a word in -ing that means a change in progress: `ScalingDown`."""
    words = split(text[: limits.HEALTH_WORD_CHARACTERS])
    if read(text) is not Meaning.WAITING:
        return False
    return any(word.endswith(ING) and word not in WORDS.exact and WORDS.find(word) is not None for word in words)


def is_at_work(text: str, *, of_work: bool) -> bool:
    """Return whether a text that otherwise means ready means progress here.

    of_work: whether the kind runs to completion. The text may name the work itself: `Build Running`.
    """
    words = frozenset(split(text[: limits.HEALTH_WORD_CHARACTERS]))
    return not AT_WORK.isdisjoint(words) and (of_work or not WORK_WORDS.isdisjoint(words))


def make_reason(text: str) -> str:
    """Return a text as a reason: one CamelCase word of limited length, or "" if it has no letters."""
    return _make_reason(text[: limits.HEALTH_WORD_CHARACTERS])


@functools.lru_cache(maxsize=limits.HEALTH_WORDS_KEPT)
def _make_reason(text: str) -> str:
    words = WORD_CHARACTERS.findall(text)
    # Words in capitals are converted to lower case. Other words keep their inner capitals.
    parts = [word.capitalize() if word.isupper() or word.islower() else word[0].upper() + word[1:] for word in words]
    return "".join(parts)
