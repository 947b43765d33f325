#!/usr/bin/env python3
"""The network of bench_nn in PyTorch, for comparison: the same graph, layers and numbers of rows, and the same lines of output.

    bench/nn_torch.py [--threads N] [--seconds S] [--bench build/release/bench/bench_nn]

With --bench it runs that program before and after itself and prints how many times faster it is. Absolute times are for
orientation; on a busy machine only the ratios of processor time say something.
"""
import argparse
import math
import os
import re
import subprocess
import time
import warnings

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # waiting threads would take cores from others
import torch
import torch.nn.functional as F

warnings.simplefilter("ignore")  # scatter_reduce calls itself new
SAGES, ATTENTIONS, WIDTH, HEADS, INNER, SEGMENT = 3, 2, 128, 8, 512, 256


def random_graph(nodes):
    """Every node reads one to three of the fifty before it."""
    state, readers, sources = 1, [], []

    def draw():
        nonlocal state
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        return state >> 33

    for row in range(nodes):
        reach = min(row, 50)
        for _ in range(1 + draw() % 3 if reach else 0):
            readers.append(row)
            sources.append(row - 1 - draw() % reach)
    return torch.tensor(readers), torch.tensor(sources)


def neighbours(rows, nodes):
    """For each row its neighbours, filled up with `nodes`, the row of zeros behind the last: (nodes, most)."""
    lists = [[] for _ in range(nodes)]
    for row, source in zip(*(column.tolist() for column in rows)):
        lists[row].append(source)
    most = max(map(len, lists))
    return torch.tensor([entry + [nodes] * (most - len(entry)) for entry in lists])


class Sage(torch.nn.Module):
    def __init__(self, gather):
        super().__init__()
        self.pool_in, self.pool_out = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH)
        self.own = torch.nn.Linear(WIDTH, WIDTH)
        self.from_in, self.from_out = (torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.gather = gather

    def forward(self, x, producers, readers):
        into = self.gather(F.relu(self.pool_in(x)), producers)
        out = self.gather(F.relu(self.pool_out(x)), readers)
        return F.relu(self.own(x) + self.from_in(into) + self.from_out(out))


def gather_padded(x, lists):  # relu has no negative numbers, so that a row of zeros changes no maximum
    return F.pad(x, (0, 0, 0, 1))[lists].amax(1)


def gather_scattered(x, pairs):
    rows, sources = pairs
    index = rows[:, None].expand(-1, WIDTH)
    return torch.zeros_like(x).scatter_reduce(0, index, x[sources], "amax", include_self=True)


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up, self.down = torch.nn.Linear(WIDTH, INNER, bias=False), torch.nn.Linear(INNER, WIDTH, bias=False)
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)

    def segments(self, x):  # (rows, WIDTH) -> (segments, HEADS, SEGMENT, WIDTH / HEADS)
        return x.view(-1, SEGMENT, HEADS, WIDTH // HEADS).transpose(1, 2)

    def seen(self, x, layer):
        """Keys or values of each segment and, as a memory that no gradient passes, of the one before."""
        own = self.segments(layer(x))
        memory = self.segments(layer(x.detach())) if torch.is_grad_enabled() else own
        return torch.cat([memory.roll(1, 0), own], 2)

    def forward(self, x, hidden):
        query, key, value = self.segments(self.query(x)), self.seen(x, self.key), self.seen(x, self.value)
        score = torch.matmul(query / math.sqrt(WIDTH // HEADS), key.transpose(2, 3)) + hidden
        taken = torch.matmul(score.softmax(-1), value).transpose(1, 2).reshape(x.shape)
        a = self.norm1(x + self.output(taken))
        return self.norm2(a + self.down(F.relu(self.up(a))))


class Network(torch.nn.Module):
    def __init__(self, nodes, gather):
        super().__init__()
        readers, sources = random_graph(nodes)
        self.producers, self.readers = (readers, sources), (sources, readers)
        if gather is gather_padded:
            self.producers, self.readers = neighbours(self.producers, nodes), neighbours(self.readers, nodes)
        self.sages = torch.nn.ModuleList(Sage(gather) for _ in range(SAGES))
        self.attentions = torch.nn.ModuleList(Attention() for _ in range(ATTENTIONS))
        self.padding = -nodes % SEGMENT
        segments = (nodes + self.padding) // SEGMENT
        self.hidden = torch.zeros(segments, 1, 1, 2 * SEGMENT)  # -inf for keys that are not there
        self.hidden[0, :, :, :SEGMENT] = -math.inf
        if self.padding:
            self.hidden[-1, :, :, -self.padding :] = -math.inf

    def forward(self, x):
        for sage in self.sages:
            x = sage(x, self.producers, self.readers)
        nodes = x.shape[0]
        x = F.pad(x, (0, 0, 0, self.padding))
        for attention in self.attentions:
            x = attention(x, self.hidden)
        return x[:nodes]


def best_times(run, seconds):
    """Wall clock and processor time in seconds."""
    run()
    wall, processor, begin = math.inf, math.inf, time.perf_counter()
    while time.perf_counter() - begin < seconds or math.isinf(wall):
        start = time.perf_counter(), time.process_time()
        run()
        wall, processor = min(wall, time.perf_counter() - start[0]), min(processor, time.process_time() - start[1])
    return wall, processor


def measure(nodes, gather, seconds):
    torch.manual_seed(1)
    net, x = Network(nodes, gather), torch.randn(nodes, WIDTH)
    adam = torch.optim.Adam(net.parameters(), lr=1e-4)

    def forward():
        with torch.no_grad():
            net(x)

    def train():
        adam.zero_grad()
        net(x).square().sum().div(2).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        adam.step()

    return {"forward": best_times(forward, seconds), "forward+backward+Adam": best_times(train, seconds)}


def lines_of(program, arguments):
    text = subprocess.run([program, "--network", *arguments], check=True, capture_output=True, text=True).stdout
    print(text, end="")
    found = re.findall(r"(\d+) nodes +(\S+) +([\d.]+) s +processor +([\d.]+) s", text)
    return {(int(nodes), what): (float(wall), float(processor)) for nodes, what, wall, processor in found}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--bench")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    arguments = ["--threads", str(options.threads), "--seconds", str(options.seconds)]
    ours = lines_of(options.bench, arguments) if options.bench else {}
    times = {}
    print(f"PyTorch {torch.__version__}, {options.threads} threads")
    for nodes in (34855, 1414):
        ways = [measure(nodes, gather, options.seconds) for gather in (gather_padded, gather_scattered)]
        for what in ways[0]:
            wall, processor = times[nodes, what] = tuple(min(way[what][i] for way in ways) for i in range(2))
            print(f"{nodes:6d} nodes  {what:21} {wall:8.4f} s  processor {processor:8.4f} s")
    if options.bench:
        again = lines_of(options.bench, arguments)
        for key in times:
            wall, processor = (times[key][i] / min(ours[key][i], again[key][i]) for i in range(2))
            print(f"{key[0]:6d} nodes  {key[1]:21} {wall:5.2f} times as fast as PyTorch, by processor time {processor:5.2f}")


if __name__ == "__main__":
    main()
