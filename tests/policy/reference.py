#!/usr/bin/env python3
"""The policy network once more, in PyTorch, as an oracle for the C one.

Needs PyTorch 1.13 or later (a CPU build will do); nothing else in the project does. Writes data/<name>.stw beside this script for
the names given (steer, device, fusion-steer, fusion-device, go, gdp; without any: all): a small network with random parameters, an input,
every intermediate by name, two losses with all gradients, and the parameters after ten updates. test_reference.c compares. Run it
again only when the network changes:

    python3 tests/policy/reference.py [NAME...]
"""
import math
import pathlib
import struct
import sys

import torch

DATA = pathlib.Path(__file__).resolve().parent / "data"
ROWS, DEVICES, SAMPLES = 23, 3, 4  # with segments of 8: three, the last one short
SIGMA, CLIP, RATE, UPDATES = 0.5, 0.2, 1e-3, 10
KNOBS = 4  # of the head `steer`
SEEDS = {"steer": 3, "device": 2, "fusion-steer": 4, "fusion-device": 5, "go": 6, "gdp": 8}  # with which no loss is a small difference of large numbers

COMMON = dict(feature_version=1, unit_columns=5, operators=7, operator_width=4, width=12, heads=3, inner=16, segment=8, modulation=1)
CONFIGS = {
    "steer": dict(COMMON, identities=ROWS, feedback_columns=2, device_columns=0, pair_columns=4, pair_width=6, sage_layers=1, attention_layers=2,
                  placement=0, schedule=0, classes=0, score_width=0),
    "device": dict(COMMON, identities=0, feedback_columns=0, device_columns=3, pair_columns=0, pair_width=0, sage_layers=2, attention_layers=1,
                   placement=1, schedule=1, classes=4, score_width=6),
}
CONFIGS["fusion-steer"] = dict(CONFIGS["steer"], fusion=1)
CONFIGS["fusion-device"] = dict(CONFIGS["device"], fusion=2, fusion_classes=5)
CONFIGS["go"] = dict(CONFIGS["fusion-device"], drafts=3, device_names=4)
CONFIGS["gdp"] = dict(CONFIGS["device"], modulation=2, attention_layers=2, device_names=4, bare=1)


# ---- the file: docs/formats/policy.md ----

