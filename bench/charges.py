#!/usr/bin/env python3
"""What a dependency between two devices takes from the devices themselves, measured on one GPU cut into two groups of SMs.

    python3 bench/charges.py [--store charges.json]            (PyTorch with CUDA, cuda-bindings, a Hopper GPU or newer)

Both groups run a row of kernels, captured into one CUDA graph, so that nothing but the GPU's own work is timed. The group at hand
has the long kernels and is what the step waits for; the other runs ahead, or follows at its leisure. Then

    send       (row whose every kernel the other group waits for - row that nobody waits for) / kernels
    receive    (row whose every kernel waits for one of the other's, long done - row that waits for none) / kernels
    copy       the same with a copy of the value before each kernel, on the receiver's stream
    latency    (kernels that take turns between the groups - the same kernels in one row) / kernels

Medians over repetitions; every row beside its own reference, in turn. Microseconds.
"""
import argparse
import json
import statistics
import sys

import torch
from cuda.bindings import driver

KERNELS = 200
LONG_CYCLES, SHORT_CYCLES = 20000, 2000  # about 10 us and 1 us


def call(result):
    if int(result[0]) != 0:
        raise RuntimeError(str(result[0]))
    return result[1] if len(result) == 2 else result[1:]


def groups_of_sms(count):
    """A stream for each of `count` groups of SMs; what keeps them alive is the second value."""
    device = call(driver.cuDeviceGet(0))
    whole = call(driver.cuDeviceGetDevResource(device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
    parts, _, _ = call(driver.cuDevSmResourceSplitByCount(count, whole, 0, whole.sm.smCount // count // 8 * 8))
    streams, contexts = [], []
    for part in parts[:count]:
        flags = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
        context = call(driver.cuGreenCtxCreate(call(driver.cuDevResourceGenerateDesc([part], 1)), device, flags))
        raw = call(driver.cuGreenCtxStreamCreate(context, driver.CUstream_flags.CU_STREAM_NON_BLOCKING, 0))
        streams.append(torch.cuda.ExternalStream(int(raw)))
        contexts.append(context)
    return streams, contexts


def capture(streams, work):
    """A CUDA graph of what `work` puts on the two streams."""
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=streams[0]):
        wait(streams[1], streams[0])
        work()
        wait(streams[0], streams[1])
    return graph


def wait(later, first):
    event = torch.cuda.Event()
    event.record(first)
    later.wait_event(event)


def run_kernel(stream, cycles):
    with torch.cuda.stream(stream):
        torch.cuda._sleep(cycles)


def rows(at_hand, other, cycles, waits_for=None, copy=None):
    """A kernel of each group, KERNELS times. waits_for: which of them the other one waits for."""
    for _ in range(KERNELS):
        if waits_for is other:
            run_kernel(other, cycles[1])
            wait(at_hand, other)
        if copy is not None:
            with torch.cuda.stream(at_hand):
                copy[1].copy_(copy[0])
        run_kernel(at_hand, cycles[0])
        if waits_for is at_hand:
            wait(other, at_hand)
        if waits_for is not other:
            run_kernel(other, cycles[1])


def take_turns(streams, together):
    for k in range(KERNELS):
        stream = streams[0] if together else streams[k % 2]
        if not together and k > 0:
            wait(stream, streams[(k + 1) % 2])
        run_kernel(stream, SHORT_CYCLES)


def replay_us(graph):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    begin.record()
    graph.replay()
    end.record()
    end.synchronize()
    return 1e3 * begin.elapsed_time(end)


def difference(graph, reference, repeats):
    """Microseconds per kernel by which one takes longer than the other, in turn."""
    for one in (graph, reference):
        replay_us(one)
    each = [(replay_us(graph) - replay_us(reference)) / KERNELS for _ in range(repeats)]
    cut = statistics.quantiles(each, n=4)
    return {"us": statistics.median(each), "quartiles": [cut[0], cut[2]]}


def measure(repeats):
    streams, contexts = groups_of_sms(2)
    first, second = streams
    cycles = (LONG_CYCLES, SHORT_CYCLES)
    alone = capture(streams, lambda: rows(first, second, cycles))
    found = {
        "send": difference(capture(streams, lambda: rows(first, second, cycles, waits_for=first)), alone, repeats),
        "receive": difference(capture(streams, lambda: rows(first, second, cycles, waits_for=second)), alone, repeats),
        "latency": difference(capture(streams, lambda: take_turns(streams, False)), capture(streams, lambda: take_turns(streams, True)), repeats),
    }
    for size in (256, 65536, 1 << 20, 1 << 24):
        value = torch.zeros(size, dtype=torch.uint8, device="cuda")
        pair = (value, torch.empty_like(value))
        graph = capture(streams, lambda: rows(first, second, cycles, waits_for=second, copy=pair))
        found[f"receive and copy {size} bytes"] = difference(graph, alone, repeats)
    return found, contexts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=31)
    parser.add_argument("--store", help="file for the results, JSON")
    options = parser.parse_args()
    torch.zeros(1, device="cuda")
    found, _ = measure(options.repeats)
    for name, value in found.items():
        print(f"{name:28} {value['us']:7.2f} us   (quartiles {value['quartiles'][0]:.2f} to {value['quartiles'][1]:.2f})")
    if options.store:
        record = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "kernels": KERNELS, "found": found}
        with open(options.store, "w", encoding="utf-8") as file:
            json.dump(record, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
