"""Several processes: src/dist and `stowage train --corpus` under the mpirun of the MPI that the build has.

    STOWAGE_RANKS=build/release/tests/comm_ranks STOWAGE_BIN=build/release/stowage STOWAGE_MPIRUN=mpirun \\
        python3 tests/dist/test_mpi.py

STOWAGE_MPIRUN is empty where the build has no MPI: then processes that were started together must be refused, and the rest is
skipped. The exit status is the verdict; the last line counts what passed, failed and was skipped.
"""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RANKS = os.path.abspath(os.environ.get("STOWAGE_RANKS", os.path.join(ROOT, "build", "release", "tests", "comm_ranks")))
PROGRAM = os.path.abspath(os.environ.get("STOWAGE_BIN", os.path.join(ROOT, "build", "release", "stowage")))
MPIRUN = os.environ.get("STOWAGE_MPIRUN", "mpirun")
SLOW_BUILD = "STOWAGE_SLOW_BUILD" in os.environ  # with sanitizers
LONGEST_S = 1000  # of a job; they take seconds on an idle machine
SOON_S = 300  # a job whose process died must have ended by then; it does at once on an idle machine

# What MPI's libraries (and libevent, for Open MPI) keep until the process ends counts as a leak under the address sanitizer. Their
# plugins are unloaded by then, so that only whole stacks tell whose memory it was.
KEEPERS = ["libmpi.so", "libmpich.so", "libopen-pal.so", "libopen-rte.so", "libpmix.so", "libevent", "libucp.so", "libucs.so"]
LAUNCHER_VARIABLES = ("OMPI_", "PMI_", "PMIX_", "HYDI_", "MPI_LOCAL")
BAD_TERMINATION = re.compile(r"\n=+\n=   BAD TERMINATION.*?debugging suggestions\n", re.DOTALL)


def job_environment(folder):
    """Root may run jobs (as in containers), there may be more processes than cores, and nothing but this machine is needed."""
    suppressions = os.path.join(folder, "keepers.txt")
    with open(suppressions, "w", encoding="utf-8") as file:
        file.write("".join(f"leak:{name}\n" for name in KEEPERS))
    environment = {k: v for k, v in os.environ.items() if not k.startswith(LAUNCHER_VARIABLES)}
    environment.update({
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
        "OMPI_MCA_plm_rsh_agent": shutil.which("ssh") or "/bin/false",  # never used on one machine, but looked for
        "ASAN_OPTIONS": "fast_unwind_on_malloc=0",
        "LSAN_OPTIONS": f"suppressions={suppressions}:print_suppressions=0",
    })
    return environment


