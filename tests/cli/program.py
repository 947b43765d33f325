"""What the tests of the command line share: the program under test, a case with a folder of its own, small graphs, keys of reports."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GRAPH = os.path.join(ROOT, "data", "graphs", "unet.json.gz")
SLOW = os.path.join(ROOT, "data", "graphs", "rnnlm-2.json.gz")  # far from its bound: a search lasts as long as it may
HEAD_KEYS = ["format", "version", "graph", "machine", "tasks", "method", "seed", "objective", "value", "step_s", "valid",
             "lower_bound_s", "lower_bound_fusion_s", "lower_bound_load_s", "lower_bound_bytes", "optimal", "limits", "measured_share", "peak_bytes",
             "noise", "warnings", "candidates"]
CANDIDATE_KEYS = ["method", "step_s", "value", "valid", "reason", "peak_bytes", "evaluations", "seed"]
TIMED_KEYS = [*CANDIDATE_KEYS[:6], "search_s", *CANDIDATE_KEYS[6:], "note", "found"]  # of compare
CSV_KEYS = ["graph", "machine", "objective", "method", "step_s", "value", "valid", "reason", "worst_peak_bytes", "search_s",
            "evaluations", "seed", "lower_bound_s", "lower_bound_fusion_s", "lower_bound_bytes", "measured_share", "note"]

LONGEST_S = 1000  # a busy machine may take this long for what is done in seconds on an idle one
MOST_DRAWN = 1_000_000  # bytes on a terminal: more than any progress shows

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
                              timeout=LONGEST_S, **more)

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
        return line

    def started(self, *arguments, searches=True):
        """A process that has come so far that an interrupt is handled: SIGINT is caught by all, and held while there is a search."""
        process = subprocess.Popen([binary, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   cwd=self.folder, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        while process.poll() is None:
            with open(f"/proc/{process.pid}/status") as file:
                signals = [int(line.split()[1], 16) for line in file if line.startswith("SigBlk" if searches else "SigCgt")]
            if signals and signals[0] >> (signal.SIGINT - 1) & 1:
                break
            time.sleep(0.005)
        return process

    def interrupted_when(self, drawn, number, *arguments):
        """Runs with standard error on a terminal, sends the signal as soon as the progress there matches the pattern `drawn`, and returns
        exit status and standard output."""
        shown = []

        def look(process, chunk):
            shown.append(chunk)
            if re.search(drawn, b"".join(shown[-50:]).decode(errors="replace")):
                process.send_signal(number)
                return None
            return look

        status, out, shown_in_all = self.with_errors_on_terminal(look, arguments, columns=200, cwd=self.folder)
        self.assertRegex(shown_in_all, drawn)
        return status, out

    def progress_of(self, *arguments, columns=None):
        """Runs with standard error on a terminal; returns output and what went to the terminal."""
        status, out, drawn = self.with_errors_on_terminal(None, arguments, columns)
        self.assertEqual(status, 0)
        return out, drawn

    @staticmethod
    def with_errors_on_terminal(look, arguments, columns=None, cwd=None, ignored=()):
        """Status, standard output and what went to the terminal. `look` is called with the process and what was drawn; it returns what is
        to be called next time, or None. The program begins with the signals of `ignored` ignored; where it hangs, without a word or with
        too many, it is killed."""
        def set_signals():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

        master, slave = pty.openpty()
        if columns is not None:
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen([binary, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=slave, cwd=cwd,
                                       env=dict(os.environ, TERM="xterm"), preexec_fn=set_signals)
            drawn = read_terminal(process, master, slave, look)
            status = process.wait()
            out.seek(0)
            return status, out.read().decode(), drawn.decode(errors="replace")


def read_terminal(process, master, slave, look=None):
    """All that `process` writes to the terminal, whose two ends are closed then. The end that it writes to stays open here meanwhile: some
    kernels lose what is still on its way when the last of them is closed. `look` is as in `with_errors_on_terminal`."""
    end = b"\0the end\0"
    drawn, told, silent_s = b"", False, 0
    while not drawn.endswith(end):
        if process.poll() is not None and not told:
            os.write(slave, end)
            told = True
        if silent_s > LONGEST_S or len(drawn) > MOST_DRAWN:
            process.kill()
            break
        if not select.select([master], [], [], 0.02)[0]:
            silent_s += 0.02
            continue
        chunk, silent_s = os.read(master, 65536), 0
        drawn += chunk
        look = look and look(process, chunk)
    os.close(slave)
    os.close(master)
    return drawn.removesuffix(end)


def unwrapped(text):
    """Text whose long lines were broken, as one line."""
    return " ".join(text.split())


def without_times(report):
    """A report with the seconds of a search left out: all that may differ between two runs."""
    if isinstance(report, dict):
        report = {key: value for key, value in report.items() if key != "search_s"}
        return {key: [row[1:] for row in value] if key == "found" else without_times(value) for key, value in report.items()}
    return [without_times(value) for value in report] if isinstance(report, list) else report


def markdown_rows(text):
    """The cells of a Markdown table, bold or not; lines that are no table are passed over."""
    rows = [[cell.strip().strip("*") for cell in line.strip("|").split(" |")] for line in text.splitlines() if line.startswith("|")]
    return [row for row in rows if not all(set(cell) <= set("-: ") and cell for cell in row)]


def main():
    global binary
    arguments = sys.argv[1:]
    if arguments and (os.sep in arguments[0] or os.path.isfile(arguments[0])):
        binary = arguments.pop(0)
    if not os.access(binary, os.X_OK):
        print(f"no program at '{binary}'; give its path as the first argument or in STOWAGE_BIN", file=sys.stderr)
        return 2
    binary = os.path.abspath(binary)
    sys.argv[1:] = arguments
    return run_tests()
