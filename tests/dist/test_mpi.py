"""Several processes: src/dist under the mpirun of the MPI that the build has.

    STOWAGE_RANKS=build/release/tests/comm_ranks STOWAGE_MPIRUN=mpirun python3 tests/dist/test_mpi.py

STOWAGE_MPIRUN is empty where the build has no MPI: then processes that were started together must be refused, and the rest is
skipped. The exit status is the verdict; the last line counts what passed, failed and was skipped.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RANKS = os.path.abspath(os.environ.get("STOWAGE_RANKS", os.path.join(ROOT, "build", "release", "tests", "comm_ranks")))
MPIRUN = os.environ.get("STOWAGE_MPIRUN", "mpirun")
LONGEST_S = 180  # of a job; they take seconds
SOON_S = 20  # a job whose process died must have ended by then

# What MPI's libraries (and libevent, for Open MPI) keep until the process ends counts as a leak under the address sanitizer. Their
# plugins are unloaded by then, so that only whole stacks tell whose memory it was.
KEEPERS = ["libmpi.so", "libmpich.so", "libopen-pal.so", "libopen-rte.so", "libpmix.so", "libevent", "libucp.so", "libucs.so"]
LAUNCHER_VARIABLES = ("OMPI_", "PMI_", "PMIX_", "HYDI_", "MPI_LOCAL")


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
        """(status, standard output, standard error) of a job."""
        try:
            out, err = job.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            self.fail(f"the job did not end within {seconds} s")
        return job.returncode, out, err

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
        for how in ("abort", "give_up"):
            for rank in (0, 2):
                with self.subTest(how=how, rank=rank):
                    status, out, err = self.run_job(3, RANKS, how, str(rank), seconds=SOON_S)
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
                time.sleep(0.3)  # in the middle of the loop
                self.assertTrue(all(map(is_alive, processes)))
                os.kill(processes[victim], signal.SIGKILL)
                status, out, err = self.finish(job, SOON_S)
                self.assertNotEqual(status, 0)
                self.assertRegex(out + err, r"(?i)signal 9|exit code: 9|killed")
                self.assertTrue(eventually(lambda: not any(map(is_alive, processes)), 5), "processes were left behind")

    def test_other_launcher(self):
        """Started by the launcher of another MPI: each process would take itself for the only one."""
        for variable in ("OMPI_COMM_WORLD", "PMI"):
            with self.subTest(variable=variable):
                environment = {**self.environment, f"{variable}_SIZE": "2", f"{variable}_RANK": "1"}
                result = subprocess.run([RANKS], env=environment, capture_output=True, text=True, timeout=60)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertIn("but MPI sees 1: use the mpirun of the MPI that this program was built with", result.stderr)


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
    return run_tests()


if __name__ == "__main__":
    sys.exit(main())
