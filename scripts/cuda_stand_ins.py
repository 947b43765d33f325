#!/usr/bin/env python3
"""Lets PyTorch's wheel be imported without the CUDA libraries, which are 2 GB that a test on the CPU never calls.

    cuda_stand_ins.py SITE_PACKAGES

The registry has PyTorch for x86-64 Linux with CUDA only, and its libraries name those of CUDA as theirs. For every such library that is
absent, this writes an empty one of that name beside them, with the functions that PyTorch's own want to find at start. Each ends the
process when it is called. Nothing is done where CUDA's libraries are there.
"""
import collections
import pathlib
import re
import subprocess
import sys
import tempfile


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def needed_by(library):
    """The libraries that it names, and for each version of a symbol the library that is to have it."""
    names, versions, file = [], {}, None
    for line in lines("readelf", "--wide", "--dynamic", "--version-info", library):
        if match := re.search(r"\(NEEDED\).*\[(.*)\]", line):
            names.append(match[1])
        elif match := re.search(r"Version: \d+  File: (\S+)  Cnt:", line):
            file = match[1]
        elif (match := re.search(r"Name: (\S+)  Flags:", line)) and file:
            versions[match[1]] = file
    return names, versions


def symbols(library, which):
    """(name, version or "") of its dynamic symbols."""
    for line in lines("nm", "--dynamic", which, library):
        name, _, version = line.split()[-1].partition("@")
        yield name, version.lstrip("@")


def write(path, functions):
    """functions: version or "" -> names."""
    with tempfile.TemporaryDirectory() as folder:
        source, script = pathlib.Path(folder, "stand_in.c"), pathlib.Path(folder, "versions")
        names = sorted({name for group in functions.values() for name in group})
        source.write_text("void abort(void);\n" + "".join(f"void {name}(void) {{ abort(); }}\n" for name in names))
        script.write_text("".join(f"{version} {{ {''.join(n + '; ' for n in sorted(group))}}};\n" for version, group in functions.items() if version))
        versions = [f"-Wl,--version-script={script}"] if any(functions) else []
        subprocess.run(["cc", "-shared", "-fPIC", "-w", "-fno-builtin", source, f"-Wl,-soname,{path.name}", *versions, "-o", path], check=True)


def main(site):
    folder = pathlib.Path(site, "torch", "lib")
    there = {path.name for path in [*folder.glob("*.so*"), *pathlib.Path(site, "nvidia").glob("**/*.so*")]}
    system = re.compile(r"lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s|cuda)\.so|ld-linux")
    libraries = sorted([*folder.glob("*.so*"), *pathlib.Path(site, "torch").glob("*.so")])
    defined = {name for library in libraries for name, _ in symbols(library, "--defined-only")}
    absent = collections.defaultdict(lambda: collections.defaultdict(set))
    unversioned = set()
    for library in libraries:
        names, versions = needed_by(library)
        missing = {name for name in names if name not in there and not system.match(name)}
        for name in missing:
            absent[name]
        for name, version in symbols(library, "--undefined-only") if missing else ():
            if versions.get(version) in missing:
                absent[versions[version]][version].add(name)
            elif not version and re.match(r"(cu|nccl|nvshmem|nvrtc)", name) and name not in defined:
                unversioned.add(name)
    for name, functions in absent.items():
        if unversioned and not any(functions):  # any library without versions will do
            functions[""], unversioned = unversioned, set()
        write(folder / name, functions)


if __name__ == "__main__":
    main(*sys.argv[1:])
