"""How the checks of the sources end: a line per fault and exit status 1, or one line that all is well and 0."""
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tell(faults, count, fine):
    """faults: (path, line, text); count: files that were looked at; fine: what holds for all of them. Returns the exit status."""
    for path, line, text in sorted(faults):
        print(f"{path.relative_to(ROOT)}:{line}: {text}")
    if not faults:
        print(f"{count} files: {fine}")
    return 1 if faults else 0