def is_alive(process):
    """A zombie that nobody has asked for is not."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def eventually(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Jobs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = job_environment(self.folder)

    def start(self, ranks, *command):
        """`command` as `ranks` processes."""
        job = subprocess.Popen([MPIRUN, "-n", str(ranks), *command], env=self.environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace")
        self.addCleanup(self.end, job)
        return job

    @staticmethod
    def end(job):
        """By SIGTERM, so that mpirun takes its processes along."""
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            if job.poll() is None:
                job.send_signal(signal_number)
                try:
                    job.wait(15)
                except subprocess.TimeoutExpired:
                    pass
        job.stdout.close()
        job.stderr.close()

    def finish(self, job, seconds=LONGEST_S):
        """(status, standard output, standard error) of a job. What the launcher of MPICH tells of processes that ended badly, on
        standard output, counts as an error, as with Open MPI."""
        try:
            out, err = job.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.fail(f"the job did not end within {seconds} s")
        told = BAD_TERMINATION.search(out)
        return (job.returncode, out.replace(told[0], ""), err + told[0]) if told else (job.returncode, out, err)

    def run_job(self, ranks, *command, seconds=LONGEST_S):
        return self.finish(self.start(ranks, *command), seconds)


@unittest.skipIf(MPIRUN == "", "the build has no MPI")
@unittest.skipIf(MPIRUN != "" and shutil.which(MPIRUN) is None, f"there is no '{MPIRUN}'")
class TestRanks(Jobs):
    def test_collectives(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                status, out, err = self.run_job(ranks, RANKS, "collectives")
                self.assertEqual(status, 0, out + err)
                self.assertEqual(sorted(out.split("\n"))[1:], [f"rank {r} of {ranks}: 0 faults" for r in range(ranks)])

    def test_failure_is_told_to_all(self):
        status, out, err = self.run_job(3, RANKS, "agree", "1")
        self.assertEqual(status, 0, out + err)  # the program has got what it expects
        self.assertEqual(sorted(out.splitlines()), ["rank 0: process 1 of 3: graph.json: no such file",
                                                    "rank 1: graph.json: no such file",
                                                    "rank 2: process 1 of 3: graph.json: no such file"])

    def test_one_ends_the_job(self):
        for rank in (0, 2):
            with self.subTest(rank=rank):
                status, out, err = self.run_job(3, RANKS, "give_up", str(rank), seconds=SOON_S)
                self.assertNotEqual(status, 0, out + err)

    def test_killed_process_ends_the_job(self):
        for ranks, victim in ((2, 1), (3, 0)):
            with self.subTest(ranks=ranks, victim=victim):
                prefix = os.path.join(self.folder, f"pid{ranks}")
                job = self.start(ranks, RANKS, "loop", prefix)
                files = [f"{prefix}.{r}" for r in range(ranks)]
                self.assertTrue(eventually(lambda: all(map(os.path.exists, files)), LONGEST_S), "the job did not start")
                processes = []
                for name in files:
                    with open(name, encoding="utf-8") as file:
                        processes.append(int(file.read()))
                self.assertTrue(all(map(is_alive, processes)))
                os.kill(processes[victim], signal.SIGKILL)
                status, out, err = self.finish(job, SOON_S)
                self.assertNotEqual(status, 0)
                # The launcher tells of the process that it saw end first: the one that was killed, or one that missed it and aborted.
                self.assertRegex(out + err, r"(?i)signal (9|6)|exit code: (9|6)|killed")
                self.assertTrue(eventually(lambda: not any(map(is_alive, processes)), SOON_S), "processes were left behind")

    def test_other_launcher(self):
        """Started by the launcher of another MPI: each process would take itself for the only one."""
        for variable in ("OMPI_COMM_WORLD", "PMI"):
            with self.subTest(variable=variable):
                environment = {**self.environment, f"{variable}_SIZE": "2", f"{variable}_RANK": "1"}
                result = subprocess.run([RANKS], env=environment, capture_output=True, text=True, timeout=60)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertIn("but MPI sees 1: use the mpirun of the MPI that this program was built with", result.stderr)


def processes_of(job, program):
    """Those among the descendants of a job that run this program, by age; not all while it starts."""
    parents = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            pass  # it has ended
    found = []
    for process in sorted(parents):
        ancestor = process
        while ancestor in parents and ancestor != job.pid:
            ancestor = parents[ancestor]
        try:
            if ancestor == job.pid and os.path.samefile(f"/proc/{process}/exe", program):
                found.append(process)
        except OSError:
            pass
    return found


def parameters_of(path):
    """{name: numbers} of a policy file (docs/formats/policy.md)."""
    with open(path, "rb") as file:
        data = file.read()
    at = 12

    def take(kind):
        nonlocal at
        values = struct.unpack_from("<" + kind, data, at)
        at += struct.calcsize("<" + kind)
        return values

    def name():
        nonlocal at
        (length,) = take("H")
        at += length
        return data[at - length:at].decode()

    for _ in range(take("I")[0]):
        name()
        take("q")
    tensors = {}
    for _ in range(take("I")[0]):
        title = name()
        kind, rows, columns, offset = take("Iqqq")
        if title.startswith("parameter/"):
            assert kind == 0  # float
            tensors[title] = struct.unpack_from(f"<{rows * columns}f", data, offset)
    return tensors


def content(path):
    with open(path, "rb") as file:
        return file.read()


MINUTES = "whole stacks of every allocation (fast_unwind_on_malloc=0, for MPI's) make sanitized trainings take minutes"


@unittest.skipIf(MPIRUN == "", "the build has no MPI")
@unittest.skipIf(MPIRUN != "" and shutil.which(MPIRUN) is None, f"there is no '{MPIRUN}'")
class TestTraining(Jobs):
    """One policy by several processes. Small graphs in files: the problems that show what is learnt (16) take seconds else."""
    NETWORK = "width=16,heads=2,inner=32,sage_layers=1,attention_layers=1,operator_width=4,pair_width=8"
    GENERATION = 24  # updates

    def setUp(self):
        super().setUp()
        for name, *sizes in (("layered", "--layers", "1", "--steps", "3"), ("rnnlm", "--layers", "1", "--steps", "2")):
            self.alone("generate", name, *sizes, "-o", self.path(name + ".json"))

    def path(self, name):
        return os.path.join(self.folder, name)

    def alone(self, *arguments):
        """Without mpirun."""
        result = subprocess.run([PROGRAM, *arguments], env=self.environment, capture_output=True, text=True, timeout=LONGEST_S)
        self.assertEqual(result.returncode, 0, result)
        return result.stdout

    def command(self, policy, *more, updates=3, corpus=None):
        return [PROGRAM, "train", "--corpus", corpus or f"{self.path('layered.json')},{self.path('rnnlm.json')}", "-o",
                self.path(policy), "--updates", str(updates), "--problems", "3", "--threads", "1", "--network", self.NETWORK,
                "--format", "json", *more]

    def train(self, ranks, policy, *more, **which):
        """The report."""
        status, out, err = self.run_job(ranks, *self.command(policy, *more, **which))
        self.assertEqual(status, 0, out + err)
        return json.loads(out)

    def inspect(self, policy):
        """What it was trained with; fails if the file is not whole."""
        return json.loads(self.alone("inspect", self.path(policy), "--format", "json"))["pretraining"]

    def test_same_bytes_from_any_number(self):
        corpus = None if SLOW_BUILD else "layered,rnnlm"  # as people do; their problems take seconds
        self.alone(*self.command("alone.stw", corpus=corpus)[1:])
        report = self.train(2, "p.stw", corpus=corpus)
        self.assertEqual((report["updates"], report["processes"]), (3, 2))
        self.assertEqual(content(self.path("p.stw")), content(self.path("alone.stw")))

    def test_same_bytes_of_go_and_gdp(self):
        for preset in ("paper", "gdp"):
            with self.subTest(preset=preset):
                self.alone(*self.command("alone.stw", "--preset", preset, updates=2)[1:])
                self.assertEqual(self.train(2, "p.stw", "--preset", preset, updates=2)["processes"], 2)
                self.assertEqual(content(self.path("p.stw")), content(self.path("alone.stw")))

    @unittest.skipIf(SLOW_BUILD, MINUTES)
    @unittest.skipUnless("STOWAGE_LONG" in os.environ, "STOWAGE_LONG is not set; make check-all does that")
    def test_one_problem_each(self):
        """And into the second generation."""
        self.assertEqual(self.train(3, "p.stw", updates=self.GENERATION + 4)["processes"], 3)
        self.assertEqual(self.train(1, "q.stw", updates=self.GENERATION + 4)["processes"], 1)
        self.assertEqual(content(self.path("p.stw")), content(self.path("q.stw")))

    @unittest.skipIf(SLOW_BUILD, MINUTES)
    @unittest.skipUnless("STOWAGE_LONG" in os.environ, "STOWAGE_LONG is not set; make check-all does that")
    def test_fast_sum(self):
        """Sums in another order: the same numbers but for the last bits (docs/distributed.md)."""
        self.train(1, "one.stw", "--sum", "fast")
        self.train(1, "ordered.stw")
        sent = self.train(2, "ordered.stw")["bytes_sent"]
        self.assertEqual(content(self.path("one.stw")), content(self.path("ordered.stw")))
        one = parameters_of(self.path("one.stw"))
        for ranks in (2, 3):
            report = self.train(ranks, "more.stw", "--sum", "fast")
            self.assertNotEqual(report["bytes_sent"], sent)
            more = parameters_of(self.path("more.stw"))
            self.assertEqual(one.keys(), more.keys())
            largest = max(abs(x) for name in one for x in one[name])
            worst = max(abs(x - y) for name in one for x, y in zip(one[name], more[name]))
            self.assertLess(worst, 1e-5 * largest)

    def test_more_processes_than_problems(self):
        status, out, err = self.run_job(4, *self.command("p.stw"))
        self.assertNotEqual(status, 0)
        self.assertIn("4 processes share 3 problems", err)
        self.assertEqual(out, "")

    @unittest.skipIf(SLOW_BUILD, MINUTES)
    def test_faults_end_the_job(self):
        """Of all processes, before anything is learnt; one line of the program each at most."""
        self.train(1, "p.stw")
        for policy, more, says in (("nowhere/p.stw", [], "nowhere/p.stw"), ("p.stw", ["--hold-out", "layered,rnnlm"], "held out"),
                                   ("p.stw", ["--resume", "--seed", "2"], "the seed was 1, is 2")):
            with self.subTest(more=more, policy=policy):
                status, out, err = self.run_job(2, *self.command(policy, *more), seconds=SOON_S)
                self.assertNotEqual(status, 0)
                self.assertIn(says, err)
                self.assertEqual(out, "")

    def begun(self, updates):
        """A job of two that has written its first checkpoint, and its processes."""
        job = self.start(2, *self.command("p.stw", updates=updates))
        self.assertTrue(eventually(lambda: os.path.exists(self.path("p.stw")), LONGEST_S), "no checkpoint was written")
        processes = processes_of(job, PROGRAM)
        self.assertEqual(len(processes), 2)
        self.assertIsNone(job.poll())
        return job, processes

    def check_goes_on(self, updates, most, ranks=(1, 2)):
        """The last checkpoint is whole and leads to what comes out of a job that was left alone."""
        done = self.inspect("p.stw")["updates"]
        self.assertTrue(0 < done < most and done % self.GENERATION == 0, done)
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("p.stw.")], [])
        self.train(2, "whole.stw", updates=updates)
        checkpoint = content(self.path("p.stw"))
        for number in ranks:
            with open(self.path("p.stw"), "wb") as file:
                file.write(checkpoint)
            self.assertEqual(self.train(number, "p.stw", "--resume", updates=updates)["updates"], updates)
            self.assertEqual(content(self.path("p.stw")), content(self.path("whole.stw")))

    @unittest.skipIf(SLOW_BUILD, MINUTES)
    def test_killed_process(self):
        updates = 6 * self.GENERATION
        job, processes = self.begun(updates)
        os.kill(processes[1], signal.SIGKILL)
        status, out, err = self.finish(job, SOON_S)
        self.assertNotEqual(status, 0)
        self.assertEqual(out, "")
        self.assertRegex(err, r"(?i)signal 9|exit code: 9|killed")
        self.assertTrue(eventually(lambda: not any(map(is_alive, processes)), SOON_S), "processes were left behind")
        self.check_goes_on(updates, updates)

    @unittest.skipIf(SLOW_BUILD, MINUTES)
    def test_one_is_asked_to_stop(self):
        """All stop after the same update; the report is that of an interrupted training."""
        updates = 400 * self.GENERATION
        job, processes = self.begun(updates)
        os.kill(processes[1], signal.SIGTERM)
        status, out, err = self.finish(job, SOON_S)
        self.assertNotEqual(status, 0)
        done = self.inspect("p.stw")["updates"]
        self.assertEqual(json.loads(out)["updates"], done, err)
        self.assertEqual((done % self.GENERATION, done < updates), (0, True))

    @unittest.skipIf(SLOW_BUILD, MINUTES)
    def test_interrupt(self):
        """Ctrl-C of mpirun. How long the processes may take to end, and its own status (MPICH's may be 0), are the launcher's to say:
        what counts is a whole file of a training that has not come to its end."""
        updates = 400 * self.GENERATION
        job, processes = self.begun(updates)
        job.send_signal(signal.SIGINT)
        self.finish(job, SOON_S)
        self.assertTrue(eventually(lambda: not any(map(is_alive, processes)), SOON_S), "processes were left behind")
        done = self.inspect("p.stw")["updates"]
        self.assertTrue(self.GENERATION <= done < updates and done % self.GENERATION == 0, done)


class TestAnyBuild(Jobs):
    def test_no_launcher_is_one_process(self):
        result = subprocess.run([RANKS, "collectives"], env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((result.returncode, result.stdout), (0, "rank 0 of 1: 0 faults\n"), result.stderr)

    def check_several_are_refused(self):
        for variable in ("OMPI_COMM_WORLD", "PMI"):
            with self.subTest(variable=variable):
                environment = {**self.environment, f"{variable}_SIZE": "2", f"{variable}_RANK": "0"}
                result = subprocess.run([RANKS], env=environment, capture_output=True, text=True, timeout=60)
                self.assertEqual(result.returncode, 2)
                self.assertIn("built without MPI", result.stderr)

    if MPIRUN == "":  # else TestRanks.test_other_launcher
        test_several_are_refused = check_several_are_refused


def main():
    if not os.access(RANKS, os.X_OK):
        print(f"no program at '{RANKS}'; give its path in STOWAGE_RANKS", file=sys.stderr)
        return 2
    if not os.access(PROGRAM, os.X_OK):
        print(f"no program at '{PROGRAM}'; give its path in STOWAGE_BIN", file=sys.stderr)
        return 2
    return run_tests()


if __name__ == "__main__":
    sys.exit(main())
