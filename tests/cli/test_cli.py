"""The command line program, as a user meets it: output, faults, exit statuses, man pages, completion.

    python3 tests/cli/test_cli.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import csv
import fcntl
import gzip
import io
import json
import os
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GRAPH = os.path.join(ROOT, "data", "graphs", "unet.json.gz")
SLOW = os.path.join(ROOT, "data", "graphs", "rnnlm-2.json.gz")  # far from its bound: a search lasts as long as it may
SEARCH_OPTIONS = ["budget", "evaluations", "objective", "tasks", "rule", "fusion", "units"]
PRETRAINED_OPTIONS = ["updates", "policy", "decodes"]
POLICY_OPTIONS = ["learning-rate", "reward", "start-plans", "warm-start"]
LAST_OPTIONS = ["threads", "seed", "help", "version"]
COMMANDS = ["optimize", "compare", "train", "bench", "simulate", "export", "inspect", "generate", "machine", "version", "help"]
OPTIONS = {
    "optimize": ["machine", "from", "memory", "costs", "shape", "output", "trace", "format", *SEARCH_OPTIONS, "preset",
                 *PRETRAINED_OPTIONS, *POLICY_OPTIONS, *LAST_OPTIONS],
    "compare": ["machine", "methods", "from", "memory", "costs", "shape", "best", "format", *SEARCH_OPTIONS, "preset",
                *PRETRAINED_OPTIONS, "shuffle-features", *POLICY_OPTIONS, "groups", *LAST_OPTIONS],
    "train": ["machine", "memory", "costs", "shape", "output", "resume", "corpus", "hold-out", "problems", "network", "sum", "curve", "best",
              "format", "budget", "objective", "tasks", "rule", "fusion", "units", "preset", "updates", *POLICY_OPTIONS, *LAST_OPTIONS],
    "bench": ["output", "store", "data", "table", "quick", "rows", "what", "seeds", "link", "budget-scale", "hdp", "hdp-limit", "deadline",
              "jobs", "commit", "format", "threads", "help", "version"],
    "simulate": ["machine", "plan", "memory", "costs", "shape", "output", "trace", "format", *SEARCH_OPTIONS, *LAST_OPTIONS],
    "export": ["machine", "plan", "memory", "costs", "shape", "to", "strip", "output", "help", "version"],
    "inspect": ["machine", "shape", "format", "units", "features", "help", "version"],
    "generate": ["layers", "width", "batch", "sequence", "steps", "image", "vocabulary", "experts", "output", "format", "seed", "help", "version"],
    "machine": ["memory", "output", "format", "help", "version"],
    "version": ["help", "version"],
    "help": ["man", "completion", "help", "version"],
}
SIMULATE_KEYS = ["graph", "machine", "step_s", "valid", "reason", "peak_bytes", "lower_bound_s", "lower_bound_fusion_s",
                 "lower_bound_bytes", "measured_share", "devices", "links"]
HEAD_KEYS = ["format", "version", "graph", "machine", "tasks", "method", "seed", "objective", "value", "step_s", "valid",
             "lower_bound_s", "lower_bound_fusion_s", "lower_bound_bytes", "measured_share", "peak_bytes", "candidates"]
CANDIDATE_KEYS = ["method", "step_s", "value", "valid", "reason", "peak_bytes", "search_s", "evaluations", "seed"]
TRAINING_KEYS = [*HEAD_KEYS[:-1], "preset", "updates", "evaluations", "search_s", "interrupted", "note", "policy", "curve", "best"]
CURVE_KEYS = ["update", "evaluations", "round", "seconds", "greedy", "mean", "best", "valid", "entropy", "sigma", "rate",
              "gradient_norm", "clipped", "loss", "spread"]
COMPARE_KEYS = ["graph", "machine", "objective", "lower_bound_s", "lower_bound_fusion_s", "lower_bound_bytes", "measured_share",
                "methods"]
CSV_KEYS = ["graph", "machine", "objective", "method", "step_s", "value", "valid", "reason", "worst_peak_bytes", "search_s",
            "evaluations", "seed", "lower_bound_s", "lower_bound_fusion_s", "lower_bound_bytes", "measured_share", "note"]

binary = os.environ.get("STOWAGE_BIN", "")


def node(index, op, inputs, **more):
    return {"id": index, "name": f"n{index}", "op": op, "inputs": inputs, "dtype": "f32", "shape": [256], "bytes": 1024, **more}


# A parameter, an input, a product, a sum, and the update of the parameter; two measured kinds, one unknown operator.
SMALL = {"format": "opgraph", "version": 1, "name": "small", "family": "test", "loss": 3, "outputs": [3],
         "nodes": [node(0, "parameter", [], label="w"), node(1, "input", []),
                   node(2, "mul", [0, 1], flops=256, us={"h200": 2.0, "cpu8": 20.0}),
                   node(3, "made_up_operator", [2], flops=256, us={"h200": 3.0}),
                   node(4, "sub", [0, 2], flops=256, updates=0, us={"h200": 4.0, "cpu8": 40.0})]}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="stowage-cli-")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name, content=None):
        """The path of a file in the test's folder, written first if there is content."""
        path = os.path.join(self.folder, name)
        if content is not None:
            if not isinstance(content, (bytes, str)):
                content = json.dumps(content)
            if isinstance(content, str):
                content = content.encode()
            with open(path, "wb") as file:
                file.write(content)
        return path

    def run_stowage(self, *arguments, **more):
        environment = dict(os.environ, **more.pop("env", {}))
        return subprocess.run([binary, *arguments], capture_output=True, env=environment, cwd=more.pop("cwd", self.folder),
                              timeout=120, **more)

    def done(self, *arguments, status=0, stderr="", **more):
        """Runs, expects this exit status and no remark, and returns standard output."""
        result = self.run_stowage(*arguments, **more)
        self.assertEqual(result.returncode, status, result)
        if stderr is not None:
            self.assertEqual(result.stderr.decode(), stderr)
        return result.stdout.decode()

    def fault(self, *arguments, says=(), **more):
        """Runs, expects exit status 2, nothing on standard output and one line with these words on standard error."""
        result = self.run_stowage(*arguments, **more)
        line = result.stderr.decode()
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(result.stdout, b"")
        self.assertTrue(line.startswith("stowage: "), line)
        self.assertEqual(line.count("\n"), 1, line)
        self.assertTrue(line.endswith("\n"), line)
        for word in says:
            self.assertIn(word, line)
        return line


class Help(Case):
    def test_program(self):
        text = self.done("help")
        self.assertEqual(text, self.done("--help"))
        self.assertEqual(text, self.done("-h"))
        for command in COMMANDS:
            self.assertIn(f"\n  {command} ", text)

    def test_each_command(self):
        for command in COMMANDS:
            with self.subTest(command=command):
                text = self.done("help", command)
                self.assertTrue(text.startswith(f"usage: stowage {command}"))
                for spelling in ([command, "--help"], [command, "-h"], [command, "operand", "--help"]):
                    self.assertEqual(text, self.done(*spelling))
                shown = [word[2:].rstrip(",") for line in text.splitlines() for word in line.split()[:2]
                         if word.startswith("--") and line.startswith("  ") and not line.startswith("       ")]
                self.assertEqual(shown, OPTIONS[command])
                self.assertTrue(all(len(line) <= 82 for line in text.splitlines()), text)

    def test_methods_are_listed(self):
        text = self.done("help", "simulate")
        self.assertIn("\n  single ", text)
        self.assertIn("\n  spread ", text)

    def test_version(self):
        text = self.done("version")
        self.assertRegex(text, r"^stowage \d+\.\d+\.\d+\n$")
        for spelling in (["--version"], ["-V"], ["simulate", "--version"], ["inspect", "x", "-V"]):
            self.assertEqual(text, self.done(*spelling))

    def test_no_command(self):
        result = self.run_stowage()
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr, b"stowage: no command given\n")
        self.assertIn(b"Commands:", result.stdout)

    def test_help_of_unknown_command(self):
        self.fault("help", "inspct", says=["inspct", "inspect"])

    def test_completion(self):
        script = self.path("completion.bash", self.done("help", "--completion"))
        subprocess.run(["bash", "-n", script], check=True)

        def complete(*words):
            code = f"source {script}; COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _stowage; printf '%s\\n' \"${{COMPREPLY[@]}}\""
            out = subprocess.run(["bash", "-c", code, "bash", *words], capture_output=True, check=True, text=True)
            self.assertEqual(out.stderr, "")
            return out.stdout.split()

        self.assertEqual(complete("stowage", "s"), ["simulate"])
        self.assertEqual(complete("stowage", "help", ""), COMMANDS)
        for command in COMMANDS:
            self.assertEqual(complete("stowage", command, "--"), ["--" + name for name in OPTIONS[command]])
        self.assertEqual(complete("stowage", "simulate", "--format", ""), ["text", "json"])
        self.assertEqual(complete("stowage", "machine", "-f", ""), ["text", "json"])
        self.assertEqual(complete("stowage", "compare", "-f", ""), ["text", "json", "csv", "markdown"])
        self.assertEqual(complete("stowage", "compare", "--methods", "op"), ["optimize"])
        self.assertEqual(complete("stowage", "optimize", "--objective", ""), ["time", "memory", "throughput"])
        self.assertEqual(complete("stowage", "simulate", "-p", "sp"), ["spread"])
        self.assertEqual(complete("stowage", "inspect", "some"), [])


