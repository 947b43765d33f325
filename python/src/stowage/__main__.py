"""``python -m stowage`` and the script ``stowage-planner``: the program ``stowage`` with these arguments.

It is the one in this package; else, in a checkout, that of its build; else the first one on the path. STOWAGE_PROGRAM names another. Its
exit status and signals are its own: this process becomes the program.
"""
from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Iterator, Optional


def _places() -> Iterator[Path]:
    """Where the program may be, best first."""
    here = Path(__file__).resolve().parent
    yield here / "bin" / "stowage"
    checkout = here.parents[2] if len(here.parents) > 2 else here
    if (checkout / "include" / "stowage.h").is_file():
        for build in ("release", "python"):
            yield checkout / "build" / build / "stowage"


def find_program() -> Optional[str]:
    """The path of the program, or None."""
    named = os.environ.get("STOWAGE_PROGRAM")
    if named:
        return shutil.which(named) or named
    for place in _places():
        if place.is_file() and os.access(place, os.X_OK):
            return str(place)
    return shutil.which("stowage")


def main() -> int:
    program = find_program()
    if program is None:
        print("stowage: the program is neither in this package nor on the path; install it (make install), or name it in STOWAGE_PROGRAM",
              file=sys.stderr)  # fmt: skip
        return 2
    os.environ.setdefault("STOWAGE_PYTHON", sys.executable)  # for `stowage calibrate`
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        print(f"stowage: the program {program} cannot be run: {error.strerror}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
