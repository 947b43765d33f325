#!/usr/bin/env python3
"""Check the operator table src/graph/ops.def, and graphs against it.

    scripts/check_ops.py [--table FILE] [GRAPH.json.gz ...]

Faults are printed one per line and make the exit status 1: malformed rows, unknown classes, a canonical name twice, a name twice
within one vocabulary. Operators of the given opgraph files (aten vocabulary) must stand in the aten column; sources need not.
Without faults the counts per class and vocabulary are printed.
"""
import argparse
import gzip
import json
import re
import sys
from collections import Counter
from pathlib import Path

CLASSES = (
    "MATMUL CONVOLUTION ATTENTION NORMALIZATION POOLING ELEMENTWISE BROADCAST REDUCE SHAPE ALIAS GATHER SCATTER RANDOM SORT RECURRENT "
    "COLLECTIVE CONTROL OPAQUE"
).split()
VOCABULARIES = ("aten", "hlo", "onnx", "tf")
SOURCES = {
    "aten": {"parameter", "buffer", "input", "constant"},
    "hlo": {"parameter", "constant"},
    "onnx": {"Constant"},
    "tf": {"Placeholder", "PlaceholderV2", "PlaceholderWithDefault", "Const", "Variable", "VariableV2", "VarHandleOp", "_Arg"},
}
NAME = {
    "aten": re.compile(r"[A-Za-z_][A-Za-z0-9_]*"),
    "hlo": re.compile(r"[a-z][a-z0-9-]*"),
    "onnx": re.compile(r"[A-Za-z][A-Za-z0-9_]*"),
    "tf": re.compile(r"_?[A-Za-z][A-Za-z0-9_>]*"),
}
KEYWORDS = set(
    "auto break case char const continue default do double else enum extern float for goto if inline int long register restrict "
    "return short signed sizeof static struct switch typedef union unsigned void volatile while bool complex imaginary".split()
)
MAX_COLUMNS = 150
MAX_LITERAL = 4095  # what C11 asks every compiler to take, after concatenation

TOKEN = re.compile(r'(?P<skip>\s+|//[^\n]*|/\*.*?\*/)|(?P<ident>[A-Za-z_]\w*)|(?P<string>"[^"\\\n]*")|(?P<punct>[(),])|(?P<bad>.)', re.S)


def tokenize(text):
    """Yield (line, kind, token) without white space and comments."""
    line = 1
    for m in TOKEN.finditer(text):
        if m.lastgroup != "skip":
            yield line, m.lastgroup, m.group()
        line += m.group().count("\n")


def split_rows(tokens):
    """Cut the token stream into one list per row; a row begins with the word STW_OP."""
    rows = []
    for token in tokens:
        if token[2] == "STW_OP" or not rows:
            rows.append([])
        rows[-1].append(token)
    return rows


def parse_row(tokens):
    """Return (canonical, class, four columns), or raise ValueError saying what is wrong. A column is its list of literals."""
    words = [t[2] for t in tokens]
    kinds = [t[1] for t in tokens]
    if words[0] != "STW_OP":
        raise ValueError(f"unexpected {words[0]!r} where a row should begin")
    shape = "".join({"ident": "i", "string": "s"}.get(k, w) for k, w in zip(kinds, words))
    if not re.fullmatch(r"i\(i,i,s+,s+,s+,s+\)", shape):
        raise ValueError('malformed row: want STW_OP(name, CLASS, "aten", "hlo", "onnx", "tf")')
    columns = [[]]
    for kind, word in zip(kinds[6:-1], words[6:-1]):
        if kind == "string":
            columns[-1].append(word[1:-1])
        else:
            columns.append([])
    return words[2], words[4], columns


