"""`hearth` under a profiler: `profiled.py FILE ARGUMENTS…`, the same as `hearth ARGUMENTS…`, a profile into FILE at its end.

Counts the CPU of the main thread, so that waiting counts as nothing; begins when everything is imported. (kopf has a
thread of its own, and so does name resolution: these are not seen.)
"""

from __future__ import annotations

import cProfile
import sys
import time

import hearth.__main__
import hearth.wiring


def main() -> None:
    """Run it; the profile is written however it ends."""
    file = sys.argv.pop(1)
    profile = cProfile.Profile(time.thread_time)
    try:
        profile.runcall(hearth.__main__.main)
    finally:
        profile.dump_stats(file)


if __name__ == "__main__":
    main()
