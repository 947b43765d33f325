"""The words of the command line: help, man pages, faults of usage and of files, options of the library.

    python3 tests/cli/test_usage.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import gzip
import json
import os
import shutil
import subprocess
import sys
import unittest

import program
from program import GRAPH, ROOT, SMALL, Case

SEARCH_OPTIONS = ["budget", "clock", "evaluations", "objective", "tasks", "rule", "fusion", "units"]
PRETRAINED_OPTIONS = ["updates", "policy", "proposals", "scorer-rate", "decodes"]
POLICY_OPTIONS = ["learning-rate", "reward", "initial-plans", "warm-start", "device-names"]
LIMITS = ["grain", "pin", "keep-together", "forbid", "max-devices"]
LAST_OPTIONS = ["threads", "seed", "quiet", "help", "version"]
LAST_OF_SEARCHES = ["threads", "seed", "quiet", "dry-run", "help", "version"]
COMMANDS = ["optimize", "compare", "train", "simulate", "explain", "report", "export", "inspect", "generate", "machine", "calibrate", "version", "help"]
OPTIONS = {
    "optimize": ["machine", "from", *LIMITS, "min-gain", "memory", "costs", "kernels", "shape", "file-limit", "output", "trace", "report", "plot", "format", *SEARCH_OPTIONS, "preset",
                 *PRETRAINED_OPTIONS, *POLICY_OPTIONS, *LAST_OF_SEARCHES],
    "compare": ["machine", "methods", "from", *LIMITS, "memory", "costs", "kernels", "shape", "file-limit", "curve", "best", "report", "plot", "format", *SEARCH_OPTIONS, "preset",
                *PRETRAINED_OPTIONS, "shuffle-features", *POLICY_OPTIONS, "groups", *LAST_OF_SEARCHES],
    "train": ["machine", "memory", "costs", "shape", "file-limit", "output", "resume", "corpus", "hold-out", "learn", "problems", "network", "sum", "curve",
              "best", "format", "budget", "objective", "tasks", "rule", "fusion", "units", "preset", "updates",
              *POLICY_OPTIONS, *LAST_OPTIONS],
    "simulate": ["machine", "plan", *LIMITS, "memory", "costs", "kernels", "shape", "file-limit", "output", "trace", "report", "measured", "format", *SEARCH_OPTIONS, *LAST_OPTIONS],
    "explain": ["machine", "plan", "op", "group", "what-if", "memory", "costs", "kernels", "shape", "file-limit", "format", "budget", "clock", "evaluations",
                "tasks", "policy", *LAST_OPTIONS],
    "report": ["machine", "plan", "memory", "costs", "kernels", "shape", "file-limit", "measured", "output", "quiet", "help", "version"],
    "export": ["machine", "plan", "memory", "costs", "kernels", "shape", "file-limit", "to", "grain", "min-gain", "evaluations", "strict", "strip", "output",
               *LAST_OPTIONS],
    "inspect": ["machine", "shape", "file-limit", "format", "units", "features", "quiet", "help", "version"],
    "generate": ["layers", "width", "batch", "sequence", "steps", "image", "vocabulary", "experts", "output", "format", "seed", "quiet", "help",
                 "version"],
    "machine": ["memory", "output", "format", "quiet", "help", "version"],
    "calibrate": ["devices", "output", "model", "graph", "copies", "python", "format", "quiet", "help", "version"],
    "version": ["help", "version"],
    "help": ["man", "completion", "help", "version"],
}


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


class Man(Case):
    PAGES = ["stowage"] + ["stowage-" + name for name in COMMANDS if name not in ("help", "version")]

    def test_up_to_date(self):
        result = subprocess.run([os.path.join(ROOT, "scripts", "make_man.sh"), "--check", os.path.abspath(program.binary)],
                                capture_output=True, text=True)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def test_check_fails_when_a_page_differs(self):
        root = self.path("tree")
        shutil.copytree(os.path.join(ROOT, "docs", "man"), os.path.join(root, "docs", "man"))
        os.mkdir(os.path.join(root, "scripts"))
        script = shutil.copy(os.path.join(ROOT, "scripts", "make_man.sh"), os.path.join(root, "scripts"))
        with open(os.path.join(root, "docs", "man", "stowage-inspect.1"), "a") as page:
            page.write("changed\n")
        command = [script, "--check", os.path.abspath(program.binary)]
        self.assertEqual(subprocess.run(command, capture_output=True).returncode, 1)
        subprocess.run([script, os.path.abspath(program.binary)], check=True)
        self.assertEqual(subprocess.run(command, capture_output=True).returncode, 0)
        os.remove(os.path.join(root, "docs", "man", "stowage-export.1"))
        self.assertEqual(subprocess.run(command, capture_output=True).returncode, 1)
        subprocess.run([script, os.path.abspath(program.binary)], check=True)
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
        library = os.path.join(os.path.dirname(os.path.abspath(program.binary)), "libstowage.so")
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


if __name__ == "__main__":
    sys.exit(program.main())
