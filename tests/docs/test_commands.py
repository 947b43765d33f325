"""The commands of README.md and docs/tutorial.md run as they stand there, one after the other in one folder; pictures are drawn again.

    STOWAGE_BIN=build/release/stowage python3 tests/docs/test_commands.py

README's searches get few evaluations, so that the test says whether a command works and not how good its plan is. Those of the tutorial run
as they are, and what it shows is compared with what they print. Blocks in Python run with this interpreter; those that need a package that
it lacks are skipped. STOWAGE_INSTALLED=exact tries what is installed, the `stowage` of the path and the Python package of this interpreter;
STOWAGE_INSTALLED=any as well, and does not compare what they print, since methods may be left out there. The exit status is the verdict;
the last line counts what passed and failed."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
INSTALLED = os.environ.get("STOWAGE_INSTALLED")  # exact, any; None: what is built
BINARY = "stowage" if INSTALLED else os.path.abspath(os.environ.get("STOWAGE_BIN", os.path.join(ROOT, "build", "release", "stowage")))


def commands_of(name):
    """The lines of code blocks that begin with the program's name."""
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        blocks = re.findall(r"^```\w*\n(.*?)^```", file.read(), re.M | re.S)
    return [line for block in blocks for line in block.splitlines() if re.match(r"(\$ )?stowage ", line)]


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.symlink(os.path.join(ROOT, "data"), os.path.join(self.folder, "data"))

    def check(self, line):
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words[1] in ("optimize", "compare"):
            words += [] if "--evaluations" in words else ["--evaluations", "0"]
            words[words.index("--evaluations") + 1] = "20"
        result = subprocess.run([BINARY, *words[1:]], cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        self.assertEqual(result.returncode, 0, (line, result.stderr))
        self.assertEqual(result.stderr, b"", line)

    def test_readme(self):
        lines = commands_of("README.md")
        self.assertGreaterEqual(len(lines), 10)
        for line in lines:
            with self.subTest(line):
                self.check(line)
        for made in ("plan.json", "step.json", "plan.csv", "machine.json", "gnmt.json.gz", "policy.stw", "methods.svg"):
            self.assertGreater(os.path.getsize(os.path.join(self.folder, made)), 0)


class Pictures(Commands):
    """What is drawn by evaluations and not by time is drawn again, byte for byte."""

    test_readme = None

    def same(self, drawn, name):
        with open(drawn, "rb") as made, open(os.path.join(ROOT, "docs", "pictures", name), "rb") as shown:
            self.assertEqual(made.read(), shown.read(), name)

    def test_timelines(self):
        drawn = os.path.join(self.folder, "timelines.svg")
        script = os.path.join(ROOT, "scripts", "draw_timelines.py")
        subprocess.run([sys.executable, script, "--gnmt", "-o", drawn], env={**os.environ, "STOWAGE_BIN": BINARY}, check=True)
        self.same(drawn, "timelines.svg")

    @unittest.skipIf(INSTALLED == "any", "methods may be left out there, and so what they find")
    def test_plots(self):
        with open(os.path.join(ROOT, "docs", "report.md"), encoding="utf-8") as file:
            lines = re.findall(r"^    stowage (.* --plot \S+\.svg)$", file.read(), re.M)
        self.assertEqual(len(lines), 2)
        for line in lines:
            with self.subTest(line):
                subprocess.run([BINARY, *shlex.split(line)], cwd=self.folder, stdout=subprocess.DEVNULL, check=True)
                self.same(os.path.join(self.folder, shlex.split(line)[-1]), shlex.split(line)[-1])


PACKAGES = ("torch", "onnx", "jax")  # that blocks of the tutorial may need


def blocks_of(name):
    """(language, text, the output that is shown or None) of every block that runs."""
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        found = re.findall(r"^```(sh|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", file.read(), re.M | re.S)
    return [(language, text, shown or None) for language, text, shown in found]


def matches(shown, printed):
    """Line by line; a line "..." stands for any number of lines."""
    pattern = "".join(r"(?:.*\n)*?" if line == "..." else re.escape(line) + r"\n" for line in shown.splitlines())
    return re.fullmatch(pattern, printed) is not None


class Tutorial(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        os.symlink(os.path.join(ROOT, "data"), os.path.join(self.folder, "data"))
        self.environment = {**os.environ, "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        if not INSTALLED:
            folder = os.path.dirname(BINARY)
            self.environment.update(PATH=folder + os.pathsep + os.environ["PATH"], STOWAGE_LIBRARY=os.path.join(folder, "libstowage.so"),
                                    PYTHONPATH=os.path.join(ROOT, "python", "src"))

    def lacking(self, text):
        """Why a block in Python cannot run here; empty if it can."""
        if os.environ.get("STOWAGE_SLOW_BUILD"):
            return "Python does not load a sanitized library"
        return ", ".join(f"no {name}" for name in PACKAGES if re.search(rf"^import {name}$", text, re.M) and not importlib.util.find_spec(name))

    def check(self, language, text, shown):
        command = ["bash", "-ec", text] if language == "sh" else [sys.executable, "-c", text]
        result = subprocess.run(command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                check=False)
        self.assertEqual(result.returncode, 0, (text, result.stderr))
        if shown is not None and INSTALLED != "any":
            self.assertTrue(matches(shown, result.stdout), f"{text}\nshown:\n{shown}\nprinted:\n{result.stdout}")

    def test_tutorial(self):
        blocks, missing = blocks_of("docs/tutorial.md"), set()
        self.assertGreaterEqual(len(blocks), 12)
        self.assertGreaterEqual(sum(shown is not None for _, _, shown in blocks), 9)
        for language, text, shown in blocks:
            why = self.lacking(text) if language == "python" else ", ".join(f"no {name}" for name in missing if name in text)
            with self.subTest(text.splitlines()[0]):
                if why:
                    missing.update(re.findall(r"\"([\w.-]+\.(?:onnx|json|gz|json\.gz))\"", text) if language == "python" else [])
                    self.skipTest(why)
                self.check(language, text, shown)

    def test_elided_output(self):
        self.assertTrue(matches("a\n...\nd\n", "a\nb\nc\nd\n"))
        self.assertTrue(matches("a\n...\n", "a\n"))
        self.assertFalse(matches("a\n...\nd\n", "a\nb\n"))
        self.assertFalse(matches("a\nb\n", "a\nc\n"))


if __name__ == "__main__":
    sys.exit(run_tests())
