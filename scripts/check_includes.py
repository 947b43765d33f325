#!/usr/bin/env python3
"""Includes point one way: fails (exit 1, a line per fault) when a source file includes a header that its folder must not know.

The folders are the pipeline; what a folder may include is the table below. It also refuses printing to stdout and exiting in
src/, and a copy of a name that only one folder may use (mpi.h, cuda_runtime.h).
"""
import re
import sys

from faults import ROOT, tell

# folder -> folders whose headers it may include, besides its own and include/stowage.h
ALLOWED = {
    "base": set(),
    "graph": {"base"},
    "machine": {"base"},  # and graph/ops.h, for the names of operator classes
    "import": {"base", "graph", "machine"},  # some formats describe the machine as well
    "generate": {"base", "graph"},  # of graph/ only dtypes and kinds of nodes
    "cost": {"base", "graph", "machine"},
    "plan": {"base", "graph", "machine", "cost"},
    "sim": {"base", "graph", "machine", "cost", "plan"},
    "feature": {"base", "graph", "machine", "cost", "plan"},  # of plan/ only the tasks
    "backend": {"base"},
    "nn": {"base", "backend"},
    "dist": {"base"},
    "policy": {"base", "backend", "nn"},  # never the simulator, nor the simulator the policy: they meet in train/
    "search": {"base", "graph", "machine", "cost", "plan", "sim"},  # what methods and trainers work with
    "train": {"base", "graph", "machine", "cost", "plan", "sim", "search", "feature", "backend", "nn", "policy"},
    "method": {"base", "graph", "machine", "cost", "plan", "sim", "search", "feature", "backend", "nn", "policy", "train"},
    "baseline": {"base", "graph", "machine", "cost", "plan", "sim", "search", "feature", "backend", "nn", "policy", "train", "method"},
    "pretrain": {"base", "graph", "machine", "import", "generate", "cost", "plan", "sim", "search", "feature", "backend", "nn", "policy", "train", "method", "dist"},
    "api": {"base", "graph", "machine", "import", "cost", "plan", "sim", "search", "method"},
    "driver": {"base", "graph", "machine", "cost", "plan", "sim", "search", "policy", "train", "method", "export", "api"},
    "export": {"base", "graph", "machine", "cost", "plan", "sim", "import"},
    "explain": {"base", "graph", "machine", "cost", "plan", "sim", "api", "driver"},
    "report": {"base", "graph", "machine", "cost", "plan", "sim", "export", "api", "driver", "explain"},
}
EXCEPTIONS = {("api", "api/options.def"), ("export", "api/options.h"), ("machine", "graph/ops.h"), ("graph", "graph/ops.def"), ("machine", "machine/kinds.def"), ("feature", "feature/columns.def"), ("machine", "machine/fitted.def")}
ONLY_IN = {"mpi.h": "dist", "cuda_runtime.h": "backend"}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
FORBIDDEN_CALL = re.compile(r"(?<![\w.>])((printf|puts|putchar|exit|abort|_exit)\s*\(|f(printf|puts|putc|write)\s*\(.*\bstd(out|err)\b)")


def faults_of(path):
    relative = path.relative_to(ROOT / "src")
    if len(relative.parts) == 1:
        yield 0, "stands in no folder; src/ has none but folders"
        return
    folder = relative.parts[0]
    if folder not in ALLOWED:
        yield 0, f"folder src/{folder} is not in the table of scripts/check_includes.py"
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        code = line.split("//")[0]
        match = INCLUDE.match(line)
        if match:
            name = match.group(2)
            home = ONLY_IN.get(name)
            if home is not None and folder != home:
                yield number, f"{name} belongs to src/{home} alone"
            target = name.split("/")[0] if "/" in name and match.group(1) == '"' else None
            known = target in ALLOWED
            if match.group(1) == '"' and not known and name != "stowage.h":
                yield number, f"src/{folder} must not include {name}"
            if known and target != folder and target not in ALLOWED[folder] and (folder, name) not in EXCEPTIONS:
                yield number, f"src/{folder} must not include {name}"
        elif FORBIDDEN_CALL.search(code) and not code.lstrip().startswith(("*", "/*")):
            yield number, f"the library must not call this: {code.strip()}"


def main():
    files = sorted(path for pattern in ("*.c", "*.h") for path in (ROOT / "src").rglob(pattern))
    faults = [(path, number, text) for path in files for number, text in faults_of(path)]
    return tell(faults, len(files), "includes point one way")


if __name__ == "__main__":
    sys.exit(main())
