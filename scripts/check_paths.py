#!/usr/bin/env python3
"""Files that documents and comments name exist: fails (exit 1, a line per fault) when one does not.

A name is what stands in backticks in a document, or in a comment of C code, and ends like a source file: `train/update.c`, `moves.h`,
`hlo*.c`, `cmd_NAME.c` (capitals stand for any name). It is looked up from the root, from src/, from tests/ and beside the file that names it; a name without a folder may be anywhere.
"""
import fnmatch
import os
import pathlib
import re
import subprocess
import sys

from faults import ROOT, tell

ENDINGS = r"(?:c|h|cpp|def|py|sh|md)"
IN_DOCUMENT = re.compile(r"`([\w./*-]+\." + ENDINGS + r")`")
IN_COMMENT = re.compile(r"(?<![\w./*\"<-])((?:[\w*-]+/)*[\w*-]+\.(?:c|h|def|md))\b(?!\")")
FOREIGN = {"hierarchical_controller.py"}  # other people's
LEFT_OUT = ("CHANGELOG.md", "docs/results")  # what was, by the names that it had


def listed():
    """Tracked files and those that are going to be."""
    lines = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True, check=True).stdout
    return sorted({line for line in lines.split("\n") if line and (ROOT / line).exists()})


def exists(name, beside, files, base_names):
    if name in FOREIGN:
        return True
    name = re.sub(r"[A-Z]{3,}(?=\*?\.(?:c|h))", "*", name)
    if "/" not in name:
        return any(fnmatch.fnmatch(base, name) for base in base_names)
    starts = ("", "src/", "tests/", os.path.dirname(beside) + "/")
    wanted = [os.path.normpath(start + name) for start in starts]
    return any(any(fnmatch.fnmatch(file, each) for file in files) if "*" in each else each in files for each in wanted)


def names_in(path, text):
    if path.endswith(".md"):
        for number, line in enumerate(text.split("\n"), 1):
            yield from ((number, name) for name in IN_DOCUMENT.findall(line))
        return
    for match in re.finditer(r"/\*.*?\*/", text, re.S):
        first = text.count("\n", 0, match.start()) + 1
        for name in IN_COMMENT.finditer(match.group()):
            yield first + match.group().count("\n", 0, name.start()), name.group(1)


def main():
    files = set(listed())
    base_names = {os.path.basename(file) for file in files} | {os.path.basename(str(header)) for header in pathlib.Path("/usr/include").glob("*.h")}
    faults = []
    read = [file for file in sorted(files) if file.endswith((".md", ".c", ".h")) and not file.startswith(LEFT_OUT)]
    for path in read:
        for number, name in names_in(path, (ROOT / path).read_text(encoding="utf-8")):
            if not exists(name, path, files, base_names):
                faults.append((ROOT / path, number, f"there is no {name}"))
    return tell(faults, len(read), "what they name exists")


if __name__ == "__main__":
    sys.exit(main())
