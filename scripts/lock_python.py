#!/usr/bin/env python3
"""Writes tests/requirements.lock: the versions that tests/requirements.in leads to, each with the hashes of its wheels.

    scripts/lock_python.py            with the pip and the package index of this machine

The lock is installed without a look at dependencies (scripts/venv.sh), so it names all that is needed: for x86-64 Linux and the
Pythons of Debian 12 and Ubuntu 24.04. It leaves out what only a GPU needs (scripts/cuda_stand_ins.py).
"""
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile

TESTS = pathlib.Path(__file__).resolve().parent.parent / "tests"
PYTHONS = ("3.11", "3.12")
FOR_A_GPU = re.compile(r"triton|cuda-.*|nvidia-(?!cuda-(runtime|cupti)$).*")


def would_install(python, *arguments):
    """(name, version) -> sha256 of what pip would install."""
    with tempfile.NamedTemporaryFile() as report, tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", report.name]
        subprocess.run([*command, "--python-version", python, "--only-binary", ":all:", "--target", folder, *arguments], check=True)
        install = json.load(report)["install"]
    return {(re.sub(r"[-_.]+", "-", one["metadata"]["name"]).lower(), one["metadata"]["version"]):
            one["download_info"]["archive_info"]["hashes"]["sha256"] for one in install}  # fmt: skip


def main():
    wanted = [one for one in would_install(PYTHONS[0], "--requirement", TESTS / "requirements.in") if not FOR_A_GPU.fullmatch(one[0])]
    hashes = collections.defaultdict(set)
    for python in PYTHONS:
        for one, sha256 in would_install(python, "--no-deps", *(f"{name}=={version}" for name, version in wanted)).items():
            hashes[one].add(sha256)
    lines = [f"{name}=={version}" + "".join(f" \\\n    --hash=sha256:{sha256}" for sha256 in sorted(found)) + "\n"
             for (name, version), found in sorted(hashes.items())]  # fmt: skip
    (TESTS / "requirements.lock").write_text("# Made by scripts/lock_python.py; do not edit.\n" + "".join(lines))


if __name__ == "__main__":
    main()
