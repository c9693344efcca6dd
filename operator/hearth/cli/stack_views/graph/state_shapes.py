"""The outline of a node by its state, so that states differ without color. Pure."""

from __future__ import annotations

from typing import Final

from hearth.cli.stack_views.tree.resource_state import RowState

CUT: Final = 14.0
"""How far corners are cut or slanted."""
ROUND: Final = 10.0


def draw(state: RowState, x: float, y: float, width: float, height: float) -> str:
    """Return the outline as the data of an SVG path."""
    match state:
        case RowState.READY | RowState.FINISHED:
            return draw_rounded(x, y, width, height, ROUND)
        case RowState.PROGRESSING:
            return draw_rounded(x, y, width, height, height / 2)
        case RowState.FAILED:
            return draw_polygon(
                (x, y + height / 2),
                (x + CUT, y),
                (x + width - CUT, y),
                (x + width, y + height / 2),
                (x + width - CUT, y + height),
                (x + CUT, y + height),
            )
        case RowState.STOPPED:
            return draw_polygon(
                (x + CUT, y),
                (x + width - CUT, y),
                (x + width, y + CUT),
                (x + width, y + height - CUT),
                (x + width - CUT, y + height),
                (x + CUT, y + height),
                (x, y + height - CUT),
                (x, y + CUT),
            )
        case RowState.OBSOLETE:
            return draw_polygon((x + CUT, y), (x + width, y), (x + width - CUT, y + height), (x, y + height))
        case _:
            return draw_polygon((x, y), (x + width, y), (x + width, y + height), (x, y + height))


def draw_polygon(*points: tuple[float, float]) -> str:
    """Return a closed line through these points."""
    return "M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points) + " Z"


def draw_rounded(x: float, y: float, width: float, height: float, radius: float) -> str:
    """Return a rectangle with rounded corners."""
    across, down = width - 2 * radius, height - 2 * radius
    corner = f"a{radius:.1f} {radius:.1f} 0 0 1"
    return (
        f"M{x + radius:.1f} {y:.1f} h{across:.1f} {corner} {radius:.1f} {radius:.1f} v{down:.1f} "
        f"{corner} {-radius:.1f} {radius:.1f} h{-across:.1f} {corner} {-radius:.1f} {-radius:.1f} v{-down:.1f} "
        f"{corner} {radius:.1f} {-radius:.1f} Z"
    )
