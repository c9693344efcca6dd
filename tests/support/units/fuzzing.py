"""The duration of fuzz tests, and their shared strategies."""

from __future__ import annotations

import orjson
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

QUICK = settings(
    max_examples=150, derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
"""Settings for a second or two, with the same examples in every run."""
LONG = settings(QUICK, max_examples=5_000, derandomize=False)
"""Settings for minutes, with other examples in every run."""

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(2**63), max_value=2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """These bytes with something cut out, put in, doubled or nested deeply."""
    raw = whole
    for _ in range(draw(st.integers(min_value=0, max_value=3))):
        at = draw(st.integers(min_value=0, max_value=len(raw)))
        to = draw(st.integers(min_value=at, max_value=min(len(raw), at + 40)))
        match draw(st.sampled_from(["cut", "put", "double", "nest", "digits"])):
            case "cut":
                raw = raw[:at] + raw[to:]
            case "put":
                raw = raw[:at] + draw(st.binary(max_size=12)) + raw[at:]
            case "double":
                raw = raw[:to] + raw[at:]
            case "nest":
                levels = draw(st.sampled_from([50, 260, 1_100]))
                raw = raw[:at] + b"[" * levels + raw[at:to] + b"]" * levels + raw[to:]
            case _:
                raw = raw[:at] + b"9" * draw(st.sampled_from([3, 25, 400, 5_000])) + raw[at:]
    return raw


@st.composite
def in_pieces(draw: st.DrawFn, raw: bytes) -> list[bytes]:
    """These bytes as a connection might bring them."""
    cuts = sorted(draw(st.lists(st.integers(min_value=0, max_value=len(raw)), max_size=4)))
    return [raw[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]


def write(value: object) -> bytes:
    """As JSON; null where JSON cannot hold it."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return b"null"
