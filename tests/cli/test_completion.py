"""The completion scripts, each in its shell: commands, options, and words or files for their values.

    python3 tests/cli/test_completion.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

The exit status is the verdict; the last line counts what passed and failed.
"""

import os
import pty
import shlex
import shutil
import subprocess
import sys
import unittest

import program
from program import Case
from test_usage import COMMANDS, OPTIONS

METHODS = ["anneal", "spread", "steer"]  # some of them
# What follows "stowage ", and the words it is completed to: all of them here, some of them below.
ALL = {
    "s": ["simulate"],
    "help ": COMMANDS,
    "simulate --format ": ["text", "json"],
    "machine -f ": ["text", "json"],
    "compare -f ": ["text", "json", "csv", "markdown"],
    "compare --methods op": ["optimize"],
    "compare --methods single,sp": ["single,spread"],
    "compare -m h200x2,cpu+h200x": ["h200x2,cpu+h200x" + n for n in "1248"],
    "optimize --objective ": ["time", "memory", "throughput"],
    "simulate -p sp": ["spread"],
    "simulate -p carr": ["carried"],
    "optimize --machine a100": ["a100x" + n for n in "1248"],
    "machine h200x2": ["h200x2", "h200x2-pcie", "h200x2-host"],
    "export --to hl": ["hlo", "hlo-text"],
    "optimize --policy tr": ["train"],
    "train --hold-out gnmt,re": ["gnmt,resnet"],
    "generate gn": ["gnmt"],
    "help --completion ": ["bash", "zsh", "fish"],
    **{command + " --": ["--" + name for name in OPTIONS[command]] for command in COMMANDS},
}
SOME = {"simulate -p ": METHODS, "generate ": ["gnmt", "layered"], "compare --methods ": [*METHODS, "optimize"],
        "optimize -m ": ["h200x4"], "inspect h200x4": ["h200x4"]}
FILES = ["inspect some", "optimize some", "simulate some.json --plan some", "optimize -m some", "train -o some"]
NOTHING = ["optimize --memory ", "optimize --seed "]


class Completion(Case):
    def script(self, shell):
        return self.done("help", "--completion", shell)

    def check(self, complete, files=True):
        """`complete`: command lines to lists of candidates, all in one shell, in a folder that has the file some.json."""
        self.path("some.json", "{}")
        lines = [*ALL, *SOME, *FILES, *NOTHING]
        found = dict(zip(lines, complete(["stowage " + line for line in lines]), strict=True))
        for line, words in ALL.items():
            self.assertEqual(sorted(found[line]), sorted(words), line)
        for line, words in SOME.items():
            self.assertLessEqual(set(words), set(found[line]), line)
        for line in FILES:
            self.assertEqual(found[line], ["some.json"] if files else [], line)
        for line in NOTHING:
            self.assertEqual(found[line], [], line)

    def test_bash(self):
        script = self.path("completion.bash", self.script("bash"))
        code = (f"source {shlex.quote(script)}\nwhile IFS= read -r line; do\n"
                "  read -ra COMP_WORDS <<< \"$line\"; [[ $line == *' ' ]] && COMP_WORDS+=('')\n"
                "  COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _stowage; printf '%s ' \"${COMPREPLY[@]}\"; echo\ndone")

        def complete(lines):
            out = subprocess.run(["bash", "-c", code], input="\n".join(lines) + "\n", capture_output=True, check=True, text=True)
            self.assertEqual(out.stderr, "")
            return [line.split() for line in out.stdout.splitlines()]

        self.check(complete, files=False)  # where there are no candidates, bash itself offers files
        self.assertEqual(complete(["stowage simulate --format = js"]), [["json"]])
        self.assertEqual(complete(["stowage simulate --format ="]), [["text", "json"]])

    @unittest.skipUnless(shutil.which("fish"), "there is no fish")
    def test_fish(self):
        folder = self.path("fish")
        os.mkdir(folder)
        script = self.path("fish/stowage.fish", self.script("fish"))
        code = "source $argv[1]\nwhile read -l line\n  complete -C $line\n  echo =\nend"

        def complete(lines):
            out = subprocess.run(["fish", "--no-config", "-c", code, script], input="\n".join(lines) + "\n", capture_output=True,
                                 check=True, text=True, cwd=self.folder, env=dict(os.environ, HOME=folder, TERM="dumb"))
            self.assertEqual(out.stderr, "")
            # A candidate and, behind a tabulator, what it is.
            return [[line.split("\t")[0] for line in part.splitlines()] for part in out.stdout.split("=\n")[:-1]]

        self.check(complete)

    @unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
    def test_zsh(self):
        folder = self.path("zsh")
        os.mkdir(folder)
        self.path("zsh/_stowage", self.script("zsh"))
        os.symlink(os.path.join(os.path.dirname(os.path.abspath(__file__)), "capture.zsh"), self.path("zsh/.zshrc"))

        def complete(lines):
            given, found = self.path("lines", "\n".join(lines) + "\n"), self.path("candidates", "")
            environment = dict(os.environ, HOME=folder, ZDOTDIR=folder, TERM="dumb", LINES_FILE=given, CANDIDATES_FILE=found)
            child, terminal = pty.fork()
            if child == 0:
                os.chdir(self.folder)
                os.execvpe("zsh", ["zsh", "-d", "-i"], environment)
            try:
                while os.read(terminal, 4096):
                    pass
            except OSError:  # it is gone
                pass
            os.close(terminal)
            os.waitpid(child, 0)
            with open(found) as file:
                return [part.splitlines() for part in file.read().split("\n=\n")[:-1]]

        self.check(complete)


if __name__ == "__main__":
    sys.exit(program.main())