def check_table(path, faults):
    """Return the rows as (canonical, class, {vocabulary: names}); append one line per fault."""
    try:
        text = path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as e:
        faults.append(f"{path}: {e}")
        return []

    def fault(line, message):
        faults.append(f"{path}:{line}: {message}")

    if not text.startswith("// clang-format off\n"):
        fault(1, "the first line must be '// clang-format off'")
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > MAX_COLUMNS:
            fault(number, f"{len(line)} columns, at most {MAX_COLUMNS}")

    rows = []
    canonical_line = {}
    class_line = {}
    name_line = {v: {} for v in VOCABULARIES}
    for tokens in split_rows(tokenize(text)):
        line = tokens[0][0]
        try:
            canonical, klass, columns = parse_row(tokens)
        except ValueError as e:
            fault(line, str(e))
            continue

        if canonical in KEYWORDS:
            fault(line, f"canonical name '{canonical}' is a word of C")
        if canonical in canonical_line:
            fault(line, f"canonical name '{canonical}' stands already in line {canonical_line[canonical]}")
        canonical_line.setdefault(canonical, line)

        if klass not in CLASSES:
            fault(line, f"{canonical}: unknown class '{klass}'")
        elif klass in class_line and rows and rows[-1][1] != klass:
            fault(line, f"{canonical}: rows of class {klass} begin in line {class_line[klass]}; keep a class together")
        class_line.setdefault(klass, line)

        names = {}
        for vocabulary, literals in zip(VOCABULARIES, columns):
            for left, right in zip(literals, literals[1:]):
                if not left.endswith(" ") and not right.startswith(" "):
                    fault(line, f"{canonical}: {vocabulary} names run together: '{left.split(' ')[-1]}' '{right.split(' ')[0]}'")
            column = "".join(literals)
            if column != " ".join(column.split()):
                fault(line, f"{canonical}: {vocabulary} names not separated by single spaces")
            if len(column) > MAX_LITERAL:
                fault(line, f"{canonical}: {vocabulary} column has {len(column)} characters, at most {MAX_LITERAL}")
            names[vocabulary] = column.split()
            for name in names[vocabulary]:
                if not NAME[vocabulary].fullmatch(name):
                    fault(line, f"{canonical}: '{name}' is no {vocabulary} name")
                if name in SOURCES[vocabulary]:
                    fault(line, f"{canonical}: '{name}' is a source, not an operator")
                if name in name_line[vocabulary]:
                    fault(line, f"{canonical}: {vocabulary} name '{name}' stands already in line {name_line[vocabulary][name]}")
                name_line[vocabulary].setdefault(name, line)
        if not any(names.values()):
            fault(line, f"{canonical}: no name in any vocabulary")
        rows.append((canonical, klass, names))
    if not rows:
        fault(1, "no rows")
    return rows


def check_graph(path, known, faults):
    """Append a fault for each operator name of the opgraph file that is not in known. Return the number of distinct operators."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else open(path, encoding="utf-8") as f:
            graph = json.load(f)
        if graph["format"] != "opgraph":
            raise ValueError(f"format is {graph['format']!r}, want 'opgraph'")
        ops = Counter(node["op"] for node in graph["nodes"])
    except (OSError, EOFError, ValueError, KeyError, TypeError) as e:
        faults.append(f"{path}: not a readable opgraph file: {type(e).__name__}: {e}")
        return 0
    for source in SOURCES["aten"]:
        ops.pop(source, None)
    for op in sorted(ops):
        if op.split("::")[-1].split(".")[0] not in known:
            faults.append(f"{path}: operator '{op}' ({ops[op]} nodes) is not in the aten column")
    return len(ops)


def print_counts(rows):
    print(f"{'class':<14}{'rows':>6}" + "".join(f"{v:>7}" for v in VOCABULARIES))
    for klass in CLASSES + ["total"]:
        chosen = [r for r in rows if klass in (r[1], "total")]
        counts = "".join(f"{sum(len(r[2][v]) for r in chosen):>7}" for v in VOCABULARIES)
        print(f"{klass:<14}{len(chosen):>6}{counts}")


def main():
    parser = argparse.ArgumentParser(description="Check the operator table, and graphs against it.")
    parser.add_argument("--table", type=Path, default=Path(__file__).resolve().parent.parent / "src" / "graph" / "ops.def", metavar="FILE")
    parser.add_argument("graphs", nargs="*", type=Path, metavar="GRAPH.json.gz")
    args = parser.parse_args()

    faults = []
    rows = check_table(args.table, faults)
    known = {name for row in rows for name in row[2]["aten"]}
    for path in args.graphs:
        check_graph(path, known, faults)
    if faults:
        print("\n".join(faults))
        return 1
    print_counts(rows)
    if args.graphs:
        print(f"{len(args.graphs)} graphs: every operator is known")
    return 0


if __name__ == "__main__":
    sys.exit(main())
