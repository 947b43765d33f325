"""The commands of README.md run as they stand there, one after the other in one folder.

    STOWAGE_BIN=build/release/stowage python3 tests/docs/test_commands.py

Searches get few evaluations, so that the test says whether a command works and not how good its plan is. The exit status is the verdict;
the last line counts what passed and failed."""

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
BINARY = os.path.abspath(os.environ.get("STOWAGE_BIN", os.path.join(ROOT, "build", "release", "stowage")))


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
        for made in ("plan.json", "step.json", "plan.csv", "machine.json", "gnmt.json.gz", "policy.stw"):
            self.assertGreater(os.path.getsize(os.path.join(self.folder, made)), 0)


if __name__ == "__main__":
    sys.exit(run_tests())
