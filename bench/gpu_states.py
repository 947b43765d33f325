#!/usr/bin/env python3
"""What a GPU does between the kernels of a plan: why plans are timed in a row, by turns, and with no other process on the GPU.

    python3 bench/gpu_states.py [--models towers,lstm] [--devices cuda:0/sm:64,cuda:0/sm:64] [--visits 3]

For each model METIS's plan is placed and run:
steps    microseconds of a step in a row and of one that is waited for, in a process that has not used the profiler yet; then while another
         process uses the GPU, and when it has gone, for each of its visits; and when the plan is placed anew.
kernels  by PyTorch's profiler, which adds to every kernel and therefore comes last: the time between two kernels of a device that wait for
         nothing (the lower quartile of all), in a row; how long after the first device each of the others begins, where the GPU is idle before.

A process for each model, as one that has used the profiler is not what it was.
"""
import argparse
import statistics
import subprocess
import sys

VISITOR = "import torch; a = torch.randn(512, 512, device='cuda'); (a @ a).sum().item(); print('here', flush=True); input()"


def median_us(times):
    return 1e6 * statistics.median(times)


def waited_for(step, count):
    """Microseconds of steps that begin when the one before has ended."""
    import torch

    times = []
    for _ in range(count):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        begin.record()
        step.runner.run()
        end.record()
        end.synchronize()
        times.append(1e-3 * begin.elapsed_time(end))
    return median_us(times)


def kernels_by_stream(runs):
    """Of each stream: (begin, duration) of its kernels, microseconds."""
    import torch
    from stowage.torch.running._recorded import ON_DEVICE, events_of
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        for run in runs:
            run()
        torch.cuda.synchronize()
    streams = {}
    for e in events_of(recorded):
        if e.get("cat") in ON_DEVICE:
            streams.setdefault((e["args"].get("context"), e["args"].get("stream")), []).append((e["ts"], e["dur"]))
    return sorted((sorted(own) for own in streams.values()), key=lambda own: own[0])


def print_kernels(model, step, devices):
    step.runner.times(3)
    alone = [own for own in kernels_by_stream([step.runner.run]) if len(own) > 10]
    lag = ", ".join(f"{own[0][0] - alone[0][0][0]:.0f}" for own in alone[1:])
    print(f"{model}: an idle GPU begins with the other devices {lag} us after the first; kernels {', '.join(str(len(own)) for own in alone)}")
    for k, own in enumerate(own for own in kernels_by_stream([step.runner.run] * 2) if len(own) > 10):
        own = own[len(own) // 2 :]
        gaps = sorted(b - (a + us) for (a, us), (b, _) in zip(own, own[1:]))
        print(f"{model}: between two kernels of stream {k + 1} of {len(devices)}, in a row: {gaps[len(gaps) // 4]:.2f} us at the lower quartile, "
              f"{statistics.median(gaps):.2f} in the median, {statistics.fmean(gaps):.2f} in the mean")  # fmt: skip


def show(model, devices, visits):
    import torch

    import stowage
    import stowage.torch
    from run import made

    torch.backends.cuda.matmul.allow_tf32 = True
    module, args = made(model, True)
    traced = stowage.torch.trace(module, *args)
    plan = stowage.Simulator(traced, f"h200x{len(devices)}").run("metis")

    def place():
        return stowage.torch.place(module, *args, plan=plan, devices=devices, update="sgd", rate=0.0)

    def say(when):
        step.runner.times(5)
        print(f"{model}, {when}: {median_us(step.runner.times(40)):.0f} us in a row, {waited_for(step, 20):.0f} us waited for", flush=True)

    step = place()
    say("alone")
    for visit in range(visits):
        visitor = subprocess.Popen([sys.executable, "-c", VISITOR], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        visitor.stdout.readline()
        say(f"another process is there ({visit + 1})")
        visitor.communicate("\n")
        say("it has gone")
    step.close()
    for _ in range(2):
        step = place()
        say("placed anew")
    print_kernels(model, step, devices)
    say("behind the profiler")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="towers,lstm")
    parser.add_argument("--devices", default="cuda:0/sm:64,cuda:0/sm:64")
    parser.add_argument("--visits", type=int, default=3)
    options = parser.parse_args()
    models = options.models.split(",")
    if len(models) == 1:
        show(models[0], options.devices.split(","), options.visits)
        return 0
    for model in models:
        subprocess.run([sys.executable, __file__, "--models", model, "--devices", options.devices, "--visits", str(options.visits)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
