"""What the benches share that make many runs of the program: a store of finished runs, several processes at once, the place they ran."""
import argparse
import datetime
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from tables import ROOT


# ---- the store: a line of JSON per finished run ----


def lines_of(path):
    if not path.exists():
        return []
    return (gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()).splitlines()


def append(path, record):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab+") as file:
        if file.tell() > 0:
            file.seek(-1, os.SEEK_END)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write((json.dumps(record) + "\n").encode())


def about_this_place(commit=None):
    def git(*arguments):
        try:
            return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True).stdout.strip()
        except OSError:
            return ""

    cpu = re.search(r"model name\s*:\s*(.*)", open("/proc/cpuinfo").read()) if os.path.exists("/proc/cpuinfo") else None
    if not commit:
        changed = git("status", "--porcelain", "--", "src", "cli", "include")
        commit = (git("rev-parse", "--short", "HEAD") or "unknown") + (" with changes" if changed else "")
    return {"commit": commit, "cores": len(os.sched_getaffinity(0)), "cpu": re.sub(r"\s+", " ", cpu.group(1)) if cpu else "unknown"}


# ---- runs ----


class Runs:
    """Makes runs, several at once, in the order of `waiting`. Who uses it says what a run's command is, how long it may take, when it is
    ready, and what to do with what it printed."""

    def __init__(self, waiting, jobs, threads, deadline):
        self.waiting, self.jobs = list(waiting), jobs
        self.active, self.failed, self.done = [], 0, 0
        self.stopped = False  # set by a handler of signals: an exception there could come between a process and its place in `active`
        self.began = time.monotonic()
        self.deadline = self.began + deadline if deadline else float("inf")
        cores = sorted(os.sched_getaffinity(0))
        pinned = jobs > 1 and jobs * threads <= len(cores) and shutil.which("taskset")
        self.slots = [cores[job * threads:(job + 1) * threads] if pinned else None for job in range(jobs)]

    def command_of(self, run, folder):
        raise NotImplementedError

    def likely_seconds(self, run):
        raise NotImplementedError

    def take(self, run, text, took):
        """Keeps what the run printed; returns a few words about it."""
        raise NotImplementedError

    def name_of(self, run):
        return " ".join(map(str, run))

    def is_ready(self, run):
        return time.monotonic() + self.likely_seconds(run) <= self.deadline

    def start(self, run):
        slot = self.slots.pop()
        folder = tempfile.TemporaryDirectory()
        command = self.command_of(run, folder.name)
        if slot:
            command = ["taskset", "-c", ",".join(map(str, slot)), *command]
        out, err = tempfile.TemporaryFile("w+"), tempfile.TemporaryFile("w+")
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        self.active.append((run, process, out, err, folder, slot, time.monotonic()))

    def finish(self, entry):
        run, process, out, err, folder, slot, began = entry
        self.active.remove(entry)
        self.slots.append(slot)
        out.seek(0)
        err.seek(0)
        text, complaint = out.read(), err.read().strip().splitlines()[-1:]
        took = time.monotonic() - began
        with folder:
            if process.returncode not in (0, 1) or not text:
                self.failed += 1
                print(f"{self.name_of(run)}: exit {process.returncode} {' '.join(complaint)}", file=sys.stderr, flush=True)
                return
            words = self.take(run, text, took)
        self.done += 1
        print(f"{time.monotonic() - self.began:6.0f} s  {len(self.waiting)} wait  {self.name_of(run)}: {words} in {took:.1f} s",
              file=sys.stderr, flush=True)

    def start_what_is_ready(self):
        while self.slots:
            run = next((run for run in self.waiting if self.is_ready(run)), None)
            if run is None:
                return
            self.waiting.remove(run)
            self.start(run)

    def make_all(self):
        total = sum(map(self.likely_seconds, self.waiting)) / self.jobs
        print(f"{len(self.waiting)} runs, at most about {total / 60:.0f} min", file=sys.stderr)
        try:
            while self.active or any(self.is_ready(run) for run in self.waiting):
                self.start_what_is_ready()
                time.sleep(0.05)
                if self.stopped:
                    raise KeyboardInterrupt
                for entry in list(self.active):
                    run, process, began = entry[0], entry[1], entry[-1]
                    if process.poll() is not None:
                        self.finish(entry)
                    elif time.monotonic() > min(self.deadline, began + 4.0 * self.likely_seconds(run) + 60.0):
                        process.kill()
        finally:
            for entry in self.active:
                entry[1].kill()
                entry[1].wait()
        print(f"{self.done} runs made, {self.failed} failed, {len(self.waiting)} still wait", file=sys.stderr)
        return self.failed == 0 and not self.waiting


def stamp(jobs, place):
    return dict(jobs=jobs, date=str(datetime.date.today()), **place)


# ---- printing ----


def number(value, form):
    return "-" if value is None else form.format(value)


def words(known):
    """For argparse: a list of known words, separated by commas."""
    def split(text):
        chosen = text.split(",")
        for word in chosen:
            if word not in known:
                raise argparse.ArgumentTypeError(f"unknown: {word}; known: {', '.join(known)}")
        return chosen
    return split


def print_places(records):
    places = {}
    for record in records:
        place = tuple(record[field] for field in ("date", "cpu", "cores", "jobs", "commit"))
        places[place] = places.get(place, 0) + 1
    for (date, cpu, cores, jobs, commit), count in sorted(places.items()):
        print(f"- {count} runs: {date}, {cpu}, {cores} cores, {jobs} at once, commit {commit}")