class Man(Case):
    PAGES = ["stowage"] + ["stowage-" + name for name in COMMANDS if name not in ("help", "version")]

    def test_up_to_date(self):
        result = subprocess.run([os.path.join(ROOT, "scripts", "make_man.sh"), "--check", os.path.abspath(binary)],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_check_fails_when_a_page_differs(self):
        root = self.path("tree")
        shutil.copytree(os.path.join(ROOT, "docs", "man"), os.path.join(root, "docs", "man"))
        os.mkdir(os.path.join(root, "scripts"))
        script = shutil.copy(os.path.join(ROOT, "scripts", "make_man.sh"), os.path.join(root, "scripts"))
        with open(os.path.join(root, "docs", "man", "stowage-inspect.1"), "a") as page:
            page.write("changed\n")
        command = [script, "--check", os.path.abspath(binary)]
        self.assertEqual(subprocess.run(command, capture_output=True).returncode, 1)
        subprocess.run([script, os.path.abspath(binary)], check=True)
        self.assertEqual(subprocess.run(command, capture_output=True).returncode, 0)
        os.remove(os.path.join(root, "docs", "man", "stowage-export.1"))
        self.assertEqual(subprocess.run(command, capture_output=True).returncode, 1)
        subprocess.run([script, os.path.abspath(binary)], check=True)
        with open(os.path.join(root, "docs", "man", "stowage-nosuch.1"), "w"):
            self.assertEqual(subprocess.run(command, capture_output=True).returncode, 1)

    def test_every_command_has_a_page(self):
        pages = sorted(name[:-2] for name in os.listdir(os.path.join(ROOT, "docs", "man")) if name.endswith(".1"))
        self.assertEqual(pages, sorted(self.PAGES))

    def test_sections(self):
        for page in self.PAGES:
            with open(os.path.join(ROOT, "docs", "man", page + ".1")) as file:
                sections = [line[4:].strip() for line in file if line.startswith(".SH ")]
            order = [s for s in sections if s in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO")]
            self.assertEqual(order, ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "EXAMPLES", "SEE ALSO"], page)

    @unittest.skipUnless(shutil.which("man"), "there is no man")
    def test_no_warnings(self):
        for page in self.PAGES:
            command = ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", os.path.join(ROOT, "docs", "man", page + ".1")]
            result = subprocess.run(command, capture_output=True, env=dict(os.environ, MANWIDTH="80", LC_ALL="C.UTF-8"))
            self.assertEqual((result.returncode, result.stderr), (0, b""), page)
            self.assertGreater(len(result.stdout), 1000)


class Usage(Case):
    def test_unknown_command(self):
        self.fault("simulat", says=["'simulat'", "did you mean 'simulate'?"])
        self.fault("mahcine", says=["did you mean 'machine'?"])
        self.assertNotIn("did you mean", self.fault("zzzzzz", says=["unknown command 'zzzzzz'", "stowage help"]))
        self.fault("", says=["unknown command ''"])

    def test_unknown_option(self):
        self.fault("simulate", GRAPH, "--machin", "h200x4", says=["'--machin'", "did you mean --machine?"])
        self.fault("simulate", GRAPH, "--formt=json", says=["'--formt'", "did you mean --format?"])
        self.fault("inspect", GRAPH, "--fromat", "json", says=["did you mean --format?"])
        self.assertNotIn("did you mean", self.fault("inspect", GRAPH, "--qwertz", says=["'--qwertz'", "help inspect"]))
        self.fault("inspect", GRAPH, "-x", says=["'-x'"])
        self.fault("--machine", "h200x4", says=["the command comes first"])
        self.fault("-x", says=["'-x'"])

    def test_option_of_another_command(self):
        self.fault("inspect", GRAPH, "--trace", "t.json", says=["'--trace'", "inspect"])
        self.fault("inspect", GRAPH, "--threads", "2", says=["'--threads'"])
        self.fault("compare", GRAPH, "--output", "p.json", says=["'--output'", "compare"])
        self.fault("optimize", GRAPH, "--methods", "single", says=["'--methods'"])

    def test_missing_value(self):
        self.fault("simulate", GRAPH, "--machine", says=["--machine needs a value"])
        self.fault("simulate", GRAPH, "--machine", "--plan", "single", says=["--machine needs a value"])
        self.fault("simulate", GRAPH, "-o", says=["--output needs a value"])
        self.fault("inspect", GRAPH, "--help=yes", says=["--help takes no value"])

    def test_wrong_value(self):
        for value in ("4QB", "-5", "many", "1e30GB"):
            self.fault("simulate", GRAPH, "-m", "h200x4", "-p", "single", "--memory", value, says=["--memory", f"'{value}'", "4GB"])
        self.fault("simulate", GRAPH, "--memory", "0", says=["--memory", "'0'", "at least 1"])
        self.fault("simulate", GRAPH, "--format", "yaml", says=["--format", "'yaml'", "text|json"])
        self.fault("simulate", GRAPH, "--format", "tex", says=["text|json"])
        self.fault("simulate", GRAPH, "--trace=", says=["--trace", "empty"])
        self.fault("simulate", GRAPH, "--machine", "", says=["--machine", "empty"])

    def test_operands(self):
        self.fault("simulate", says=["simulate needs an argument", "GRAPH"])
        self.fault("inspect", says=["FILE"])
        self.fault("inspect", "a", "b", says=["unexpected argument 'b'"])
        self.fault("version", "now", says=["unexpected argument 'now'"])
        self.fault("simulate", GRAPH, "--machine", "h200x4", says=["--plan"])
        self.fault("simulate", GRAPH, "--plan", "single", says=["--machine"])

    def test_one_line_whatever_the_name(self):
        self.fault("inspect", "no\nsuch\033[31mfile")
        self.fault("a\nb")
        self.fault("inspect", GRAPH, "--a\nb")
        self.fault("x" * 3000)
        self.fault("inspect", "x" * 3000)

    def test_double_dash(self):
        self.path("--help", SMALL)
        self.assertIn("graph small", self.done("inspect", "--", "--help"))
        self.assertIn("graph small", self.done("inspect", "--format", "text", "--", "--help"))
        self.fault("inspect", "--", "--nothing", says=["--nothing"])

    def test_spellings(self):
        path = self.path("g.json", SMALL)
        expected = self.done("simulate", path, "--machine", "h200x2", "--plan", "spread", "--format", "json")
        for spelling in (["--machine=h200x2", "--plan=spread", "--format=json", path],
                         ["-mh200x2", "-p", "spread", path, "-fjson"],
                         ["-m", "h200x8", "--format", "text", "-p", "spread", "-f", "json", "-m", "h200x2", path]):
            self.assertEqual(self.done("simulate", *spelling), expected)


class Files(Case):
    def test_missing(self):
        for arguments in (["inspect", "none.json"], ["machine", "none.json"], ["simulate", "none.json", "-m", "h200x2", "-p", "single"],
                          ["simulate", GRAPH, "-m", "none.json", "-p", "single"], ["simulate", GRAPH, "-m", "h200x2", "-p", "none.json"],
                          ["simulate", GRAPH, "-m", "h200x2", "-p", "single", "--costs", "none.json"]):
            self.fault(*arguments, says=["none.json"])

    def test_misspelt_method(self):
        self.fault("simulate", GRAPH, "-m", "h200x2", "-p", "spred", says=["'spred'", "did you mean spread?"])
        self.fault("simulate", GRAPH, "-m", "h200x2", "-p", "zzz", says=["'zzz'", "single, spread"])

    def test_directory(self):
        for arguments in (["inspect", "."], ["simulate", ".", "-m", "h200x2", "-p", "single"],
                          ["simulate", GRAPH, "-m", ".", "-p", "single"], ["simulate", GRAPH, "-p", "."]):
            self.fault(*arguments, says=["directory"])

    def test_wrong_kind(self):
        graph = self.path("g.json", SMALL)
        machine = self.path("m.json", self.done("machine", "h200x2"))
        plan = self.path("p.json", {"format": "plan", "version": 1, "device": [0] * 5})
        self.fault("simulate", machine, "-m", "h200x2", "-p", "single", says=["m.json"])
        self.fault("simulate", plan, "-m", "h200x2", "-p", "single", says=["p.json"])
        self.fault("simulate", graph, "-m", graph, "-p", "single", says=["g.json"])
        self.fault("simulate", graph, "-m", "h200x2", "-p", graph, says=["g.json"])
        self.fault("machine", graph, says=["g.json"])

    def test_not_ours(self):
        for content in ("", "{", "[]", "null", "hello", b"\0\1\2\3", "{\"format\":7}", "{}x", b"\x1f\x8b\x08\x00garbage"):
            with self.subTest(content=content):
                self.fault("inspect", self.path("f", content), says=["f: "])
        self.fault("inspect", self.path("f", "{}"), says=["format", "opgraph, machine or plan"])
        self.fault("inspect", self.path("f", {"format": "song"}), says=["'song'", "opgraph, machine, plan"])

    def test_truncated(self):
        with open(GRAPH, "rb") as file:
            packed = file.read()
        self.fault("inspect", self.path("cut.gz", packed[:len(packed) // 2]), says=["cut.gz"])
        text = gzip.decompress(packed)
        self.fault("inspect", self.path("cut.json", text[:len(text) // 2]), says=["cut.json", "line"])

    def test_standard_input(self):
        with open(GRAPH, "rb") as file:
            packed = file.read()
        expected = self.done("inspect", GRAPH)
        self.assertEqual(self.done("inspect", "-", input=packed), expected)
        self.assertEqual(self.done("inspect", "-", input=gzip.decompress(packed)), expected)
        plain = self.done("simulate", GRAPH, "-m", "h200x2", "-p", "spread")
        self.assertEqual(self.done("simulate", "-", "-m", "h200x2", "-p", "spread", input=packed), plain)
        machine = self.done("machine", "h200x2")
        self.assertEqual(self.done("simulate", GRAPH, "-m", "-", "-p", "spread", input=machine.encode()), plain)
        self.assertEqual(self.done("machine", "-", input=machine.encode()), machine)
        self.fault("simulate", "-", "-m", "-", "-p", "single", input=packed, says=["standard input", "once"])
        self.fault("inspect", "-", input=b"", says=["standard input"])

    def test_output_cannot_be_written(self):
        target = os.path.join("no", "such", "folder", "x.json")
        self.fault("machine", "h200x2", "-o", target, says=[target])
        self.fault("simulate", GRAPH, "-m", "h200x2", "-p", "single", "-o", target, says=[target])
        self.fault("simulate", GRAPH, "-m", "h200x2", "-p", "single", "--trace", target, says=[target])
        self.assertEqual(os.listdir(self.folder), [])


class Simulate(Case):
    def report(self, *arguments, status=0, **more):
        return json.loads(self.done("simulate", *arguments, "--format", "json", status=status, **more))

    def test_json_fields(self):
        report = self.report(GRAPH, "-m", "h200x4", "-p", "spread")
        self.assertEqual(list(report), SIMULATE_KEYS)
        self.assertEqual((report["graph"], report["machine"]), ("unet", "h200x4"))
        self.assertEqual((report["valid"], report["reason"]), (True, None))
        self.assertEqual(len(report["devices"]), 4)
        for device in report["devices"]:
            self.assertEqual(list(device), ["name", "busy_s", "idle_s", "peak_bytes"])
            self.assertAlmostEqual(device["busy_s"] + device["idle_s"], report["step_s"], places=9)
            self.assertGreater(device["busy_s"], 0)
        self.assertEqual(report["peak_bytes"], [device["peak_bytes"] for device in report["devices"]])
        self.assertGreater(len(report["links"]), 0)
        for link in report["links"]:
            self.assertEqual(list(link), ["from", "to", "transfers", "bytes", "busy_s"])
            self.assertGreater(link["transfers"], 0)
        self.assertLessEqual(report["lower_bound_s"], report["step_s"])
        self.assertLessEqual(report["lower_bound_fusion_s"], report["step_s"])
        self.assertTrue(0 < report["measured_share"] <= 1)

    def test_single_sends_nothing(self):
        report = self.report(GRAPH, "-m", "h200x2", "-p", "single")
        self.assertEqual(report["links"], [])
        self.assertAlmostEqual(max(device["busy_s"] for device in report["devices"]), report["step_s"], places=12)
        self.assertIn("nothing is sent", self.done("simulate", GRAPH, "-m", "h200x2", "-p", "single"))

    def test_small_by_hand(self):
        report = self.report(self.path("g.json", SMALL), "-m", "h200x1", "-p", "single")
        self.assertAlmostEqual(report["step_s"], 9e-6, places=15)
        self.assertEqual(report["measured_share"], 1)

    def test_text(self):
        text = self.done("simulate", GRAPH, "-m", "h200x4", "-p", "spread")
        for word in ("unet on h200x4", "spread", "step time", "lower bound", "with any fusion", "% above it", "measured", "valid",
                     "yes", "utilisation", "peak memory", "transfers", "#"):
            self.assertIn(word, text)
        self.assertNotIn("\033", text)
        self.assertFalse([line for line in text.splitlines() if line != line.rstrip()])

    def test_many_links_are_cut(self):
        graph = os.path.join(ROOT, "data", "graphs", "gnmt-2.json.gz")
        links = self.report(graph, "-m", "h200x16", "-p", "spread")["links"]
        self.assertGreater(len(links), 16)
        self.assertIn(f"and {len(links) - 16} more", self.done("simulate", graph, "-m", "h200x16", "-p", "spread"))

    def test_too_little_memory(self):
        arguments = [GRAPH, "-m", "h200x2", "-p", "spread", "--memory", "1MB"]
        text = self.done("simulate", *arguments, status=1)
        self.assertIn("no; memory", text)
        self.assertIn("step time", text)
        report = self.report(*arguments, status=1)
        self.assertFalse(report["valid"])
        self.assertIsInstance(report["reason"], str)
        self.assertGreater(report["step_s"], 0)
        self.assertTrue(self.report(*arguments[:-1], "100GB")["valid"])

    def test_invalid_without_a_step(self):
        graph = self.path("g.json", SMALL)
        plan = self.path("p.json", {"format": "plan", "version": 1, "device": [1, 0, 0, 0, 0]})  # the update leaves its parameter
        report = self.report(graph, "-m", "h200x2", "-p", plan, status=1, stderr=None)
        self.assertEqual(list(report), SIMULATE_KEYS)
        self.assertEqual((report["valid"], report["step_s"], report["peak_bytes"]), (False, None, []))
        self.assertTrue(report["reason"])
        trace = self.path("t.json")
        result = self.run_stowage("simulate", graph, "-m", "h200x2", "-p", plan, "--trace", trace)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"no; colocation", result.stdout)
        self.assertIn(b"no trace", result.stderr)
        self.assertFalse(os.path.exists(trace))

    def test_plan_file(self):
        plan = self.path("plan.json")
        expected = self.report(GRAPH, "-m", "h200x4", "-p", "spread", "-o", plan)
        self.assertEqual(self.report(GRAPH, "-p", plan), expected)
        self.assertEqual(self.report(GRAPH, "-p", plan, "-m", "h200x4"), expected)
        with open(plan, "rb") as file:
            self.assertEqual(self.report(GRAPH, "-p", "-", input=file.read()), expected)
        self.assertFalse(self.report(GRAPH, "-p", plan, "--memory", "1MB", status=1)["valid"])
        other = os.path.join(ROOT, "data", "graphs", "resnet50.json.gz")
        self.fault("simulate", other, "-p", plan, says=["plan.json"])

    def test_remarks_are_warnings(self):
        plan = self.path("hand.json", {"format": "plan", "version": 1, "device": [0] * 5})
        graph = self.path("g.json", SMALL)
        result = self.run_stowage("simulate", graph, "-m", "h200x2", "-p", plan)
        self.assertEqual(result.returncode, 0, result)
        self.assertTrue(result.stderr.startswith(b"stowage: warning: "), result)
        self.assertEqual(result.stderr.count(b"\n"), 1)
        self.fault("simulate", graph, "-p", plan, says=["machine"])

    def test_costs(self):
        graph = self.path("g.json", SMALL)
        costs = self.path("c.csv", "name,kind,us\nn2,h200,12\n")
        self.assertAlmostEqual(self.report(graph, "-m", "h200x1", "-p", "single", "--costs", costs)["step_s"], 19e-6, places=15)
        costs = self.path("c.csv", "name,kind,us\nn2,h200,12\nnobody,h200,12\n")
        result = self.run_stowage("simulate", graph, "-m", "h200x1", "-p", "single", "--costs", costs)
        self.assertEqual(result.returncode, 0)
        self.assertTrue(result.stderr.startswith(b"stowage: warning: "), result)

    def test_trace(self):
        trace = self.path("t.json")
        self.done("simulate", GRAPH, "-m", "h200x4", "-p", "spread", "--trace", trace)
        with open(trace) as file:
            text = file.read()
        self.assertGreater(len(json.loads(text)["traceEvents"]), 300)
        self.assertEqual(self.done("simulate", GRAPH, "-m", "h200x4", "-p", "spread", "--trace", "-"), text)
        plan = self.done("simulate", GRAPH, "-m", "h200x4", "-p", "spread", "-o", "-")
        self.assertEqual(json.loads(plan)["format"], "plan")
        self.fault("simulate", GRAPH, "-m", "h200x4", "-p", "spread", "-o", "-", "--trace", "-", says=["standard output"])
        self.assertEqual(os.listdir(self.folder), ["t.json"])


def without_times(report):
    """A report with the seconds that a search took left out: all that may differ between two runs."""
    if isinstance(report, dict):
        return {key: without_times(value) for key, value in report.items() if key != "search_s"}
    return [without_times(value) for value in report] if isinstance(report, list) else report


def markdown_rows(text):
    """The cells of a Markdown table, bold or not; lines that are no table are passed over."""
    rows = [[cell.strip().strip("*") for cell in line.strip("|").split(" |")] for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if not all(set(cell) <= set("-: ") and cell for cell in row)]


class Optimize(Case):
    QUICK = ["-m", "h200x2", "--evaluations", "60"]

    def head(self, *arguments, **more):
        return json.loads(self.done("optimize", *arguments, "--format", "json", **more))

    def plan_at(self, path):
        with open(path) as file:
            return json.load(file)

    def test_json_is_the_head_of_the_plan(self):
        path = self.path("plan.json")
        head = self.head(GRAPH, *self.QUICK, "-o", path)
        self.assertEqual(list(head), HEAD_KEYS)
        plan = self.plan_at(path)
        self.assertEqual(list(plan)[:len(HEAD_KEYS) + 3], [*HEAD_KEYS, "device", "priority", "group"])
        self.assertEqual({key: plan[key] for key in HEAD_KEYS}, head)
        self.assertEqual((head["graph"]["name"], head["machine"]["name"], head["valid"]), ("unet", "h200x2", True))
        self.assertEqual((head["tasks"], head["objective"], head["seed"]), (["placement", "schedule", "fusion"], "time", 1))
        self.assertEqual(head["value"], head["step_s"])
        self.assertEqual(len(head["peak_bytes"]), 2)
        for candidate in head["candidates"]:
            self.assertEqual(list(candidate), CANDIDATE_KEYS)
        winner = [c for c in head["candidates"] if c["method"] == head["method"] and c["step_s"] == head["step_s"]]
        self.assertTrue(winner, head["candidates"])

    def test_never_worse_than_any_candidate(self):
        for objective in ("time", "memory", "throughput"):
            with self.subTest(objective=objective):
                head = self.head(GRAPH, *self.QUICK, "--objective", objective)
                self.assertEqual(head["objective"], objective)
                self.assertEqual(head["candidates"][0]["method"], "single")
                self.assertTrue(head["candidates"][0]["valid"])
                self.assertEqual(head["value"], min(c["value"] for c in head["candidates"] if c["valid"]))
                if objective == "memory":
                    self.assertEqual(head["value"], max(head["peak_bytes"]))
                self.assertGreaterEqual(head["step_s"], head["lower_bound_s"])

    def test_the_default_is_what_simulate_says(self):
        head = self.head(GRAPH, *self.QUICK, "--tasks", "placement,schedule")
        plain = json.loads(self.done("simulate", GRAPH, "-m", "h200x2", "-p", "single", "-f", "json"))
        self.assertEqual(head["candidates"][0]["step_s"], plain["step_s"])
        self.assertEqual(head["lower_bound_s"], plain["lower_bound_s"])
        head = self.head(GRAPH, *self.QUICK)  # with groups by the rule, then without any
        rule = json.loads(self.done("simulate", GRAPH, "-m", "h200x2", "-p", "single", "--tasks", "placement,schedule,fusion", "--fusion",
                                    "default", "--rule", "topological", "-f", "json"))
        self.assertEqual([c["method"] for c in head["candidates"][:2]], ["single", "single"])
        self.assertEqual(head["candidates"][0]["step_s"], rule["step_s"])
        self.assertEqual(head["candidates"][1]["step_s"], plain["step_s"])
        self.assertLess(rule["step_s"], plain["step_s"])
        self.assertEqual(head["lower_bound_fusion_s"], plain["lower_bound_fusion_s"])

    def test_plan_is_read_back(self):
        path, trace = self.path("plan.json"), self.path("t.json")
        head = self.head(GRAPH, *self.QUICK, "-o", path, "--trace", trace)
        report = json.loads(self.done("simulate", GRAPH, "-p", path, "-f", "json"))
        for key in ("step_s", "valid", "peak_bytes", "lower_bound_s", "lower_bound_fusion_s", "measured_share"):
            self.assertEqual(report[key], head[key], key)
        self.assertEqual(json.loads(self.done("inspect", path, "-f", "json"))["step_s"], head["step_s"])
        self.assertGreater(len(self.plan_at(trace)["traceEvents"]), 300)
        self.assertEqual(sorted(os.listdir(self.folder)), ["plan.json", "t.json"])

    def test_formats_agree(self):
        head = self.head(GRAPH, *self.QUICK)
        rows = list(csv.DictReader(io.StringIO(self.done("optimize", GRAPH, *self.QUICK, "-f", "csv"))))
        self.assertEqual(list(rows[0]), CSV_KEYS)
        self.assertEqual(len(rows), len(head["candidates"]))
        for row, candidate in zip(rows, head["candidates"]):
            self.assertEqual((row["graph"], row["machine"], row["method"]), ("unet", "h200x2", candidate["method"]))
            for key in ("step_s", "value", "evaluations", "seed"):
                self.assertEqual(float(row[key]), candidate[key])
            self.assertEqual((row["valid"], row["reason"]), (json.dumps(candidate["valid"]), candidate["reason"] or ""))
            self.assertEqual(int(row["worst_peak_bytes"]), max(candidate["peak_bytes"]))
        table = markdown_rows(self.done("optimize", GRAPH, *self.QUICK, "-f", "markdown"))
        text = self.done("optimize", GRAPH, *self.QUICK)
        self.assertEqual([row[0] for row in table[1:]],
                         [c["method"] + (" (default)" if k == 0 else "") for k, c in enumerate(head["candidates"])])
        for row in table[1:]:  # method, step time, speed-up
            self.assertIn(row[1], text)
        self.assertIn(f"by {head['method']}", text)
        self.assertIn(f"{1e3 * head['step_s']:.3f} ms by {head['method']}", text)

    def test_text(self):
        text = self.done("optimize", GRAPH, *self.QUICK, "-o", "plan.json", "--trace", "t.json")
        for word in ("unet on h200x2", "objective time", "budget 60 evaluations", "single (default)", "speed-up = t_ref / t",
                     "reduction = 1 - t / t_ref", "lower bound", "% above it", "measured", "plan.json", "t.json", "\n  * "):
            self.assertIn(word, text)
        self.assertNotIn("do not repeat", text)
        self.assertNotIn("\033", text)
        self.assertFalse([line for line in text.splitlines() if line != line.rstrip()])
        text = self.done("optimize", self.path("g.json", SMALL), "-m", "h200x2", "--budget", "200ms")
        self.assertRegex(text, r"time budgets do not repeat exactly. As much work that does: --evaluations \d+ --seed 1")

    def test_tells_whether_the_policy_helped(self):
        head = self.head(SLOW, "-m", "h200x2", "--evaluations", "1500")
        text = self.done("optimize", SLOW, "-m", "h200x2", "--evaluations", "1500")
        names = [c["method"] for c in head["candidates"]]
        self.assertNotIn("go-one", names)
        for name in ("go-zero", "go-tune"):
            policy = names.index(name)
            before = min((c for c in head["candidates"][:policy] if c["valid"]), key=lambda c: c["value"])
            if head["candidates"][policy]["value"] < before["value"]:
                self.assertRegex(text, rf"\n  policy +{name} improved the best plan by [\d.]+ % \([\d.]+ ms -> [\d.]+ ms\) in [\d.]+ m?s\n")
            else:
                self.assertRegex(text, rf"\n  policy +{name} did not improve on {before['method']} \([\d.]+ ms\) in [\d.]+ m?s\n")

    def test_without_the_pre_trained_policy_one_is_trained(self):
        for policy, trained in (("train", True), ("none", False)):
            head = self.head(SLOW, "-m", "h200x2", "--evaluations", "1500", "--policy", policy)
            names = [c["method"] for c in head["candidates"]]
            self.assertEqual("go-one" in names, trained)
            self.assertFalse({"go-zero", "go-tune"} & set(names))

    def test_noise_is_told_when_there_is_something_to_compare(self):
        graph = os.path.join(ROOT, "data", "graphs", "gnmt-2.json.gz")
        text = self.done("optimize", graph, "-m", "h200x2", "--evaluations", "30")
        self.assertRegex(text, r"ahead of the default in \d+ of 32 draws of 10 % noise on all costs")

    def test_repeats_on_any_number_of_threads(self):
        plans = []
        for threads in ("1", "2", "8"):
            path = self.path(f"plan-{threads}.json")
            self.done("optimize", GRAPH, "-m", "h200x4", "--evaluations", "200", "--seed", "7", "--threads", threads, "-o", path)
            plans.append(without_times(self.plan_at(path)))
        self.assertEqual(plans[0]["seed"], 7)
        self.assertEqual(plans[0], plans[1])
        self.assertEqual(plans[0], plans[2])

    def test_too_little_memory(self):
        arguments = ["optimize", GRAPH, *self.QUICK, "--memory", "1MB", "-o", "plan.json"]
        result = self.run_stowage(*arguments)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout.decode(), r"single \(default\).* memory .*h200:\d lacks \d+ bytes")
        self.assertRegex(result.stderr.decode(), r"^stowage: there is no valid plan; .*\d+ bytes.*\n$")
        self.assertEqual(os.listdir(self.folder), [])
        head = self.head(*arguments[1:], status=1, stderr=None)
        self.assertEqual(list(head), HEAD_KEYS)
        self.assertEqual((head["valid"], head["method"], head["step_s"], head["value"], head["peak_bytes"], head["measured_share"]),
                         (False, None, None, None, [], None))
        self.assertTrue(all(not c["valid"] and c["reason"] for c in head["candidates"]))
        self.assertIn("plan for unet", self.done("inspect", self.path("head.json", head)))

    def test_memory_that_suffices_for_several_devices_only(self):
        result = self.run_stowage("optimize", GRAPH, "-m", "h200x4", "--evaluations", "200", "--memory", "7GB", "-o", "plan.json")
        text = result.stdout.decode()
        self.assertEqual(result.returncode, 0, result)
        self.assertIn("not valid; memory", text)
        self.assertNotIn("reduction", text)
        self.assertTrue(json.loads(self.done("simulate", GRAPH, "-p", "plan.json", "-f", "json"))["valid"])

    def test_wrong_usage(self):
        for arguments, words in ((["-m", "h300x2"], ["h300x2", "built in are"]), ([], ["machine"]),
                                 (["-m", "h200x2", "--budget", "10parsecs"], ["--budget", "10parsecs", "500ms"]),
                                 (["-m", "h200x2", "--budget", "0s"], ["--budget", "0s"]),
                                 (["-m", "h200x2", "--evaluations", "0"], ["--evaluations", "0"]),
                                 (["-m", "h200x2", "--units", "few"], ["--units", "few", "off"]),
                                 (["-m", "h200x2", "--tasks", "placement,cooking"], ["--tasks", "cooking"]),
                                 (["-m", "h200x2", "--objective", "fun"], ["--objective", "fun", "time|memory|throughput"]),
                                 (["-m", "h200x2", "--rule", "fi"], ["--rule", "fifo"]),
                                 (["-m", "h200x2", "--format", "yaml"], ["text|json|csv|markdown"]),
                                 (["-m", "h200x2", "-o", "-", "--trace", "-"], ["standard output"]),
                                 (["-m", "h200x2", "-b", "100ms", "-o", "no/such/folder/p.json"], ["no/such/folder"])):
            with self.subTest(arguments=arguments):
                self.fault("optimize", GRAPH, *arguments, says=words)
        self.fault("optimize", "-", "-m", "-", input=b"", says=["standard input", "once"])
        self.fault("optimize", "none.json", "-m", "h200x2", says=["none.json"])

    def test_standard_output_and_input(self):
        with open(GRAPH, "rb") as file:
            packed = file.read()
        plan = json.loads(self.done("optimize", "-", *self.QUICK, "-o", "-", input=packed))
        self.assertEqual((plan["format"], len(plan["device"])), ("plan", len(plan["group"])))
        self.assertIn("traceEvents", json.loads(self.done("optimize", GRAPH, *self.QUICK, "--trace", "-")))
        self.assertEqual(self.done("optimize", GRAPH, *self.QUICK, "--memory", "1MB", "-o", "-", status=1, stderr=None), "")

    def test_graph_without_ops(self):
        path = self.path("g.json", {"format": "opgraph", "version": 1, "name": "idle", "outputs": [0], "nodes": SMALL["nodes"][:2]})
        for arguments in (["optimize", path, "-m", "h200x2", "-b", "100ms"],
                          ["compare", path, path, "-m", "h200x2,h200x1", "-b", "100ms", "--methods", "single,spread"]):
            for form in ("text", "json", "csv", "markdown"):
                text = self.done(*arguments, "-f", form)
                self.assertNotRegex(text, r"\b-?(nan|inf)\b")


class Fusion(Case):
    """Fusion among the tasks: --tasks, --fusion and --from."""

    QUICK = ["-m", "h200x2", "--evaluations", "80", "--threads", "2"]
    RULES = ["none", "default", "reverse-post-order"]
    LISTS = {"placement": "device", "schedule": "priority", "fusion": "group"}

    def optimize(self, name, *arguments, graph=GRAPH, machine=None):
        path = self.path(name)
        self.done("optimize", graph, *(self.QUICK if machine is None else ["-m", machine, *self.QUICK[2:]]), *arguments, "-o", path)
        with open(path) as file:
            return path, json.load(file)

    def groups(self, plan):
        """How many ops are not in a group of their own."""
        alone = json.loads(self.done("simulate", GRAPH, "-m", "h200x2", "-p", "single", "-o", "-"))["group"]
        return sum(a != b for a, b in zip(plan["group"], alone))

    def test_tasks_are_told_once(self):
        for tasks in (["placement"], ["schedule"], ["fusion"], ["placement", "schedule"], ["placement", "schedule", "fusion"]):
            _, plan = self.optimize("p.json", "--tasks", ",".join(reversed(tasks)))
            self.assertEqual(plan["tasks"], tasks)
            if "fusion" not in tasks:
                self.assertEqual(self.groups(plan), 0)
        self.assertGreater(self.groups(plan), 10)
        self.assertEqual(json.loads(self.done("optimize", GRAPH, *self.QUICK, "-f", "json"))["tasks"], tasks)

    def test_never_worse_than_without_and_than_the_rules(self):
        _, plan = self.optimize("p.json")
        for rule in self.RULES[:2]:
            report = json.loads(self.done("simulate", GRAPH, "-m", "h200x2", "-p", "single", "--tasks", "placement,schedule,fusion",
                                          "--fusion", rule, "--rule", "topological", "-f", "json"))
            self.assertLessEqual(plan["step_s"], report["step_s"])

    def test_a_rule(self):
        known = []
        for rule in self.RULES:
            _, plan = self.optimize("p.json", "--fusion", rule, "--tasks", "fusion")
            known.append(self.groups(plan))
            simulated = json.loads(self.done("simulate", GRAPH, "-m", "h200x2", "-p", "single", "--tasks", "fusion", "--fusion", rule,
                                             "-o", "-"))
            self.assertEqual((plan["device"], plan["group"]), (simulated["device"], simulated["group"]))
        self.assertEqual(known[0], 0)
        self.assertTrue(0 < known[1] <= known[2], known)
        for command in ("optimize", "compare", "simulate", "train"):
            self.fault(command, GRAPH, "-m", "h200x2", "--fusion", "greedy", says=["--fusion", "greedy", "reverse-post-order"])

    def test_from_keeps_what_is_no_task(self):
        path, given = self.optimize("given.json")
        for tasks in ("placement", "schedule", "fusion", "placement,schedule", "placement,fusion", "schedule,fusion"):
            with self.subTest(tasks=tasks):
                _, plan = self.optimize("p.json", "--tasks", tasks, "--from", path)
                for task, name in self.LISTS.items():
                    if task not in tasks:
                        self.assertEqual(plan[name], given[name], name)
                self.assertEqual((plan["candidates"][0]["method"], plan["candidates"][0]["step_s"]), ("given", given["step_s"]))
                self.assertLessEqual(plan["step_s"], given["step_s"])
        text = self.done("optimize", GRAPH, *self.QUICK, "--from", path)
        self.assertRegex(text, r"\n  default +[\d.]+ ms \(the plan that was given\)\n")

    def test_from_in_compare(self):
        path, given = self.optimize("given.json")
        best = self.path("best.json")
        row = json.loads(self.done("compare", GRAPH, *self.QUICK, "--tasks", "fusion", "--from", path, "--methods", "single,anneal,heft",
                                   "--best", best, "-f", "json"))[0]
        with open(best) as file:
            plan = json.load(file)
        self.assertEqual((plan["device"], plan["priority"], plan["tasks"]), (given["device"], given["priority"], ["fusion"]))
        self.assertEqual(plan["step_s"], min(method["step_s"] for method in row["methods"]))
        self.assertLessEqual(plan["step_s"], given["step_s"])
        self.assertEqual(json.loads(self.done("simulate", GRAPH, "-p", best, "-f", "json"))["step_s"], plan["step_s"])

    def test_from_faults(self):
        path, _ = self.optimize("given.json")
        other = os.path.join(ROOT, "data", "graphs", "resnet50.json.gz")
        for command in (["optimize"], ["compare", "--methods", "single"]):
            call = [command[0], GRAPH, "--evaluations", "5", *command[1:]]
            self.fault(*call, "-m", "h200x2", "--from", "none.json", says=["none.json"])
            self.fault(*call, "-m", "h200x2", "--from", self.folder, says=["directory"])
            self.fault(*call, "-m", "h200x2", "--from", GRAPH, says=["unet"])
            self.fault(*call, "-m", "h200x2", "--from", self.path("m.json", self.done("machine", "h200x2")), says=["m.json"])
            self.fault(*call, "-m", "h200x2", "--from", self.path("cut.json", "{\"format\":\"plan\""), says=["cut.json"])
            self.fault(*call, "-m", "h200x1", "--from", path, says=["given.json"])  # its second device is not there
            self.fault(command[0], other, "--evaluations", "5", *command[1:], "-m", "h200x2", "--from", path, says=["given.json"])
        self.fault("simulate", GRAPH, "-m", "h200x2", "-p", "single", "--from", path, says=["'--from'"])

    def test_best_is_for_one_table(self):
        self.fault("compare", GRAPH, GRAPH, "-m", "h200x2", "--methods", "single", "--best", "b.json", says=["--best"])
        self.fault("compare", GRAPH, "-m", "h200x2,h200x4", "--methods", "single", "--best", "b.json", says=["--best"])

    def test_best_that_cannot_be_written_costs_no_table(self):
        result = self.run_stowage("compare", GRAPH, "-m", "h200x2", "--methods", "single", "--best", "no/such/b.json")
        self.assertEqual(result.returncode, 2, result)
        self.assertIn(b"single", result.stdout)
        self.assertEqual(result.stderr.count(b"\n"), 1)
        self.assertIn(b"no/such/b.json", result.stderr)

    def test_unlike_devices(self):
        path, plan = self.optimize("p.json", machine="cpu+h200x2")
        self.assertGreater(self.groups(plan), 10)
        self.assertEqual(json.loads(self.done("simulate", GRAPH, "-p", path, "-f", "json"))["step_s"], plan["step_s"])
        self.assertLess(plan["step_s"], json.loads(self.done("simulate", GRAPH, "-m", "cpu+h200x2", "-p", "single", "-f", "json"))["step_s"])

    def test_repeats_on_any_number_of_threads(self):
        plans = []
        for threads in ("1", "2"):
            path = self.path(f"{threads}.json")
            self.done("compare", GRAPH, "-m", "h200x2", "--methods", "anneal", "--evaluations", "300", "--threads", threads, "--best", path)
            with open(path) as file:
                plans.append(without_times(json.load(file)))
        self.assertEqual(plans[0], plans[1])
        self.assertGreater(self.groups(plans[0]), 10)

    def test_exact_says_when_there_is_too_much_to_try(self):
        chain = [node(k, "relu", [k - 1] if k > 0 else [], us={"h200": 5.0}) for k in range(15)]
        graph = self.path("chain.json", {"format": "opgraph", "version": 1, "name": "chain", "outputs": [14], "nodes": chain})
        row = json.loads(self.done("compare", graph, "-m", "h200x2", "--methods", "exact", "--evaluations", "100", "-f", "json", status=1,
                                   stderr=None))[0]
        self.assertIn("at most 12 ops", row["methods"][0]["reason"])


class Compare(Case):
    GRAPHS = [GRAPH, os.path.join(ROOT, "data", "graphs", "rnnlm-2.json.gz")]
    QUICK = ["--evaluations", "40", "--methods", "single,spread,optimize"]

    def rows(self, *arguments, **more):
        return json.loads(self.done("compare", *arguments, "--format", "json", **more))

    def test_json_fields(self):
        rows = self.rows(*self.GRAPHS, "-m", "h200x2,h200x4", *self.QUICK)
        self.assertEqual([(row["graph"], row["machine"]) for row in rows],
                         [("unet", "h200x2"), ("unet", "h200x4"), ("rnnlm-2", "h200x2"), ("rnnlm-2", "h200x4")])
        for row in rows:
            self.assertEqual(list(row), COMPARE_KEYS)
            self.assertEqual((row["objective"], [m["method"] for m in row["methods"]]), ("time", ["single", "spread", "optimize"]))
            for method in row["methods"]:
                self.assertEqual(list(method), CANDIDATE_KEYS)
                self.assertGreaterEqual(method["step_s"], row["lower_bound_s"])
                self.assertLessEqual(method["evaluations"], 41)
                self.assertEqual(len(method["peak_bytes"]), int(row["machine"][-1]))
            self.assertLessEqual(row["methods"][2]["step_s"], row["methods"][1]["step_s"])

    def test_formats_agree(self):
        arguments = [*self.GRAPHS, "-m", "h200x2", *self.QUICK]
        rows = self.rows(*arguments)
        lines = list(csv.DictReader(io.StringIO(self.done("compare", *arguments, "-f", "csv"))))
        self.assertEqual(list(lines[0]), CSV_KEYS)
        methods = [(row, method) for row in rows for method in row["methods"]]
        self.assertEqual(len(lines), len(methods))
        for line, (row, method) in zip(lines, methods):
            self.assertEqual((line["graph"], line["machine"], line["method"]), (row["graph"], row["machine"], method["method"]))
            self.assertEqual((float(line["step_s"]), float(line["lower_bound_s"])), (method["step_s"], row["lower_bound_s"]))
        text, markdown = self.done("compare", *arguments), self.done("compare", *arguments, "-f", "markdown")
        table = markdown_rows(markdown)
        self.assertEqual(table[0], ["graph", "machine", "lower bound", "single", "spread", "optimize"])
        for cells, row in zip(table[1:], rows):
            line = [line for line in text.splitlines() if line.split()[:1] == [row["graph"]]][0]
            for cell, method in zip(cells[3:], row["methods"]):
                self.assertIn(cell, line)
                value, unit = cell.split()
                self.assertAlmostEqual(float(value) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[unit] / method["step_s"], 1, places=3)
        for k, name in enumerate(("single", "spread", "optimize")):
            product = 1.0
            for row in rows:
                product *= row["methods"][k]["step_s"] / row["lower_bound_s"]
            self.assertAlmostEqual(float(table[-1][3 + k]), product ** (1 / len(rows)), places=3, msg=name)
        self.assertIn("geometric mean over the rows of t / lower bound", text)
        self.assertIn("geometric mean over the rows of t / lower bound", markdown)

    def test_the_best_is_marked(self):
        arguments = [*self.GRAPHS, "-m", "h200x4", *self.QUICK]
        for line, row in zip(self.done("compare", *arguments).splitlines()[1:], self.rows(*arguments)):
            least = min(method["step_s"] for method in row["methods"])
            marks = [word.startswith("*") for word in line.split()[4::2]]
            self.assertEqual(marks, [method["step_s"] == least for method in row["methods"]], line)
        self.assertIn("**", self.done("compare", *arguments, "-f", "markdown"))

    def test_one_graph_has_the_whole_table(self):
        text = self.done("compare", GRAPH, "-m", "h200x2", *self.QUICK)
        for word in ("unet on h200x2", "t / bound", "peak memory", "search time", "evaluations", "\n  * ", "budget of each: 40 evaluations"):
            self.assertIn(word, text)

    def test_all_methods_unless_named(self):
        rows = self.rows(self.path("g.json", SMALL), "-m", "h200x2", "--evaluations", "4")
        names = [method["method"] for method in rows[0]["methods"]]
        self.assertEqual((names[:2], names[-1]), (["single", "spread"], "optimize"))
        self.assertNotIn("random", names)

    def test_other_objectives(self):
        for objective, ratio in (("memory", "peak / lower bound"), ("throughput", "load / best of the row")):
            arguments = [*self.GRAPHS, "-m", "h200x2", "--objective", objective, *self.QUICK]
            self.assertIn(ratio, self.done("compare", *arguments))
            for row in self.rows(*arguments):
                self.assertEqual(row["objective"], objective)
                if objective == "memory":
                    self.assertEqual([m["value"] for m in row["methods"]], [max(m["peak_bytes"]) for m in row["methods"]])

    def test_repeats(self):
        arguments = [*self.GRAPHS, "-m", "h200x4", "--methods", "spread,random,optimize", "--evaluations", "100", "--seed", "3"]
        first = without_times(self.rows(*arguments, "--threads", "1"))
        for threads in ("2", "8"):
            self.assertEqual(without_times(self.rows(*arguments, "--threads", threads)), first)

    def test_no_valid_plan(self):
        arguments = [*self.GRAPHS, "-m", "h200x2", "--memory", "1MB", "--methods", "single,spread", "--evaluations", "10"]
        result = self.run_stowage("compare", *arguments)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"- (m)", result.stdout)
        self.assertIn(b"m: memory", result.stdout)
        lines = result.stderr.decode().splitlines()
        self.assertEqual([line.split(":")[1].strip() for line in lines], ["unet on h200x2", "rnnlm-2 on h200x2"])
        for row in self.rows(*arguments, status=1, stderr=None):
            self.assertIsNone(row["measured_share"])
            self.assertTrue(all(not m["valid"] and m["reason"].startswith("memory") for m in row["methods"]))

    def test_wrong_usage_is_told_before_anything_runs(self):
        slow = ["--budget", "1h"]
        for arguments, words in (([GRAPH, "-m", "h200x2", "--methods", "single,spred"], ["'spred'", "did you mean spread?"]),
                                 ([GRAPH, "-m", "h200x2", "--methods", "optimise"], ["'optimise'", "did you mean optimize?"]),
                                 ([GRAPH, "-m", "h200x2", "--methods", "zzz"], ["'zzz'", "single, spread"]),
                                 ([GRAPH, "-m", "h200x2", "--methods", "single,,spread"], ["empty"]),
                                 ([GRAPH, "-m", "h200x2", "--methods", "single,single"], ["'single' stands twice"]),
                                 ([GRAPH, "-m", "h200x2,h300x2"], ["h300x2"]),
                                 ([GRAPH], ["machine"]),
                                 ([GRAPH, "none.json", "-m", "h200x2"], ["none.json"]),
                                 ([GRAPH, "-m", "h200x2", "--units", "some"], ["--units"]),
                                 ([GRAPH, "-", "-m", "h200x2,h200x4"], ["standard input", "once"])):
            with self.subTest(arguments=arguments):
                self.fault("compare", *arguments, *slow, says=words)
        self.fault("compare", "-m", "h200x2", says=["GRAPH"])
        self.fault("compare", GRAPH, "-m", "h200x2", "--budget", "soon", says=["--budget", "soon"])


class Train(Case):
    QUICK = ["-m", "h200x2", "--units", "24", "--start-plans", "no"]

    def curve(self, path):
        with open(path, newline="") as file:
            return list(csv.DictReader(file))

    def bytes_of(self, path):
        with open(path, "rb") as file:
            return file.read()

    def test_text(self):
        text = self.done("train", GRAPH, *self.QUICK, "--updates", "3", "-o", "p.stw", "--curve", "c.csv", "--best", "b.json")
        for word in ("unet on h200x2", "objective time", "preset       default", "updates      3", "course", "from nothing",
                     "step time", "lower bound", "p.stw", "c.csv", "b.json", "* plan of the policy", "- best plan so far"):
            self.assertIn(word, text)
        self.assertFalse([line for line in text.splitlines() if line != line.rstrip() or len(line) > 100])
        plot = [line for line in text.splitlines() if " |" in line]
        self.assertEqual(len(plot), 12)
        self.assertEqual([bool(line.split("|")[0].strip()) for line in plot], [k in (0, 6, 11) for k in range(12)])
        self.assertTrue(all(any(len(line) > c + 16 and line[c + 16] != " " for line in plot) for c in range(60)), text)
        self.assertEqual(sorted(os.listdir(self.folder)), ["b.json", "c.csv", "p.stw"])

    def test_json_and_files_agree(self):
        report = json.loads(self.done("train", GRAPH, *self.QUICK, "--updates", "3", "-o", "p.stw", "--curve", "c.csv", "--best",
                                      "b.json", "--seed", "5", "-f", "json"))
        self.assertEqual(list(report), TRAINING_KEYS)
        self.assertEqual((report["format"], report["method"], report["valid"], report["seed"]), ("training", "go-one", True, 5))
        self.assertEqual((report["preset"], report["updates"], report["interrupted"]), ("default", 3, False))
        self.assertEqual((report["policy"], report["curve"], report["best"]), ("p.stw", "c.csv", "b.json"))
        rows = self.curve(self.path("c.csv"))
        self.assertEqual(list(rows[0]), CURVE_KEYS)
        self.assertEqual([row["update"] for row in rows], ["0", "1", "2"])
        self.assertEqual(float(rows[-1]["best"]), report["value"])
        self.assertEqual(min(float(row["best"]) for row in rows), report["value"])
        plan = json.loads(self.done("simulate", GRAPH, "-p", "b.json", "-f", "json"))
        self.assertEqual((plan["step_s"], plan["peak_bytes"], plan["valid"]), (report["step_s"], report["peak_bytes"], True))
        self.assertGreaterEqual(report["step_s"], report["lower_bound_s"])

    def test_inspect(self):
        self.done("train", GRAPH, *self.QUICK, "--updates", "3", "-o", "p.stw")
        text = self.done("inspect", "p.stw")
        for word in ("policy of", "parameters", "placement: steer, schedule: nudge", "3 updates", "feature_version", "best step time",
                     "parameter/head.steer.weight", "f32", "of Adam's moments"):
            self.assertIn(word, text)
        report = json.loads(self.done("inspect", "p.stw", "-f", "json"))
        self.assertEqual(list(report), ["format", "version", "bytes", "parameters", "placement_head", "schedule_head", "dimensions",
                                        "training", "pretraining", "tensors"])
        self.assertEqual((report["format"], report["version"], report["bytes"]), ("policy", 1, os.path.getsize(self.path("p.stw"))))
        self.assertEqual(report["parameters"], sum(t["rows"] * t["columns"] for t in report["tensors"]
                                                   if t["name"].startswith("parameter/")))
        self.assertEqual((report["training"]["updates"], report["dimensions"]["heads"]), (3, 4))
        self.assertEqual(report["training"]["fingerprint"], json.loads(self.done("inspect", GRAPH, "-f", "json"))["fingerprint"])
        packed = self.path("p.stw.gz", gzip.compress(self.bytes_of(self.path("p.stw"))))
        self.assertEqual(dict(json.loads(self.done("inspect", packed, "-f", "json"))), report)
        content = self.bytes_of(self.path("p.stw"))
        for damaged in (content[:-1], content[:len(content) // 2], content[:8], content[:20] + b"x" + content[21:], content + b"x"):
            self.fault("inspect", self.path("d.stw", damaged), says=["d.stw"])

    def test_inspect_the_shipped_policy(self):
        shipped = os.path.join(ROOT, "data", "policy", "default.stw")
        self.assertRegex(self.done("inspect", shipped), r"on many graphs: [\d,]+ of [\d,]+ updates of \d+ problems, [\d,]+ evaluations")
        report = json.loads(self.done("inspect", shipped, "-f", "json"))
        self.assertEqual((report["training"], report["dimensions"]["identities"]), (None, 0))
        self.assertEqual(list(report["pretraining"]), ["updates", "all_updates", "problems", "evaluations", "seed", "schedules"])
        self.assertLessEqual(1, report["pretraining"]["updates"])

    def test_standard_output(self):
        out = self.done("train", GRAPH, *self.QUICK, "--updates", "2", "-o", "p.stw", "--curve", "-")
        self.assertEqual([row["update"] for row in csv.DictReader(io.StringIO(out))], ["0", "1"])
        plan = json.loads(self.done("train", GRAPH, *self.QUICK, "--updates", "2", "-o", "p.stw", "--best", "-"))
        self.assertEqual((plan["format"], plan["method"]), ("plan", "go-one"))

    def test_budget(self):
        self.done("train", GRAPH, *self.QUICK, "--budget", "1s", "-o", "p.stw", "--curve", "c.csv")
        self.assertGreater(len(self.curve(self.path("c.csv"))), 0)
        self.fault("train", GRAPH, *self.QUICK, "-o", "p.stw", "--resume", says=["--resume needs --updates"])

    def test_wrong_usage(self):
        quick = [GRAPH, *self.QUICK, "--updates", "2"]
        for arguments, words in (([], ["-o FILE"]), (["-o", "-"], ["standard output"]), (["-o", "nowhere/p.stw"], ["nowhere/p.stw"]),
                                 (["-o", "p.stw", "--curve", "nowhere/c.csv"], ["nowhere/c.csv"]),
                                 (["-o", "p.stw", "--curve", "-", "--best", "-"], ["--curve", "--best"]),
                                 (["-o", "p.stw", "--preset", "big"], ["--preset", "big", "default|paper"]),
                                 (["-o", "p.stw", "--learning-rate", "x"], ["--learning-rate", "'x'"]),
                                 (["-o", "p.stw", "--learning-rate", "-1"], ["--learning-rate", "'-1'"]),
                                 (["-o", "p.stw", "--reward", "cubic"], ["--reward", "log|sqrt"]),
                                 (["-o", "p.stw", "--updates", "0"], ["--updates"]),
                                 (["-o", "p.stw", "--evaluations", "9"], ["'--evaluations'"]),
                                 (["-o", "p.stw", "--resume=yes"], ["--resume takes no value"]),
                                 (["-o", "p.stw", "--resume"], ["p.stw"])):
            with self.subTest(arguments=arguments):
                self.fault("train", *quick, *arguments, says=words)
        self.fault("train", "-m", "h200x2", "-o", "p.stw", says=["train needs a graph", "--corpus"])
        self.fault("train", GRAPH, "-m", "h200x2", "-o", "p.stw", "--tasks", "schedule", "--rule", "fifo", "--updates", "2",
                   says=["nothing to decide"])
        self.assertEqual(os.listdir(self.folder), [])

    def test_resume_with_something_else(self):
        options = ["--updates", "2", "-o", "p.stw", "--resume"]
        self.done("train", GRAPH, *self.QUICK, *options[:-1])
        content = self.bytes_of(self.path("p.stw"))
        self.fault("train", SLOW, *self.QUICK, *options, says=["p.stw", "another graph"])
        self.fault("train", GRAPH, *self.QUICK, *options, "--seed", "2", says=["p.stw", "seed"])
        self.fault("train", GRAPH, *self.QUICK, *options, "--updates", "4", says=["p.stw", "updates"])
        self.fault("train", GRAPH, *self.QUICK, *options, "-m", "h200x4", says=["p.stw", "machine"])
        self.fault("train", GRAPH, *self.QUICK, *options, "--curve", self.path("c.csv", "a,b\n1,2\n"), says=["c.csv"])
        self.assertEqual(self.bytes_of(self.path("p.stw")), content)
        self.path("p.stw", content[:-9] + b"x" + content[-8:])
        self.fault("train", GRAPH, *self.QUICK, *options, says=["p.stw", "checksum"])
        self.path("p.stw", b"{}")
        self.fault("train", GRAPH, *self.QUICK, *options, says=["p.stw", "no policy file"])

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "there is no /proc")
    def test_interrupt_and_resume(self):
        updates = "100000"  # more than there is time for
        arguments = ["train", GRAPH, *self.QUICK, "--updates", updates, "--threads", "1", "--format", "json"]
        process = Streams.started(self, *arguments, "-o", "p.stw", "--curve", "c.csv", "--best", "b.json")
        time.sleep(2)
        self.assertIsNone(process.poll(), "the training is over before it is interrupted")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (130, b""))
        done = json.loads(out)["updates"]
        self.assertTrue(0 < done < int(updates), done)
        self.assertTrue(json.loads(out)["interrupted"])
        rows = self.curve(self.path("c.csv"))
        self.assertEqual(len(rows), done)
        self.assertEqual(sorted(os.listdir(self.folder)), ["b.json", "c.csv", "p.stw"])
        with open(self.path("c.csv"), "a") as file:  # a row of an update that the policy does not have
            file.write(",".join([str(done + 5), *["1"] * 14]) + "\n")
        process = Streams.started(self, *arguments, "-o", "p.stw", "--curve", "c.csv", "--resume")
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (130, b""))
        more = self.curve(self.path("c.csv"))
        self.assertEqual([int(row["update"]) for row in more], list(range(json.loads(out)["updates"])))
        self.assertEqual(more[:done], rows)
        self.assertGreater(len(more), done)


class TrainMany(Case):
    """`train --corpus`. The graphs are small files: what shows how good the policy is (16 problems) takes seconds else."""
    NETWORK = "width=16,heads=2,inner=32,sage_layers=1,attention_layers=1,operator_width=4,pair_width=8"
    CURVE_KEYS = ["update", "evaluations", "seconds", "difficulty", "greedy", "best", "mean", "spread", "rate", "sigma",
                  "gradient_norm", "clipped", "validation_greedy", "validation_best", "validation_constants",
                  "validation_moves"]
    KEYS = ["policy", "updates", "processes", "seconds", "updates_per_s", "bytes_sent", "unseen_greedy", "unseen_best",
            "unseen_constants", "unseen_moves"]

    def setUp(self):
        super().setUp()
        self.done("generate", "layered", "--layers", "1", "--steps", "3", "-o", "layered.json")
        self.done("generate", "rnnlm", "--layers", "1", "--steps", "2", "-o", "rnnlm.json")
        self.made = sorted(os.listdir(self.folder))

    def command(self, *more, updates=2, corpus="layered.json,rnnlm.json"):
        return ["train", "--corpus", corpus, "--updates", str(updates), "--problems", "2", "--network", self.NETWORK, *more]

    def content(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def curve(self, name):
        with open(self.path(name), newline="") as file:
            return list(csv.DictReader(file))

    def test_text(self):
        text = self.done(*self.command("-o", "p.stw"))
        self.assertRegex(text, r"^p\.stw: 2 updates of 2 problems in [\d.]+ s \([\d.]+ a second, 1 process\)\n"
                               r"on 16 problems that it has not seen, over the best plan of other methods: one plan [\d.]+, the best of "
                               r"\d+ [\d.]+, ten with moves [\d.]+; without a policy, the best of 60 constants [\d.]+\n$")
        self.assertEqual(sorted(os.listdir(self.folder)), sorted([*self.made, "p.stw"]))

    def test_json_and_files_agree(self):
        report = json.loads(self.done(*self.command("-o", "p.stw", "--curve", "c.csv", "--seed", "5", "-f", "json", updates=3)))
        self.assertEqual(list(report), self.KEYS)
        self.assertEqual((report["policy"], report["updates"], report["processes"], report["bytes_sent"]), ("p.stw", 3, 1, 0))
        self.assertTrue(0 < report["unseen_best"] <= 1 and report["unseen_best"] <= report["unseen_greedy"], report)
        self.assertTrue(0 < report["unseen_constants"] <= 1, report)
        rows = self.curve("c.csv")
        self.assertEqual(list(rows[0]), self.CURVE_KEYS)
        self.assertEqual([row["update"] for row in rows], ["0", "1", "2"])
        self.assertEqual([row["validation_greedy"] != "" for row in rows], [True, False, False])
        for row in rows:
            self.assertTrue(0 < float(row["best"]) <= float(row["greedy"]) and float(row["best"]) <= 1.0, row)
            self.assertTrue(0 <= float(row["difficulty"]) <= 1 and float(row["rate"]) > 0 and float(row["gradient_norm"]) > 0, row)
        head = json.loads(self.done("inspect", "p.stw", "-f", "json"))
        self.assertEqual((head["training"], head["dimensions"]["identities"], head["dimensions"]["width"]), (None, 0, 16))
        trained = head["pretraining"]
        self.assertEqual((trained["updates"], trained["all_updates"], trained["problems"], trained["seed"]), (3, 3, 2, 5))
        self.assertEqual(trained["evaluations"], int(rows[-1]["evaluations"]))
        out = self.done(*self.command("-o", "q.stw", "--curve", "-", "--seed", "5", "--threads", "2", updates=3))
        self.assertEqual([row["greedy"] for row in csv.DictReader(io.StringIO(out))], [row["greedy"] for row in rows])
        self.assertEqual(self.content("q.stw"), self.content("p.stw"))

    def test_wrong_usage(self):
        output = ["-o", "p.stw"]
        for more, words in (([], ["-o FILE"]), (["-o", "-"], ["standard output"]), (["-o", "nowhere/p.stw"], ["nowhere/p.stw"]),
                            (["-o", "layered.json/p.stw"], ["layered.json/p.stw"]),
                            ([*output, "--curve", "nowhere/c.csv"], ["nowhere/c.csv"]),
                            ([*output, "--problems", "0"], ["--problems", "'0'"]),
                            ([*output, "--problems", "x"], ["--problems", "'x'"]),
                            ([*output, "--network", "depth=3"], ["--network", "'depth'", "width"]),
                            ([*output, "--network", "width"], ["--network", "'width'", "KEY=N"]),
                            ([*output, "--network", "width=x"], ["--network", "'x'", "width"]),
                            ([*output, "--network", "width=0"], ["width"]),
                            ([*output, "--network", "heads=3"], ["heads"]),
                            ([*output, "--sum", "quick"], ["--sum", "ordered|fast"]),
                            ([*output, "--hold-out", "no-family"], ["no-family", "rnnlm"]),
                            ([*output, "--hold-out", "layered,rnnlm"], ["held out"]),
                            ([*output, "--machine", "h200x2"], ["--machine", "without --corpus"]),
                            ([*output, "--best", "b.json"], ["--best", "without --corpus"]),
                            ([*output, "--resume"], ["p.stw"]),
                            ([*output, "g.json"], ["--corpus all,g.json"])):
            with self.subTest(more=more):
                self.fault(*self.command(*more), says=words)
        self.fault(*self.command(*output, corpus="no-family"), says=["no-family", "rnnlm"])
        self.fault(*self.command(*output, corpus="nowhere.json"), says=["nowhere.json"])
        self.fault(*self.command(*output, corpus=self.path("broken.json", "{")), says=["broken.json"])
        self.fault("train", "--corpus", "layered.json", "-o", "p.stw", "--resume", says=["--resume needs --updates"])
        os.unlink(self.path("broken.json"))
        self.assertEqual(sorted(os.listdir(self.folder)), self.made)

    @unittest.skipIf(os.geteuid() == 0, "root may write anywhere")
    def test_folder_that_is_not_writable(self):
        os.mkdir(self.path("closed"), 0o500)
        self.fault(*self.command("-o", "closed/p.stw"), says=["closed/p.stw"])

    def test_budget(self):
        report = json.loads(self.done("train", "--corpus", "layered.json", "--problems", "2", "--network", self.NETWORK, "-o", "p.stw",
                                      "--budget", "100ms", "-f", "json"))
        self.assertTrue(report["updates"] > 0 and report["updates"] % 24 == 0, report)
        self.fault(*self.command("-o", "p.stw", "--resume", updates=report["updates"]), says=["p.stw", "was begun with"])

    def test_resume_with_something_else(self):
        self.done(*self.command("-o", "p.stw"))
        content = self.content("p.stw")
        again = ["-o", "p.stw", "--resume"]
        self.fault(*self.command(*again, "--seed", "2"), says=["p.stw", "was begun with seed 1, 2 updates and 2 problems"])
        self.fault(*self.command(*again, updates=4), says=["p.stw", "2 updates"])
        self.fault(*self.command(*again, "--problems", "3"), says=["p.stw", "2 problems"])
        self.fault(*self.command(*again, "--network", "width=32"), says=["p.stw", "width"])
        self.fault(*self.command(*again, "--curve", self.path("c.csv", "a,b\n1,2\n")), says=["c.csv", "no learning curve"])
        self.assertEqual((self.content("p.stw"), self.content("c.csv")), (content, b"a,b\n1,2\n"))
        self.done(*self.command(*again))  # nothing is left to do
        self.assertEqual(self.content("p.stw"), content)
        self.path("p.stw", content[:-9] + b"x" + content[-8:])
        self.fault(*self.command(*again), says=["p.stw", "checksum"])
        self.done("train", GRAPH, *Train.QUICK, "--updates", "1", "-o", "one.stw")
        self.path("p.stw", self.content("one.stw"))
        self.fault(*self.command(*again), says=["p.stw", "no state of a pre-training"])

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "there is no /proc")
    def test_interrupt_and_resume(self):
        updates = 160000  # more than there is time for
        command = self.command("-o", "p.stw", "--threads", "1", "-f", "json", "--curve", "c.csv", updates=updates)
        done = 0
        for number, more in ((signal.SIGINT, []), (signal.SIGTERM, ["--resume"])):
            process = Streams.started(self, *command, *more)
            time.sleep(1)
            self.assertIsNone(process.poll(), "the training is over before it is interrupted")
            process.send_signal(number)
            out, err = process.communicate(timeout=100)
            self.assertEqual((process.returncode, err), (130, b""))
            now = json.loads(out)["updates"]
            self.assertTrue(done < now < updates and now % 24 == 0, (done, now))
            done = now
            self.assertEqual(json.loads(self.done("inspect", "p.stw", "-f", "json"))["pretraining"]["updates"], done)
            self.assertEqual([int(row["update"]) for row in self.curve("c.csv")], list(range(done)))
            with open(self.path("c.csv"), "a") as file:  # rows that the policy does not have, as a training that was killed leaves them
                file.write(f"{done},1\n{done + 1},1\n{done + 2}")
        self.assertEqual(sorted(os.listdir(self.folder)), sorted([*self.made, "c.csv", "p.stw"]))

    def test_the_policy_in_use(self):
        """What was trained serves go-zero and go-tune, here and in optimize; what cannot serve is refused in a line."""
        self.done(*self.command("-o", "p.stw"))
        compare = ["compare", "layered.json", "-m", "h200x2", "--updates", "2", "--seed", "3", "-f", "json"]

        def rows(*more):
            methods = json.loads(self.done(*compare, *more))[0]["methods"]
            return {method["method"]: method for method in methods}

        mine = rows("--methods", "go-zero,go-tune", "--policy", "p.stw")
        self.assertEqual([row["valid"] for row in mine.values()], [True, True])
        self.assertLessEqual(mine["go-tune"]["step_s"], mine["go-zero"]["step_s"])
        self.assertEqual(without_times(mine), without_times(rows("--methods", "go-zero,go-tune", "--policy", "p.stw", "--threads", "2")))
        few = rows("--methods", "go-zero", "--policy", "p.stw", "--decodes", "1")["go-zero"]
        self.assertLess(few["evaluations"], mine["go-zero"]["evaluations"])
        dealt = rows("--methods", "go-zero", "--policy", "p.stw", "--shuffle-features")["go-zero"]
        self.assertTrue(dealt["valid"])
        self.assertEqual(without_times(dealt), without_times(
            rows("--methods", "go-zero", "--policy", "p.stw", "--shuffle-features")["go-zero"]))

    def test_the_policy_in_optimize(self):
        self.done(*self.command("-o", "p.stw"))
        optimize = ["optimize", "layered.json", "-m", "h200x2", "--evaluations", "2000", "-f", "json"]
        for policy, expected in (("p.stw", ["go-zero", "go-tune"]), ("none", [])):
            head = json.loads(self.done(*optimize, "--policy", policy))
            used = [candidate["method"] for candidate in head["candidates"] if candidate["method"] in ("go-zero", "go-tune")]
            self.assertEqual((used, head["valid"]), (expected, True))

    def test_a_policy_that_does_not_serve(self):
        self.done(*self.command("-o", "p.stw"))
        content = self.content("p.stw")
        self.done("train", GRAPH, *Train.QUICK, "--updates", "1", "-o", "one.stw")
        self.path("damaged.stw", content[:-9] + b"x" + content[-8:])
        self.path("short.stw", content[:1000])
        self.path("other.stw", b"{}")
        for method in ("go-zero", "go-tune"):
            for policy, words in (("one.stw", ["one.stw", "one graph", "--corpus"]), ("damaged.stw", ["damaged.stw", "checksum"]),
                                  ("short.stw", ["short.stw"]), ("other.stw", ["other.stw", "no policy file"]),
                                  ("nowhere.stw", ["nowhere.stw"]), ("none", ["--policy none"])):
                with self.subTest(method=method, policy=policy):
                    self.fault("compare", "layered.json", "-m", "h200x2", "--methods", method, "--policy", policy, says=words)


class Inspect(Case):
    def test_graph(self):
        path = self.path("g.json", SMALL)
        text = self.done("inspect", path)
        for word in ("graph small (family test)", "fingerprint", "elementwise", "h200", "cpu8", "made_up_operator", "unknown operator"):
            self.assertIn(word, text)
        report = json.loads(self.done("inspect", path, "--format", "json"))
        self.assertEqual(list(report), ["format", "name", "family", "fingerprint", "nodes", "ops", "views", "parameters", "buffers",
                                        "inputs", "constants", "ops_without_shape", "ops_empty", "edges", "control_edges", "updates", "outputs",
                                        "parameter_bytes", "buffer_bytes", "input_bytes", "flops", "measured", "classes", "unknown_operators", "open_inputs", "open_dimensions"])
        self.assertEqual([report[key] for key in ("nodes", "ops", "views", "parameters", "inputs", "edges", "updates", "outputs")],
                         [5, 3, 0, 1, 1, 5, 1, 1])
        self.assertEqual((report["parameter_bytes"], report["flops"]), (1024, 768))
        self.assertEqual([(m["kind"], m["unmeasured_ops"]) for m in report["measured"]], [("h200", 0), ("cpu8", 1)])
        self.assertAlmostEqual(report["measured"][0]["total_s"], 9e-6)
        self.assertEqual(report["unknown_operators"], [{"op": "made_up_operator", "ops": 1}])

    def test_many_unknown_operators(self):
        nodes = [node(0, "input", [])] + [node(i, f"strange_{i % 25}", [0]) for i in range(1, 52)]
        path = self.path("g.json", {"format": "opgraph", "version": 1, "name": "g", "outputs": [51], "nodes": nodes})
        text = self.done("inspect", path)
        self.assertIn("and 5 more", text)
        self.assertEqual(text.count("strange_"), 20)
        self.assertEqual(len(json.loads(self.done("inspect", path, "-f", "json"))["unknown_operators"]), 25)

    def test_every_graph_of_the_collection(self):
        folder = os.path.join(ROOT, "data", "graphs")
        for name in sorted(os.listdir(folder)):
            report = json.loads(self.done("inspect", os.path.join(folder, name), "--format", "json"))
            self.assertEqual(report["name"], name.removesuffix(".json.gz"))
            self.assertEqual(report["nodes"], sum(report[k] for k in ("ops", "views", "parameters", "buffers", "inputs", "constants")))
            self.assertEqual(sum(c["ops"] for c in report["classes"]), report["ops"])

    def test_features(self):
        path = self.path("g.json", SMALL)
        text = self.done("inspect", path, "--features", "-m", "h200x2")
        for word in ("features of small on h200x2", "class.matmul", "transfer_wait", "slot", "busy_then"):
            self.assertIn(word, text)
        self.assertLessEqual(max(len(line) for line in text.splitlines()), 100)
        report = json.loads(self.done("inspect", path, "--features", "-m", "h200x2", "--units", "off", "-f", "json"))
        self.assertEqual(list(report), ["graph", "machine", "version", "units", "devices", "plan", "unit", "feedback", "device", "pair",
                                        "operator"])
        self.assertEqual((report["units"], report["devices"], report["plan"]), (3, 2, "single"))
        with open(os.path.join(ROOT, "docs", "features.md")) as file:
            explained = file.read()
        for name, rows in (("unit", 3), ("feedback", 3), ("device", 2), ("pair", 3)):
            self.assertEqual(len(report[name]["rows"]), rows)
            for column in report[name]["columns"]:
                self.assertIn(f"| `{column}` |", explained)
            for row in report[name]["rows"]:
                for numbers in row if name == "pair" else [row]:
                    self.assertEqual(len(numbers), len(report[name]["columns"]))
                    self.assertTrue(all(isinstance(x, (int, float)) and -2 <= x <= 2 for x in numbers), numbers)
        self.assertEqual(len(report["pair"]["rows"][0]), 2)
        unknown = report["operator"].index(0)  # made_up_operator
        self.assertEqual(report["unit"]["rows"][unknown][report["unit"]["columns"].index("class.opaque")], 1.0)
        share = report["pair"]["columns"].index("share")
        self.assertEqual([[device[share] for device in row] for row in report["pair"]["rows"]], [[1, 0]] * 3)
        one = json.loads(self.done("inspect", GRAPH, "--features", "-m", "h200x1", "--units", "7", "-f", "json"))
        self.assertEqual(one["units"], 7)

    def test_features_faults(self):
        path = self.path("g.json", SMALL)
        self.fault("inspect", path, "--features", says=["--features needs a machine", "--machine h200x4"])
        self.fault("inspect", path, "--features", "-m", "h200x2", "--units", "0", says=["--units", "'0'"])
        self.fault("inspect", path, "--features", "-m", "nonesuch", says=["nonesuch"])
        self.fault("inspect", "h200x2", "--features", says=["'h200x2' is a machine"])
        self.fault("inspect", path, "--machine", "h200x2", says=["--machine is for --features"])
        self.fault("inspect", "-", "--features", "-m", "-", says=["only once"])

    def test_empty_graph(self):
        path = self.path("g.json", {"format": "opgraph", "version": 1, "name": "empty", "outputs": [], "nodes": []})
        result = self.run_stowage("inspect", path)
        self.assertIn(result.returncode, (0, 2), result)

    def test_other_files(self):
        for command in (["inspect"], ["simulate", "-m", "h200x2", "--plan", "spread"]):
            self.fault(*command, self.path("empty", ""), says=["empty: is empty"])
            self.fault(*command, self.path("words", "no graph"), says=["words: not a format that is read; known: opgraph JSON"])

    def test_unknown_rank(self):  # a dtype alone is no shape
        path = os.path.join(ROOT, "fuzz", "corpus", "onnx", "y_rank_unknown.onnx")
        self.assertEqual(json.loads(self.done("inspect", path, "--format", "json"))["ops_without_shape"], 2)

    def test_machine(self):
        text = self.done("inspect", "h200x4")
        self.assertIn("machine h200x4: 4 devices", text)
        self.assertIn("every device", text)
        self.assertIn("nic", self.done("inspect", "h200x2+2"))
        self.assertIn("no links", self.done("inspect", "h200x1"))
        path = self.path("m.json", self.done("machine", "h200x4"))
        self.assertEqual(self.done("inspect", path), text)
        self.assertEqual(self.done("inspect", path, "--format", "json"), self.done("machine", "h200x4"))
        self.assertEqual(self.done("machine", "h200x4", "--format", "text"), text)
        self.assertIn("more; --format json lists all", self.done("inspect", "h200x8+8"))

    def test_plan(self):
        plan = self.path("plan.json")
        self.done("simulate", GRAPH, "-m", "h200x4", "-p", "spread", "-o", plan)
        text = self.done("inspect", plan)
        for word in ("plan for unet", "fingerprint", "h200x4", "spread", "step time", "lower bound", "yes"):
            self.assertIn(word, text)
        report = json.loads(self.done("inspect", plan, "--format", "json"))
        self.assertEqual(list(report), ["format", "graph", "fingerprint", "machine", "method", "seed", "objective", "value", "step_s",
                                        "valid", "lower_bound_s", "lower_bound_fusion_s", "measured_share", "nodes", "devices"])
        self.assertEqual((report["graph"], report["method"], report["valid"]), ("unet", "spread", True))
        self.assertEqual(len(report["devices"]), 4)
        self.assertEqual(sum(device["nodes"] for device in report["devices"]), report["nodes"])
        self.assertEqual(json.loads(self.done("inspect", GRAPH, "-f", "json"))["fingerprint"], report["fingerprint"])

    def test_plan_by_hand(self):
        plan = self.path("p.json", {"format": "plan", "version": 1, "device": [0, 0, 2]})
        self.assertIn("66.7 %", self.done("inspect", plan))
        report = json.loads(self.done("inspect", plan, "-f", "json"))
        self.assertEqual([device["nodes"] for device in report["devices"]], [2, 0, 1])
        self.assertIsNone(report["graph"])
        for bad in ({"version": 2, "device": []}, {"version": 1, "device": [-1]}, {"version": 1, "device": [64]},
                    {"version": 1, "device": ["a"]}, {"version": 1, "step_s": "fast"}, {"version": 1, "machine": {}}):
            self.fault("inspect", self.path("p.json", {"format": "plan", **bad}), says=["p.json"])

    def test_names_cannot_steer_the_terminal(self):
        evil = dict(SMALL, name="\033[2Jx\u009b31m\n", family="\033]0;t\007")
        evil["nodes"] = [dict(n) for n in SMALL["nodes"]]
        evil["nodes"][3]["op"] = "\033[31mred"
        evil["nodes"][3]["us"] = {"\033[5mkind": 1.0}
        text = self.done("inspect", self.path("g.json", evil))
        self.assertFalse([c for c in text if c != "\n" and (ord(c) < 32 or 127 <= ord(c) < 160)], repr(text))


class Machine(Case):
    def test_list(self):
        text = self.done("machine")
        self.assertIn("h200xN", text)
        listed = json.loads(self.done("machine", "--format", "json"))
        self.assertGreaterEqual(len(listed), 5)
        for entry in listed:
            self.assertEqual(list(entry), ["name", "description"])
            self.assertIn(entry["name"], text)
        self.fault("machine", "-o", "x.json", says=["--output needs a machine"])
        self.fault("machine", "--memory", "4GB", says=["--memory needs a machine"])

    def test_file(self):
        text = self.done("machine", "cpu+h200x2")
        machine = json.loads(text)
        self.assertEqual((machine["format"], machine["name"], len(machine["devices"])), ("machine", "cpu+h200x2", 3))
        path = self.path("m.json")
        self.assertEqual(self.done("machine", "cpu+h200x2", "-o", path), "")
        with open(path) as file:
            self.assertEqual(file.read(), text)
        self.assertEqual(self.done("machine", path), text)
        self.assertEqual(self.done("machine", path, "-o", "-"), text)
        self.fault("machine", path, "-o", path, "--format", "text", says=["--output"])

    def test_memory(self):
        machine = json.loads(self.done("machine", "h200x2", "--memory", "4GB"))
        self.assertEqual([device["memory_bytes"] for device in machine["devices"]], [4 * 10**9] * 2)

    def test_unknown(self):
        self.fault("machine", "h200x0", says=["h200x0"])
        self.fault("machine", "h300x2", says=["h300x2"])


class Generate(Case):
    SMALL = ["--width", "64", "--batch", "2", "--steps", "3", "--vocabulary", "100"]

    def test_list(self):
        text = self.done("generate")
        listed = json.loads(self.done("generate", "--format", "json"))
        self.assertGreaterEqual(len(listed), 11)
        for entry in listed:
            self.assertEqual(list(entry), ["family", "description", "parameters"])
            for word in (entry["family"], entry["description"]):
                self.assertIn(word, text)
            for name, value in entry["parameters"].items():
                self.assertIn(f"--{name} {value}", text)
        self.fault("generate", "--layers", "2", says=["--layers needs a family"])
        self.fault("generate", "-o", "x.json", says=["--output needs a family"])

    def test_file(self):
        path = self.path("g.json.gz")
        text = self.done("generate", "rnnlm", *self.SMALL, "-o", path)
        name = "rnnlm-layers2-width64-batch2-steps3-vocabulary100"
        self.assertTrue(text.startswith(f"{name}: "), text)
        self.assertEqual(os.listdir(self.folder), ["g.json.gz"])  # nothing is left aside
        with gzip.open(path) as file:
            graph = json.load(file)
        self.assertEqual((graph["name"], graph["family"]), (name, "rnnlm"))
        self.assertEqual(json.loads(self.done("generate", "rnnlm", *self.SMALL, "-o", "-")), graph)
        told = json.loads(self.done("generate", "rnnlm", *self.SMALL, "-o", path, "--format", "json"))
        self.assertEqual(told["ops"], sum(n["op"] not in ("parameter", "input") and not n.get("view") for n in graph["nodes"]))
        self.assertEqual(told["flops"], sum(n.get("flops", 0) for n in graph["nodes"]))
        self.assertEqual(told["parameter_bytes"], sum(n["bytes"] for n in graph["nodes"] if n["op"] == "parameter"))
        simulated = json.loads(self.done("simulate", path, "-m", "h200x2", "-p", "expert", "--format", "json"))
        self.assertTrue(simulated["valid"])
        self.assertEqual(simulated["measured_share"], 0)

    def test_same_bytes(self):
        content = []
        for ending in ("a.json.zst", "b.json.zst"):
            self.done("generate", "layered", "--seed", "5", "--layers", "3", "-o", self.path(ending))
            with open(self.path(ending), "rb") as file:
                content.append(file.read())
        self.assertEqual(content[0], content[1])
        self.assertTrue(content[0].startswith(b"\x28\xb5\x2f\xfd"))

    def test_every_family_is_known(self):
        for entry in json.loads(self.done("generate", "--format", "json")):
            with self.subTest(family=entry["family"]):
                path = self.path("g.json")
                self.done("generate", entry["family"], "--layers", "4", "--batch", "2", "-o", path)
                self.assertEqual(json.loads(self.done("inspect", path, "--format", "json"))["unknown_operators"], [])

    def test_faults(self):
        self.fault("generate", "rnlm", "-o", "-", says=["no family 'rnlm'; did you mean rnnlm?"])
        self.fault("generate", "elephant", "-o", "-", says=["no family 'elephant'"])
        self.fault("generate", "rnnlm", says=["needs -o FILE"])
        self.fault("generate", "rnnlm", "--image", "64", "-o", "-", says=["--image", "rnnlm does not take it"])
        self.fault("generate", "resnet", "--seed", "2", "-o", "-", says=["--seed", "resnet does not take it"])
        self.fault("generate", "rnnlm", "--layers", "0", "-o", "-", says=["--layers: '0'"])
        self.fault("generate", "rnnlm", "--layers", "two", "-o", "-", says=["--layers: 'two'"])
        self.fault("generate", "rnnlm", "--layer", "2", "-o", "-", says=["did you mean --layers?"])
        self.fault("generate", "bert", "--width", "100", "-o", "-", says=["100 is not a multiple of 64"])
        self.fault("generate", "rnnlm", "--layers", "1000", "--steps", "1000", "-o", "x.json", says=["more than 1000000 ops"])
        self.fault("generate", "rnnlm", "gnmt", "-o", "-", says=["unexpected argument 'gnmt'"])
        self.fault("generate", "rnnlm", *self.SMALL, "-o", "no/such/folder/g.json", says=["no/such/folder/g.json"])
        self.assertEqual(os.listdir(self.folder), [])


class Streams(Case):
    def test_closed_pipe(self):
        for ignored in (False, True):
            reading, writing = os.pipe()
            os.close(reading)
            disposition = signal.SIG_IGN if ignored else signal.SIG_DFL
            process = subprocess.Popen([binary, "machine", "h200x64"], stdout=writing, stderr=subprocess.PIPE,
                                       restore_signals=False, preexec_fn=lambda: signal.signal(signal.SIGPIPE, disposition))
            os.close(writing)
            self.assertEqual(process.communicate(timeout=60)[1], b"")
            self.assertIn(process.returncode, (0, -signal.SIGPIPE))
        out = subprocess.run(f"'{os.path.abspath(binary)}' machine h200x64 | head -1 | wc -l", shell=True, capture_output=True)
        self.assertEqual((out.stdout.strip(), out.stderr), (b"1", b""))

    @unittest.skipUnless(os.path.exists("/dev/full"), "there is no /dev/full")
    def test_full_disk(self):
        for arguments in (["version"], ["help"], ["machine", "h200x64"], ["inspect", GRAPH],
                          ["simulate", GRAPH, "-m", "h200x2", "-p", "single"],
                          ["simulate", GRAPH, "-m", "h200x2", "-p", "single", "-o", "-"],
                          ["simulate", GRAPH, "-m", "h200x2", "-p", "single", "--trace", "-"]):
            with open("/dev/full", "wb") as full:
                result = subprocess.run([binary, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual(result.returncode, 2, (arguments, result))
            self.assertTrue(result.stderr.startswith("stowage: "), result)
            self.assertIn("No space left", result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result)

    def test_closed_output(self):
        result = subprocess.run(f"'{os.path.abspath(binary)}' version >&-", shell=True, capture_output=True)
        self.assertEqual(result.returncode, 2)
        self.assertEqual(result.stderr.count(b"\n"), 1)

    def on_terminal(self, *arguments, **environment):
        """Runs on a pseudo-terminal; returns exit status and output with plain line ends."""
        variables = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
        variables.update({"TERM": "xterm", **environment})
        master, slave = pty.openpty()
        process = subprocess.Popen([binary, *arguments], stdin=slave, stdout=slave, stderr=slave, env=variables)
        os.close(slave)
        chunks = []
        while True:
            try:
                chunk = os.read(master, 65536)
            except OSError:  # Linux tells of the other end's closing this way
                break
            if not chunk:
                break
            chunks.append(chunk)
        os.close(master)
        return process.wait(timeout=60), b"".join(chunks).decode().replace("\r\n", "\n")

    def test_terminal(self):
        arguments = ["simulate", GRAPH, "-m", "h200x4", "-p", "spread"]
        plain = self.done(*arguments)
        status, coloured = self.on_terminal(*arguments)
        self.assertEqual(status, 0)
        self.assertIn("\033[", coloured)
        for code in ("\033[0m", "\033[1m", "\033[2m", "\033[31m", "\033[32m"):
            coloured = coloured.replace(code, "")
        self.assertEqual(coloured, plain)

    def test_no_colour(self):
        arguments = ["simulate", GRAPH, "-m", "h200x4", "-p", "spread"]
        plain = self.done(*arguments)
        self.assertNotIn("\033", plain)
        self.assertEqual(self.on_terminal(*arguments, NO_COLOR="1"), (0, plain))
        self.assertEqual(self.on_terminal(*arguments, TERM="dumb"), (0, plain))
        self.assertIn("\033[", self.on_terminal(*arguments, NO_COLOR="")[1])
        self.assertEqual(self.on_terminal("inspect", "h200x2", "--format", "json")[1].count("\033"), 0)

    def started(self, *arguments, searches=True):
        """A process that has come so far that an interrupt is handled: SIGINT is caught by all, and held while there is a search."""
        process = subprocess.Popen([binary, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   cwd=self.folder, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        for _ in range(2000):
            with open(f"/proc/{process.pid}/status") as file:
                signals = [int(line.split()[1], 16) for line in file if line.startswith("SigBlk" if searches else "SigCgt")]
            if signals and signals[0] >> (signal.SIGINT - 1) & 1:
                break
            time.sleep(0.005)
        return process

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "there is no /proc")
    def test_interrupt(self):
        process = self.started("inspect", "-", searches=False)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.communicate(timeout=60), (b"", b""))
        self.assertEqual(process.returncode, 130)

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "there is no /proc")
    def test_interrupted_search_keeps_its_plan(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                process = self.started("optimize", SLOW, "-m", "h200x4", "--budget", "10min", "-o", "plan.json")
                time.sleep(0.5)
                self.assertIsNone(process.poll(), "the search is over before it is interrupted")
                process.send_signal(number)
                began = time.monotonic()
                out, err = process.communicate(timeout=60)
                self.assertLess(time.monotonic() - began, 5)
                self.assertEqual((process.returncode, err), (130, b""))
                self.assertIn(b"interrupted, the best so far", out)
                self.assertEqual(os.listdir(self.folder), ["plan.json"])
                with open(self.path("plan.json")) as file:
                    plan = json.load(file)
                report = json.loads(self.done("simulate", SLOW, "-p", "plan.json", "-f", "json"))
                self.assertEqual((report["step_s"], report["valid"]), (plan["step_s"], True))
                os.unlink(self.path("plan.json"))

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "there is no /proc")
    def test_interrupted_comparison_prints_what_is_done(self):
        process = self.started("compare", SLOW, GRAPH, "-m", "h200x4", "--budget", "10min", "--methods", "single,optimize,spread",
                               "-f", "json")
        time.sleep(2)  # single is done, also under a sanitizer
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err), (130, b""))
        rows = json.loads(out)
        self.assertEqual([[method["method"] for method in row["methods"]] for row in rows], [["single", "optimize"]])

    @unittest.skipUnless(os.path.exists("/proc/self/status"), "there is no /proc")
    def test_second_interrupt_ends_at_once(self):
        process = self.started("optimize", SLOW, "-m", "h200x4", "--budget", "10min")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertIn(process.returncode, (130, -signal.SIGINT))

    def progress_of(self, *arguments, columns=None):
        """Runs with standard error on a pseudo-terminal; returns output and what went to the terminal."""
        master, slave = pty.openpty()
        if columns is not None:
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen([binary, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=slave,
                                       env=dict(os.environ, TERM="xterm"))
            os.close(slave)
            chunks = []
            while True:
                try:
                    chunk = os.read(master, 65536)
                except OSError:
                    break
                if not chunk:
                    break
                chunks.append(chunk)
            os.close(master)
            self.assertEqual(process.wait(timeout=60), 0)
            out.seek(0)
            return out.read().decode(), b"".join(chunks).decode()

    def test_progress(self):
        arguments = ["optimize", GRAPH, "-m", "h200x4", "--budget", "700ms"]
        out, drawn = self.progress_of(*arguments)
        lines = drawn.split("\r")
        self.assertRegex(drawn, r"\[[#.]{20}\] +\d+ %  \w+  best [\d.]+ ms  gap [\d.]+ %  \d+ s left")
        self.assertTrue(any("###" in line for line in lines), drawn)
        self.assertEqual((lines[-2].strip(), lines[-1]), ("", ""))  # wiped
        self.assertGreaterEqual(len(lines[-2]), len(lines[-3].rstrip()))
        self.assertNotIn("\n", drawn)
        self.assertNotIn("\033", drawn)
        self.assertLess(len(lines), 20)  # about ten times per second
        self.assertTrue(all(len(line) < 80 for line in lines), lines)
        self.assertIn("step time", out)
        self.assertNotIn("\r", out)
        out, drawn = self.progress_of("compare", GRAPH, "-m", "h200x4", "--methods", "optimize", "--evaluations", "500", columns=40)
        self.assertTrue(all(len(line) < 40 for line in drawn.split("\r")), drawn)
        self.assertIn("[", drawn)

    def test_progress_of_training(self):
        out, drawn = self.progress_of("train", GRAPH, "-m", "h200x2", "--units", "24", "--start-plans", "no", "--updates", "80", "-o",
                                      self.path("p.stw"), columns=120)
        self.assertRegex(drawn, r"\[[#.]{20}\] +\d+ %  update \d+  greedy [\d.]+ ms  best [\d.]+ ms  gap [\d.]+ %  \d+ evaluations")
        self.assertEqual([line.strip() for line in drawn.split("\r")[-2:]], ["", ""])
        self.assertIn("step time", out)

    def test_no_progress_elsewhere(self):
        arguments = ["optimize", GRAPH, "-m", "h200x4", "--evaluations", "100"]
        self.done(*arguments)  # standard error stays empty
        status, out = self.on_terminal(*arguments, TERM="dumb")
        self.assertEqual((status, out.count("\r")), (0, 0))

    def test_pipe_closed_early(self):
        code = f"'{binary}' optimize '{GRAPH}' -m h200x2 --evaluations 100 | head -1"
        out = subprocess.run(code, shell=True, capture_output=True, timeout=60)
        self.assertEqual((out.stdout.count(b"\n"), out.stderr), (1, b""))


class Api(Case):
    """stw_options_* share the table with the command line, but only the library shows all kinds of values."""

    SCRIPT = """
import ctypes, json, sys
class Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 500)]
library = ctypes.CDLL(sys.argv[1])
get = library.stw_options_get
get.restype = ctypes.c_char_p
options, error = ctypes.c_void_p(), Error()
assert library.stw_options_create(ctypes.byref(options), ctypes.byref(error)) == 0
answers = []
for name, value in json.loads(sys.argv[2]):
    status = library.stw_options_set(options, name.encode(), value.encode(), ctypes.byref(error))
    now = get(options, name.encode())
    answers.append([status, error.message.decode() if status else "", now.decode() if now is not None else None])
library.stw_options_destroy(options)
library.stw_options_destroy(None)
print(json.dumps(answers))
"""

    def set_all(self, *pairs):
        library = os.path.join(os.path.dirname(os.path.abspath(binary)), "libstowage.so")
        if not os.path.exists(library):
            self.skipTest("there is no libstowage.so beside the program")
        result = subprocess.run([sys.executable, "-c", self.SCRIPT, library, json.dumps(pairs)], capture_output=True, text=True)
        if "runtime does not come first" in result.stderr or "static TLS" in result.stderr:
            self.skipTest("a sanitizer must be loaded before Python")
        self.assertEqual(result.returncode, 0, result)
        return json.loads(result.stdout)

    def test_options(self):
        answers = self.set_all(["memory", "4GB"], ["memory", "4QB"], ["seed", "7"], ["seed", "-1"], ["threads", "1025"],
                               ["threads", "x"], ["format", "json"], ["format", "yaml"], ["nothing", "1"], ["help", "yes"],
                               ["trace", ""], ["trace", "x" * 5000], ["machine", "h200x4"], ["seed", "9223372036854775807"])
        self.assertEqual([answer[0] for answer in answers], [0, -1, 0, -1, -1, -1, 0, -1, -1, -1, -1, -1, 0, 0])
        self.assertEqual([answer[2] for answer in answers],
                         ["4GB", "4GB", "7", "7", "0", "0", "json", "json", None, None, None, None, "h200x4", "9223372036854775807"])
        self.assertIn("'1025' is not a whole number from 0 to 1024", answers[4][1])
        self.assertIn("no option 'nothing'", answers[8][1])
        for answer in answers:
            self.assertNotIn("\n", answer[1])


class CountingResult(unittest.TextTestResult):
    passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main():
    global binary
    arguments = sys.argv[1:]
    if arguments and (os.sep in arguments[0] or os.path.isfile(arguments[0])):
        binary = arguments.pop(0)
    if not os.access(binary, os.X_OK):
        print(f"no program at '{binary}'; give its path as the first argument or in STOWAGE_BIN", file=sys.stderr)
        return 2
    binary = os.path.abspath(binary)
    program = unittest.main(argv=[sys.argv[0], *arguments], exit=False,
                            testRunner=unittest.TextTestRunner(resultclass=CountingResult))
    result = program.result
    failed = len(result.failures) + len(result.errors)
    skipped = f", {len(result.skipped)} skipped" if result.skipped else ""
    print(f"{result.passed} passed, {failed} failed{skipped}")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
