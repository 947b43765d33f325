#!/usr/bin/env python3
"""How long `stowage inspect` takes to read large model files, and what memory of its own.

    bench/readers.py [--stowage build/release/stowage] [--external ../shared/external] [--work build] [--runs 5]

Files: the HLO and ONNX files in the folders hlo/ and onnx/ of --external (those of 100 kB and more; skipped with a line where the folder
is not there), and an ONNX model of 1 GB of weights, which is written into --work the first time. Columns:

    wall s    the shortest and the median run, of the whole program, with the file in the page cache (one run comes before)
    own MB    the largest RssAnon that /proc/PID/status showed, asked every half millisecond: memory that is no page of a file
    peak MB   the largest resident set (ru_maxrss), which counts pages of mapped files and of the program too; never below about 16, since
              the process begins as a copy of this one

Exits with 1 if a time or memory that was asked for is not reached: hlo_llama31_8b_bf16_1x8 in 0.5 s; the 1 GB model in 0.2 s and 100 MB of
its own.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

from tables import ROOT

LAYERS, SIDE = 64, 2048  # 64 products with weights of 2048 x 2048 float32: 1.07 GB
SMALLEST = 100_000
ASKED = {"hlo_llama31_8b_bf16_1x8.hlo.gz": (0.5, None), "weights_1gb.onnx": (0.2, 100e6)}


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def head(number, length):
    return varint(number << 3 | 2) + varint(length)


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return head(number, len(value)) + value


def write_model(path):
    """Product after product; every weight stands in the file in full."""
    weight_bytes = 4 * SIDE * SIDE
    value = lambda name: field(1, name) + field(2, field(1, field(1, 1) + field(2, field(1, field(2, "batch")) + field(1, field(1, SIDE)))))
    nodes = b"".join(field(1, field(1, f"x{k}") + field(1, f"w{k}") + field(2, f"x{k + 1}") + field(3, f"product{k}") + field(4, "MatMul"))
                     for k in range(LAYERS))
    around = field(11, value("x0")) + field(12, value(f"x{LAYERS}"))
    tensors = [field(1, SIDE) + field(1, SIDE) + field(2, 1) + field(8, f"w{k}") + head(9, weight_bytes) for k in range(LAYERS)]
    heads = [head(5, len(tensor) + weight_bytes) + tensor for tensor in tensors]
    length = len(nodes) + len(around) + sum(len(one) + weight_bytes for one in heads)
    content = os.urandom(1 << 20) * (weight_bytes >> 20)
    unfinished = path.with_suffix(".part")
    with open(unfinished, "wb") as file:
        file.write(field(1, 8) + field(2, "bench") + head(7, length) + nodes)
        for one in heads:
            file.write(one)
            file.write(content)
        file.write(around + field(8, field(2, 17)))
    unfinished.rename(path)


def anonymous_bytes(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            for line in file:
                if line.startswith("RssAnon:"):
                    return 1024 * int(line.split()[1])
    except OSError:
        pass
    return 0


def run(command):
    """Seconds, and the bytes of the largest resident set; nothing looks on meanwhile."""
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    error = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    took = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise RuntimeError(error.decode(errors="replace").strip())
    return took, 1024 * usage.ru_maxrss


def own_memory(command):
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    most = 0
    while process.poll() is None:
        most = max(most, anonymous_bytes(process.pid))
        time.sleep(0.0005)
    return most


def find_files(options):
    for folder in ("hlo", "onnx"):
        path = options.external / folder
        if not path.is_dir():
            print(f"skipped: {folder}: there is no folder {path}; --external names another")
            continue
        yield from sorted(file for file in path.iterdir() if file.stat().st_size >= SMALLEST or file.name in ASKED)
    model = options.work / "weights_1gb.onnx"
    try:
        if not model.exists():
            options.work.mkdir(parents=True, exist_ok=True)
            write_model(model)
        yield model
    except OSError as fault:
        print(f"skipped: weights_1gb.onnx: {fault}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stowage", default=str(ROOT / "build" / "release" / "stowage"))
    parser.add_argument("--external", type=pathlib.Path, default=ROOT.parent / "shared" / "external")
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    faults = []
    print(f"{'file':<45}{'file MB':>9}{'shortest s':>12}{'median s':>10}{'own MB':>8}{'peak MB':>9}", flush=True)
    for path in find_files(options):
        command = [options.stowage, "inspect", str(path)]
        try:
            run(command)  # the file into the page cache
            times, peaks = zip(*(run(command) for _ in range(options.runs)))
            own = max(own_memory(command) for _ in range(3))
        except RuntimeError as fault:
            faults.append(f"{path.name}: {fault}")
            continue
        print(f"{path.name:<45}{path.stat().st_size / 1e6:>9.2f}{min(times):>12.3f}{statistics.median(times):>10.3f}{own / 1e6:>8.1f}"
              f"{max(peaks) / 1e6:>9.1f}", flush=True)
        seconds, memory = ASKED.get(path.name, (None, None))
        if seconds is not None and min(times) > seconds:
            faults.append(f"{path.name}: {min(times):.3f} s, {seconds} s are asked for")
        if memory is not None and own > memory:
            faults.append(f"{path.name}: {own / 1e6:.1f} MB of its own, {memory / 1e6:.0f} MB are asked for")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