def checksum(content):
    h = 0xCBF29CE484222325
    for byte in content:
        h = (h ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return h ^ h >> 32


def write_file(path, dimensions, tensors):
    kinds = {torch.float32: (0, "f", 4), torch.float64: (1, "d", 8), torch.int32: (2, "i", 4)}

    def name_bytes(name):
        return struct.pack("<H", len(name)) + name.encode()

    def head(data):
        out = b"STWPOLCY" + struct.pack("<II", 1, len(dimensions))
        for name, value in dimensions.items():
            out += name_bytes(name) + struct.pack("<q", value)
        out += struct.pack("<I", len(tensors))
        for name, t in tensors.items():
            number, _, size = kinds[t.dtype]
            out += name_bytes(name) + struct.pack("<Iqqq", number, t.shape[0], t.shape[1], data)
            data = (data + t.numel() * size + 15) // 16 * 16
        return out

    content = head((len(head(0)) + 15) // 16 * 16)
    for t in tensors.values():
        content += b"\0" * (-len(content) % 16)
        content += struct.pack("<%d%s" % (t.numel(), kinds[t.dtype][1]), *t.flatten().tolist())
    content += b"\0" * (-len(content) % 16)
    path.write_bytes(content + struct.pack("<Q", checksum(content)))


# ---- the network ----

def parameter_shapes(c):
    width, pair = c["width"], c["pair_width"] if c["pair_columns"] else 0
    shapes = {}

    def linear(name, inputs, outputs, bias=True):
        shapes[name + ".weight"] = (outputs, inputs)
        if bias:
            shapes[name + ".bias"] = (1, outputs)

    def norm(name):
        shapes[name + ".gain"] = shapes[name + ".bias"] = (1, width)

    def attention(name, inner):
        for part in ("query", "key", "value", "output"):
            linear(f"{name}.{part}", width, width, False)
        norm(name + ".norm1")
        if inner:
            linear(name + ".up", width, inner, False)
            linear(name + ".down", inner, width, False)
            norm(name + ".norm2")

    shapes["operator.table"] = (c["operators"], c["operator_width"])
    linear("input.unit", c["unit_columns"], width)
    linear("input.operator", c["operator_width"], width, False)
    if c["feedback_columns"]:
        linear("input.feedback", c["feedback_columns"], width, False)
    if pair:
        linear("pair.pool", c["pair_columns"], pair)
        linear("input.pair", pair, width, False)
    if c["identities"]:
        shapes["input.identity"] = (c["identities"], width)
    for l in range(c["sage_layers"]):
        for part, bias in (("pool_in", True), ("pool_out", True), ("self", True), ("from_in", False), ("from_out", False)):
            linear(f"sage.{l}.{part}", width, width, bias)
    for l in range(c["attention_layers"]):
        linear(f"modulation.{l}", width, width)
        attention(f"attention.{l}", c["inner"])
    bare = c.get("bare", 0)
    if not bare:
        linear("task.self", width, width)
        linear("task.action", width, width, False)
        norm("task.norm")
        attention("task.block", 0)
        linear("action", KNOBS if c["placement"] == 0 else c["score_width"], width)
    if c.get("drafts", 0) > 1:
        shapes["action.schedule.table"] = (c["classes"], width)
    if c.get("device_names"):
        shapes["head.device.names"] = (c["device_names"], c["score_width"])
    if c["placement"] == 0:
        linear("head.steer", width, KNOBS, False)
        linear("head.steer.own", width, KNOBS, False)
        linear("common.steer", width, 2 * KNOBS)
    else:
        for part, inputs in (("query", width), ("device", c["device_columns"])):
            linear(f"head.{part}.0", inputs, c["score_width"])
            linear(f"head.{part}.1", c["score_width"], c["score_width"])
    if c["schedule"] == 0:
        linear("head.nudge", width, 1, False)
        linear("common.nudge", width, 2)
    elif not bare:
        linear("head.class", width, c["classes"])
    if c.get("fusion") == 1:
        linear("action.fusion", 1, width)
        linear("head.fusion", width, 1, False)
        linear("head.fusion.own", width, 1, False)
        linear("common.fusion", width, 2)
    elif c.get("fusion") == 2:
        shapes["action.fusion.table"] = (c["fusion_classes"], width)
        linear("head.fusion", width, c["fusion_classes"])
    return shapes


class Network:
    def __init__(self, config, generator):
        self.c = config
        self.p = {}
        for name, shape in sorted(parameter_shapes(config).items()):
            value = torch.randn(shape, generator=generator, dtype=torch.float64)
            value *= 1.0 / math.sqrt(shape[1]) if name.endswith(".weight") else 0.3
            if name.endswith(".gain"):
                value += 1.0
            if name == "common.steer.bias":
                value[0, 5] = -8.0  # the last gain is at its lower bound
            self.p[name] = value.float().double().requires_grad_()  # representable in the float of the file

    def linear(self, name, x):
        y = x @ self.p[name + ".weight"].T
        return y + self.p[name + ".bias"] if name + ".bias" in self.p else y

    def norm(self, name, x):
        mean, variance = x.mean(1, keepdim=True), x.var(1, unbiased=False, keepdim=True)
        return (x - mean) / torch.sqrt(variance + 1e-5) * self.p[name + ".gain"] + self.p[name + ".bias"]

    def largest(self, x, lists):
        zero = torch.zeros(x.shape[1], dtype=x.dtype)
        return torch.stack([x[items].max(0).values if items else zero for items in lists])

    def sage(self, name, x, producers, readers):
        into = self.largest(torch.relu(self.linear(name + ".pool_in", x)), producers)
        out = self.largest(torch.relu(self.linear(name + ".pool_out", x)), readers)
        return torch.relu(self.linear(name + ".self", x) + self.linear(name + ".from_in", into) + self.linear(name + ".from_out", out))

    def attend(self, name, x):
        heads, size = self.c["heads"], x.shape[1] // self.c["heads"]
        split = lambda t: t.reshape(t.shape[0], heads, size).transpose(0, 1)
        parts, memory = [], x[:0]
        for begin in range(0, x.shape[0], self.c["segment"]):
            here = x[begin:begin + self.c["segment"]]
            seen = torch.cat([memory, here])
            q = split(self.linear(name + ".query", here))
            k, v = split(self.linear(name + ".key", seen)), split(self.linear(name + ".value", seen))
            weights = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(size), 2)
            parts.append((weights @ v).transpose(0, 1).reshape(here.shape))
            memory = here.detach()  # the segment before is remembered, and not trained through
        return torch.cat(parts)

    def attention(self, name, x, inner):
        a = self.norm(name + ".norm1", x + self.linear(name + ".output", self.attend(name, x)))
        if not inner:
            return a
        return self.norm(name + ".norm2", a + self.linear(name + ".down", torch.relu(self.linear(name + ".up", a))))

    def spread(self, name, raw, sequences):
        """Each dimension to mean 0 and deviation 1 over the rows of a sequence, then times a gain and plus a shift of the graph's."""
        shift, gain = self.linear(name, self.graph).chunk(2, 1)
        z = raw.reshape(sequences, ROWS, -1)
        normal = (z - z.mean(1, keepdim=True)) / torch.sqrt(z.var(1, unbiased=False, keepdim=True) + 1e-8)
        return shift + 0.3 * torch.exp(gain.clamp(-5.0, 3.0)) * normal.reshape(raw.shape)

    def trunk(self, i, look):
        c = self.c
        u = self.linear("input.unit", i["unit"]) + self.linear("input.operator", self.p["operator.table"][i["operator"]])
        if c["feedback_columns"]:
            u = u + self.linear("input.feedback", i["feedback"])
        if c["pair_columns"]:
            pooled = torch.relu(self.linear("pair.pool", i["pair"])).reshape(ROWS, DEVICES, -1)
            u = u + self.linear("input.pair", pooled.max(1).values)
        if c["identities"]:
            u = u + self.p["input.identity"]
        x = self.own = look["input"] = torch.relu(u)
        for l in range(c["sage_layers"]):
            x = look[f"sage.{l}"] = self.sage(f"sage.{l}", x, i["producers"], i["readers"])
        of_rows = x
        graph = self.graph = look["graph"] = x.mean(0, keepdim=True)
        for l in range(c["attention_layers"]):
            gate = 2 * torch.sigmoid(self.linear(f"modulation.{l}", graph if c["modulation"] == 1 else of_rows))
            x = look[f"attention.{l}"] = self.attention(f"attention.{l}", x * gate, c["inner"])
        return x

    def first_task(self, x):
        return self.attention("task.block", self.norm("task.norm", self.linear("task.self", x) + x), 0)

    def next_task(self, before, embedded):
        """For each sample: what the task before knew, and what was decided in it. One sequence `before` is shared by all."""
        hidden = []
        for k in range(SAMPLES):
            rows = slice(k * ROWS, (k + 1) * ROWS)
            h = before[rows] if before.shape[0] > ROWS else before
            mixed = self.linear("task.self", h) + self.linear("task.action", embedded[rows]) + h
            hidden.append(self.attention("task.block", self.norm("task.norm", mixed), 0))
        return torch.cat(hidden)

    def hidden(self, i, look, before):
        """The input of a head. `before`: what the task before knew and its decisions, embedded; None: the first task of all."""
        if before is not None:
            return self.next_task(*before)
        x = self.trunk(i, look)
        return x if self.c.get("bare") else self.first_task(x)

    def fusion(self, i, look, before):
        h = look["fusion.hidden"] = self.hidden(i, look, before)
        if self.c["fusion"] == 1:
            look["fusion.raw"] = self.linear("head.fusion", h) + self.linear("head.fusion.own", self.own)
            out = self.spread("common.fusion", look["fusion.raw"], 1)
        else:
            out = torch.log_softmax(self.linear("head.fusion", h), 1)
        look["fusion.out"] = out
        return h, out

    def placement(self, i, look, before):
        c = self.c
        h = look["placement.hidden"] = self.hidden(i, look, before)
        sequences = h.shape[0] // ROWS
        if c["placement"] == 0:
            look["placement.raw"] = self.linear("head.steer", h) + self.linear("head.steer.own", self.own).repeat(sequences, 1)
            out = self.spread("common.steer", look["placement.raw"], sequences)
        else:
            mlp = lambda name, t: self.linear(name + ".1", torch.relu(self.linear(name + ".0", t)))
            self.devices = mlp("head.device", i["device"])
            if c.get("device_names"):
                self.devices = self.devices + self.p["head.device.names"][:DEVICES]
            out = torch.log_softmax(mlp("head.query", h) @ self.devices.T / math.sqrt(c["score_width"]), 1)
        look["placement.out"] = out
        return h, out

    def schedule(self, i, look, before):
        h = look["schedule.hidden"] = self.hidden(i, look, before)
        if self.c["schedule"] == 0:
            look["schedule.raw"] = self.linear("head.nudge", h)
            out = self.spread("common.nudge", look["schedule.raw"], SAMPLES)
        else:
            out = torch.log_softmax(self.linear("head.class", h), 1)
        look["schedule.out"] = out
        return h, out

    def embedded(self, task, action):
        c = self.c
        if task == "fusion":
            return self.linear("action.fusion", action) if c["fusion"] == 1 else self.p["action.fusion.table"][action[:, 0].long()]
        if task == "schedule":
            return self.p["action.schedule.table"][action[:, 0].long()]
        return self.linear("action", action if c["placement"] == 0 else self.devices[action[:, 0].long()])

    def run(self, i, choose):
        """The outputs by task and draft, in order, and the intermediates by name. choose(name, output): the decisions."""
        look, out, before = {}, {}, None
        tasks = ["fusion"] * bool(self.c.get("fusion")) + ["placement"] + ["schedule"] * (not self.c.get("bare"))
        drafts = max(self.c.get("drafts", 0), 1)
        for draft in range(drafts):
            seen = {}
            for task in tasks:
                name = task if draft == 0 else f"{task}.{draft}"
                h, out[name] = getattr(self, task)(i, seen, before)
                action = choose(name, out[name])
                before = None
                if (draft, task) != (drafts - 1, tasks[-1]):
                    before = (h, self.embedded(task, action))
            look.update({f"draft.{draft}.{n}" if drafts > 1 and n.split(".")[0] in tasks else n: value for n, value in seen.items()})
        return out, look


# ---- the losses ----

def log_density(out, action, categorical):
    if categorical:
        return out.gather(1, action.long())
    z = (action - out) / SIGMA
    return (-0.5 * z * z - math.log(SIGMA) - 0.5 * math.log(2 * math.pi)).sum(1, keepdim=True)


def ppo_part(new, old, advantage):
    ratio = torch.exp(new - old)
    return -torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()


def is_categorical(c, name):
    task = name.split(".")[0]
    return c[task] == (2 if task == "fusion" else 1)


def as_in(case):
    return lambda name, out: case[name + "_action"]


def ppo(net, i, case):
    """The loss (without old log densities: 0) and the log densities by task."""
    out, _ = net.run(i, as_in(case))
    new = {}
    for task, o in out.items():
        every = o if o.shape[0] > ROWS else o.repeat(SAMPLES, 1)
        new[task] = log_density(every, case[task + "_action"], is_categorical(net.c, task))
    advantage = case["advantage"].repeat_interleave(ROWS, 0)
    return sum(ppo_part(n, case[task + "_old"], advantage) for task, n in new.items() if task + "_old" in case), new


# ---- the case ----

def make_input(c, g):
    normal = lambda rows, cols: torch.randn((rows, cols), generator=g, dtype=torch.float64)
    below = lambda bound: int(torch.randint(bound, (1,), generator=g))
    producers = [sorted({below(r) for _ in range(below(4))}) if r else [] for r in range(ROWS)]
    readers = [[r for r in range(ROWS) if u in producers[r]] for u in range(ROWS)]
    return dict(unit=normal(ROWS, c["unit_columns"]), feedback=normal(ROWS, c["feedback_columns"]),
                pair=normal(ROWS * DEVICES, c["pair_columns"]), device=normal(DEVICES, c["device_columns"]),
                operator=torch.randint(c["operators"], (ROWS,), generator=g), producers=producers, readers=readers)


def make_case(net, i, g):
    """Actions, old log densities some of which are far enough to be clipped, advantages, and the weights of a linear loss."""
    c = net.c
    normal = lambda rows, cols: torch.randn((rows, cols), generator=g, dtype=torch.float64)
    rows = SAMPLES * ROWS

    def sample(out, categorical):
        return torch.randint(out.shape[1], (rows, 1), generator=g).double() if categorical else out + SIGMA * normal(*out.shape)

    case = dict(advantage=normal(SAMPLES, 1))
    every = lambda out: out if out.shape[0] > ROWS else out.repeat(SAMPLES, 1)

    def choose(name, out):
        case[name + "_action"] = sample(every(out), is_categorical(c, name))
        return case[name + "_action"]

    with torch.no_grad():
        out, _ = net.run(i, choose)
        _, new = ppo(net, i, case)
    for task, n in new.items():
        case[task + "_old"] = n + 0.15 * normal(rows, 1)
    for task, o in out.items():
        case[task + "_weight"] = normal(*o.shape)
    return case


def lists_as_tensors(name, lists):
    start = [0]
    for items in lists:
        start.append(start[-1] + len(items))
    column = lambda numbers: torch.tensor(numbers, dtype=torch.int32).reshape(-1, 1)
    return {f"input/{name}_start": column(start), f"input/{name}": column([item for items in lists for item in items])}


def gradients(net, loss):
    for value in net.p.values():
        value.grad = None
    loss.backward()
    return {name: value.grad.clone() for name, value in net.p.items()}


def ten_updates(net, i, case):
    optimizer = torch.optim.Adam(net.p.values(), lr=RATE)
    norms = []
    for _ in range(UPDATES):
        optimizer.zero_grad()
        ppo(net, i, case)[0].backward()
        norm = math.sqrt(sum(float((value.grad ** 2).sum()) for value in net.p.values()))
        norms.append(norm)
        for value in net.p.values():
            value.grad *= min(1.0, 1.0 / norm)
        optimizer.step()
    return norms


def main():
    torch.set_num_threads(1)
    DATA.mkdir(exist_ok=True)
    for name in sys.argv[1:] or CONFIGS:
        c = CONFIGS[name]
        g = torch.Generator().manual_seed(SEEDS[name])
        net = Network(c, g)
        i = make_input(c, g)
        case = make_case(net, i, g)
        tensors = {f"parameter/{n}": value.detach().float() for n, value in net.p.items()}
        for part in ("unit", "feedback", "pair", "device"):
            tensors[f"input/{part}"] = i[part]
        tensors["input/operator"] = i["operator"].int().reshape(-1, 1)
        tensors.update(lists_as_tensors("producer", i["producers"]))
        tensors.update(lists_as_tensors("reader", i["readers"]))
        tensors.update({f"case/{n}": value for n, value in case.items()})
        out, look = net.run(i, as_in(case))
        tensors.update({f"look/{n}": value.detach() for n, value in look.items()})
        linear = sum((o * case[task + "_weight"]).sum() for task, o in out.items())
        tensors["loss/linear"] = linear.detach().reshape(1, 1)
        tensors.update({f"linear/{n}": value.float() for n, value in gradients(net, linear).items()})
        loss = ppo(net, i, case)[0]
        tensors["loss/ppo"] = loss.detach().reshape(1, 1)
        tensors.update({f"ppo/{n}": value.float() for n, value in gradients(net, loss).items()})
        tensors["norms"] = torch.tensor(ten_updates(net, i, case), dtype=torch.float64).reshape(1, -1)
        tensors.update({f"after/{n}": value.detach().float() for n, value in net.p.items()})
        path = DATA / f"{name}.stw"
        write_file(path, dict(c, rows=ROWS, devices=DEVICES, samples=SAMPLES), tensors)
        print(path.name, path.stat().st_size, "bytes;", sum(v.numel() for v in net.p.values()), "parameters; norms",
              [round(n, 3) for n in tensors["norms"][0].tolist()])


if __name__ == "__main__":
    main()
