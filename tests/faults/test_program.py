"""The program when the system fails it: no memory, no space on the disk, no rights, no thread. Whatever fails and whenever, no command ends by a
signal, each ends with a clear line (or goes on and says so), and a file is either as it was before or whole.

STOWAGE_BIN is the program, STOWAGE_INJECT the library that makes calls fail (inject.c). Writes fail by a limit on the size of files."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
import program  # noqa: E402

INJECT = os.environ.get("STOWAGE_INJECT", "")
OLD = b"what was there before\n"
ERRORS = {"open": ["EACCES", "EMFILE"], "rename": ["EIO", "EACCES"], "fsync": ["EIO", "ENOSPC"], "close": ["EIO"], "fdopen": ["ENOMEM"],
          "thread": ["EAGAIN"]}


def towers():
    """Two towers of products that are added up: something to place and something to search."""
    nodes = [program.node(0, "input", [])]
    ends = []
    for _ in range(2):
        last = 0
        for _ in range(3):
            weights = len(nodes)
            nodes.append(program.node(weights, "parameter", [], label=f"tower.{weights}"))
            nodes.append(program.node(weights + 1, "mul", [last, weights], flops=5_000_000_000))
            last = weights + 1
        ends.append(last)
    end = len(nodes)
    nodes.append(program.node(end, "add", ends, flops=256))
    return {"format": "opgraph", "version": 1, "name": "towers", "loss": end, "outputs": [end], "nodes": nodes}


def is_json(content):
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


def is_table(content):
    """Lines of CSV with as many cells each."""
    lines = content.decode().splitlines()
    return content.endswith(b"\n") and len(lines) > 1 and len({line.count(",") for line in lines}) == 1


def is_picture(content):
    return content.startswith(b"<svg ") and content.endswith(b"</svg>\n")


# What each command writes, and how to tell that it is whole.
SEARCH = ["t.json", "-m", "h200x2", "--threads", "2", "--seed", "1"]
COMMANDS = {
    "inspect": (["inspect", "t.json"], {}),
    "features": (["inspect", "t.json", "--features", "-m", "h200x2"], {}),
    "simulate": (["simulate", "t.json", "-m", "h200x2", "-p", "spread", "-o", "p.json", "--trace", "s.json"],
                 {"p.json": is_json, "s.json": is_json}),
    "optimize": (["optimize", *SEARCH, "--evaluations", "30", "-o", "p.json", "--trace", "s.json", "--plot", "o.svg"],
                 {"p.json": is_json, "s.json": is_json, "o.svg": is_picture}),
    "optimize-json": (["optimize", *SEARCH, "--policy", "none", "--evaluations", "20", "-f", "json"], {}),
    "compare": (["compare", *SEARCH, "--evaluations", "8", "--methods", "single,etf,metis,sct,anneal", "--best", "p.json",
                 "--plot", "o.svg"], {"p.json": is_json, "o.svg": is_picture}),
    "compare-curve": (["compare", *SEARCH, "--updates", "1", "--methods", "hdp", "--groups", "4", "--evaluations", "30", "--curve", "c.csv",
                       "-f", "json"], {"c.csv": is_table}),
    "compare-placeto": (["compare", *SEARCH, "--methods", "placeto", "--units", "4", "--evaluations", "30", "--curve", "c.csv", "-f", "json"],
                        {"c.csv": is_table}),
    "export": (["export", "t.json", "-m", "h200x2", "-p", "spread", "--to", "csv", "-o", "p.csv"], {"p.csv": is_table}),
    "train": (["train", *SEARCH, "--updates", "1", "-o", "p.stw", "--curve", "c.csv", "--best", "p.json"],
              {"p.stw": lambda content: content[:8] == b"STWPOLCY" and len(content) > 100000, "c.csv": is_table, "p.json": is_json}),
    "generate": (["generate", "rnnlm", "--layers", "1", "--steps", "2", "-o", "g.json.gz"],
                 {"g.json.gz": lambda content: content[:2] == b"\x1f\x8b"}),
    "machine": (["machine", "h200x2", "-o", "m.json"], {"m.json": is_json}),
}


def some(count, most):
    """At most about so many of 1 ... count: the first ones, then further and further apart."""
    growth = 1.0
    while growth < 4.0 and sum(1 for _ in points(count, growth)) > most:
        growth += 0.02
    return list(points(count, growth))


def points(count, growth):
    n = 1.0
    while n <= count:
        yield int(n)
        n = max(n + 1.0, n * growth)


class Faults(program.Case):
    def setUp(self):
        super().setUp()
        self.path("t.json", towers())

    def prepare(self, name):
        """An older file in the place of each that the command writes, and nothing else but the graph."""
        for other in os.listdir(self.folder):
            if other != "t.json":
                os.unlink(self.path(other))
        for output in COMMANDS[name][1]:
            self.path(output, OLD)

    def execute(self, name, environment=None, limit=None, stdout=subprocess.PIPE):
        self.prepare(name)

        def before():
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        return subprocess.run([program.binary, *COMMANDS[name][0]], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=stdout,
                              stderr=subprocess.PIPE, timeout=120, preexec_fn=before, env=dict(os.environ, **(environment or {})))

    def inject(self, name, what, count_file=None):
        # By its name, found on a path: the loader takes a blank in LD_PRELOAD, but not in LD_LIBRARY_PATH, for the end of a name.
        folder, library = os.path.split(INJECT)
        environment = {"LD_PRELOAD": library, "LD_LIBRARY_PATH": folder, "STOWAGE_FAULT": what}
        if count_file is not None:
            environment["STOWAGE_FAULT_COUNT"] = count_file
        return self.execute(name, environment)

    def count(self, name, kind):
        """How many calls of that kind the command makes."""
        with tempfile.NamedTemporaryFile() as file:
            result = self.inject(name, f"{kind}:0", file.name)
            self.assertEqual(result.returncode, 0, result)
            return int(file.read())

    def check(self, name, result):
        outputs = COMMANDS[name][1]
        lines = result.stderr.decode().splitlines()
        self.assertIn(result.returncode, (0, 1, 2), result)
        if result.returncode == 0:
            self.assertEqual([line for line in lines if not line.startswith("stowage: warning: ")], [], result)
        else:
            faults = [line for line in lines if not line.startswith("stowage: warning: ")]
            self.assertEqual(len(faults), 1, result)
            self.assertRegex(faults[0], r"^stowage: \S", result)
        self.assertEqual(sorted(os.listdir(self.folder)), sorted(["t.json", *outputs]), "something is left behind or lost")
        for output, is_whole in outputs.items():
            with open(self.path(output), "rb") as file:
                content = file.read()
            self.assertTrue(content == OLD or is_whole(content), (output, content[:200], result))
            if result.returncode == 0 and not lines:
                self.assertNotEqual(content, OLD, (output, result))

    def sweep(self, name, kind, most, suffixes=("",)):
        count = self.count(name, kind)
        for n in some(count, most):
            suffix = suffixes[n % len(suffixes)]
            with self.subTest(command=name, fault=f"{kind}:{n}{suffix}", of=count):
                self.check(name, self.inject(name, f"{kind}:{n}{suffix}"))
        return count

    def test_allocations(self):
        for name in COMMANDS:
            self.assertGreater(self.sweep(name, "alloc", 12 if name in ("train", "optimize") else 8), 5)

    def test_no_memory_from_some_point_on(self):
        for name in COMMANDS:
            self.sweep(name, "alloc", 4, ["+"])

    def test_calls_for_files_and_threads(self):
        for name in COMMANDS:
            for kind, errors in ERRORS.items():
                self.sweep(name, kind, 4, [f":{error}" for error in errors])
        self.assertGreater(self.count("optimize", "rename"), 1)

    def test_full_disk(self):
        """The limit is met within the first write, within a later one, or not at all."""
        for name, (_, outputs) in COMMANDS.items():
            sizes = [0, 1, 150, 5000] if outputs else []
            for limit in sizes:
                with self.subTest(command=name, limit=limit):
                    result = self.execute(name, limit=limit)
                    self.check(name, result)
                    if limit <= 1:
                        self.assertEqual(result.returncode, 2, result)

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_full_output(self):
        for name in ("inspect", "features", "optimize", "optimize-json", "compare", "train"):
            with self.subTest(command=name), open("/dev/full", "wb") as full:
                result = self.execute(name, stdout=full)
                self.assertEqual(result.returncode, 2, result)
                self.check(name, result)
                for output, is_whole in COMMANDS[name][1].items():  # which went before the report
                    with open(self.path(output), "rb") as file:
                        self.assertTrue(is_whole(file.read()), output)

    def test_a_search_keeps_its_plan(self):
        """Where one method runs out of memory, the others make a plan, it is written, and a line says which method it was."""
        kept = 0
        for n in some(self.count("compare", "alloc"), 40):
            result = self.inject("compare", f"alloc:{n}")
            self.check("compare", result)
            if b"out of memory in " not in result.stderr:
                continue
            kept += 1
            self.assertEqual(result.returncode, 0, result)
            self.assertRegex(result.stderr.decode(), r"^stowage: warning: out of memory in \w+; the best plan of what was left is kept\n$")
            with open(self.path("p.json"), "rb") as file:
                plan = json.load(file)
            self.assertTrue(plan["valid"], plan)
            reasons = [candidate["reason"] or "" for candidate in plan["candidates"] if not candidate["valid"]]
            self.assertTrue(all(reason.startswith("out of memory") for reason in reasons), reasons)
        self.assertGreater(kept, 5)


if __name__ == "__main__":
    if not os.path.exists(INJECT):
        print(f"no library at '{INJECT}'; give its path in STOWAGE_INJECT", file=sys.stderr)
        sys.exit(2)
    sys.exit(program.main())
