#!/usr/bin/env python3
"""What src/ and cli/ hand to other files is used by one: fails (exit 1, a line per fault) on a function or table that nobody calls,
that only its own file calls (it could be static), or that only tests, fuzz targets and benchmarks call (it belongs to
tests/support/). What stands in include/stowage.h is for others, and exempt.

It reads the sources, not a build: what is compiled only with MPI, METIS or the like counts as well.
"""
import re
import sys

from faults import ROOT, tell

# Only tests call these, and they must be where they are.
FOR_TESTS = {
    "stw_arena_used": "looks inside the arena's block",
    "stw_arena_high_water": "looks inside the arena's block",
    "stw_comm_limit": "makes MPI's largest message small enough to be split in a test",
    "stw_instance_label": "looks inside an instance",
    "stw_reinforce_last_row": "looks inside a training",
    "stw_placeto_trainer_last_row": "looks inside a training",
    "stw_placeto_trainer_net": "what files of it will hold; tests carry it to other graphs",
}

COMMENT = re.compile(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.S)
NAME = re.compile(r"\b(?:stw|cli)_\w+")
# At the beginning of a line: a function with its body, or data with its value.
DEFINITION = re.compile(r"^(?!static\b|typedef\b|extern\b|struct \w+ \{|enum\b|return\b)[a-z][\w \*]*?\b((?:stw|cli)_\w+)(?=\([^;{}]*\)\s*\{|(?:\[\w*\])*\s*=)", re.M)
DECLARATION = re.compile(r"^[a-z][^;{}#]*;", re.M)
PASTED = re.compile(r"\b((?:stw|cli)_\w*?)##")


def without_comments(text):
    return COMMENT.sub(lambda m: " " if m.group().startswith("/*") else m.group(), text)


def read(folders, patterns):
    files = sorted(path for folder in folders for pattern in patterns for path in (ROOT / folder).rglob(pattern))
    return {path: without_comments(path.read_text(errors="replace")) for path in files}


def faults_of(product, others, public):
    names_in = {}
    for path, text in product.items():
        body = DECLARATION.sub(" ", text) if path.suffix == ".h" else text
        names_in[path] = set(NAME.findall(body))
    in_tests = {name for text in others.values() for name in NAME.findall(text)}
    prefixes = tuple({prefix for text in product.values() for prefix in PASTED.findall(text)})
    for path, text in product.items():
        if path.suffix not in (".c", ".cpp"):
            continue
        for match in DEFINITION.finditer(text):
            name = match.group(1)
            pasted = any(name.startswith(prefix) for prefix in prefixes)
            if name in public or pasted or any(name in names for other, names in names_in.items() if other != path):
                continue
            line = text.count("\n", 0, match.start()) + 1
            inside = len(re.findall(rf"\b{name}\b", text)) > 1
            if inside and name not in in_tests:
                yield path, line, f"{name}: only this file uses it; make it static"
            elif not inside and name not in in_tests:
                yield path, line, f"{name}: nobody uses it; delete it"
            elif not inside and name not in FOR_TESTS:
                yield path, line, f"{name}: only tests use it; move it to tests/support"


def main():
    product = read(("src", "cli"), ("*.c", "*.cpp", "*.h", "*.def", "*.inc"))
    others = read(("tests", "fuzz", "bench"), ("*.c", "*.h"))
    public = set(NAME.findall((ROOT / "include/stowage.h").read_text()))
    return tell(list(faults_of(product, others, public)), len(product), "what they hand to others is used")


if __name__ == "__main__":
    sys.exit(main())
