"""Signals: a search or a training that is asked to end does so soon and leaves what it has. Waits are for what the program shows, on a
pseudo-terminal or in /proc; the limits of time are for a program that hangs."""

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "cli"))
import program  # noqa: E402
from program import SLOW  # noqa: E402

NEVER = 100_000_000  # evaluations or updates: more than there is time for
LONGEST_S = 300  # without a word from the program
VISITS = 24  # updates in a generation


class Signals(program.Case):
    def shown(self, *arguments, until, signal_number, ignored=()):
        """Runs with standard error on a terminal, sends the signal once it shows what `until` accepts; (status, output)."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 200, 0, 0))

        def before():
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

        process = subprocess.Popen([program.binary, *arguments], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=slave, env=dict(os.environ, TERM="xterm"), preexec_fn=before)
        os.close(slave)
        text, sent = "", False
        while True:
            if not select.select([master], [], [], LONGEST_S)[0] or len(text) > 1_000_000:
                process.kill()
                break
            try:
                chunk = os.read(master, 65536)
            except OSError:
                break
            if not chunk:
                break
            text += chunk.decode(errors="replace")
            if not sent and until(text):
                process.send_signal(signal_number)
                sent = True
        os.close(master)
        out = process.communicate(timeout=300)[0]
        self.assertTrue(sent, f"it never showed what was waited for: {text[-500:]}")
        return process.returncode, out.decode()

    def test_every_signal_keeps_the_plan(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                status, out = self.shown("optimize", SLOW, "-m", "h200x4", "--evaluations", str(NEVER), "-o", "plan.json",
                                         until=lambda text: "best " in text or "us" in text, signal_number=number)
                self.assertEqual(status, 130, out)
                self.assertIn("interrupted, the best so far", out)
                self.assertEqual(os.listdir(self.folder), ["plan.json"])
                with open(self.path("plan.json")) as file:
                    self.assertTrue(json.load(file)["valid"])
                os.unlink(self.path("plan.json"))

    def test_who_ignores_hanging_up_means_it(self):
        """As nohup does: the search goes on to its end."""
        status, out = self.shown("optimize", SLOW, "-m", "h200x4", "--evaluations", "400", until=lambda text: text != "",
                                 signal_number=signal.SIGHUP, ignored=[signal.SIGHUP])
        self.assertEqual(status, 0, out)

    def test_training_for_many_graphs(self):
        """In the midst of a generation: what is under way is given up, the file is that of the generation before, and it goes on."""
        self.done("generate", "layered", "--layers", "1", "--steps", "3", "-o", "layered.json")
        network = "width=16,heads=2,inner=32,sage_layers=1,attention_layers=1,operator_width=4,pair_width=8"
        command = ["train", "--corpus", "layered.json", "--updates", str(NEVER), "--problems", "2", "--network", network, "--threads", "1",
                   "-o", "p.stw", "--curve", "c.csv", "-f", "json"]

        def is_within(first):
            """An update of a generation after the first `first` updates is shown, and not its last one."""
            def until(text):
                numbers = [int(number.replace(",", "")) for number in re.findall(r"update ([\d,]+) ", text)]
                return bool(numbers) and numbers[-1] > first and numbers[-1] % VISITS not in (0, VISITS - 1)
            return until

        done = 0
        for number, more in ((signal.SIGINT, []), (signal.SIGHUP, ["--resume"])):
            status, out = self.shown(*command, *more, until=is_within(done + VISITS), signal_number=number)
            self.assertEqual(status, 130, out)
            updates = json.loads(out)["updates"]
            self.assertGreater(updates, done)
            self.assertEqual(updates % VISITS, 0)
            done = updates
            self.assertEqual(json.loads(self.done("inspect", "p.stw", "-f", "json"))["pretraining"]["updates"], done)
            with open(self.path("c.csv")) as file:
                self.assertEqual([int(line.split(",")[0]) for line in file.readlines()[1:]], list(range(done)))
        self.assertEqual(sorted(os.listdir(self.folder)), ["c.csv", "layered.json", "p.stw"])

    def test_training_that_has_only_begun(self):
        """The file is its beginning, to go on from; an older one stays."""
        self.done("generate", "layered", "--layers", "1", "--steps", "3", "-o", "layered.json")
        command = ["train", "--corpus", "layered.json", "--updates", "48", "--problems", "16", "-o", "p.stw", "-f", "json"]
        process = self.started(*command)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 130, (out, err))
        if out == b"":  # before there was a network
            self.assertIn(err, (b"", b"stowage: interrupted\n"))  # nothing: while libraries are still loaded
            self.assertEqual(os.listdir(self.folder), ["layered.json"])
        else:
            self.assertEqual((json.loads(out)["updates"] % VISITS, err), (0, b""))
            self.assertEqual(json.loads(self.done("inspect", "p.stw", "-f", "json"))["pretraining"]["updates"], json.loads(out)["updates"])
        self.path("p.stw", "older")
        process = self.started(*command)
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(timeout=300), 130)
        process.communicate()
        with open(self.path("p.stw"), "rb") as file:
            content = file.read()
        self.assertTrue(content == b"older" or content.startswith(b"STWPOLCY"), content[:20])


if __name__ == "__main__":
    sys.exit(program.main())
