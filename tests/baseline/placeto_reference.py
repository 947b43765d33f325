#!/usr/bin/env python3
"""The network of Placeto once more, in PyTorch and with dense matrices for edges and sets, as an oracle for the C one.

Needs PyTorch 1.13 or later (a CPU build will do). Writes data/placeto-<name>.stw beside this script: a small graph, random
parameters, every intermediate of one visit by name, the loss of an episode with all gradients, and the parameters after ten
updates. test_placeto_network.c compares. Run it again only when the network changes:

    python3 tests/baseline/placeto_reference.py
"""
import pathlib
import sys

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "policy"))
from reference import write_file  # noqa: E402

CASES = {"sum": dict(nodes=9, devices=3, rounds=3, width=3, mean=0, seed=1), "mean": dict(nodes=12, devices=2, rounds=2, width=0, mean=1, seed=2)}
LOOK = 4  # the node whose visit is compared tensor by tensor
RATE, CLIP, UPDATES, BONUS = 1e-3, 1.25, 10, 0.1
WAYS, POOLS = ("top_down", "bottom_up"), ("above", "below", "beside")


def shapes_of(columns, width, devices):
    sizes = {}

    def linear(name, inputs, outputs):
        sizes[name + ".weight"] = (outputs, inputs)
        sizes[name + ".bias"] = (1, outputs)

    for i in range(3):
        linear(f"own.{i}", width if i else columns, width)
    for names, size in ((WAYS, width), (POOLS, 2 * width)):
        for name in names:
            for part in ("f.0", "f.1", "g.0", "g.1"):
                linear(f"{name}.{part}", size, size)
    for i, (inputs, outputs) in enumerate(((8 * width, 16 * width), (16 * width, 8 * width), (8 * width, devices))):
        linear(f"policy.{i}", inputs, outputs)
    return sizes


class Net:
    def __init__(self, case, edge, time, size, parameters):
        self.case, self.edge, self.time, self.size, self.p = case, edge, time, size, parameters
        n = case["nodes"]
        step = edge + torch.eye(n, dtype=edge.dtype)
        reach = torch.matrix_power(step, n) > 0  # [u, v]: a path leads from u to v
        self.leads = (reach & ~torch.eye(n, dtype=torch.bool)).double()

    def layer(self, name, x):
        return x @ self.p[name + ".weight"].T + self.p[name + ".bias"]

    def twice(self, name, x):
        return torch.relu(self.layer(name + ".1", torch.relu(self.layer(name + ".0", x))))

    def columns(self, device, node):
        n, d = self.case["nodes"], self.case["devices"]
        number = torch.arange(n)
        known = [self.time[number, device], self.size, (number == node).double(), (number < node).double()]
        return torch.cat([torch.stack(known, dim=1), torch.nn.functional.one_hot(device, d).double()], dim=1)

    def forward(self, device, node, look=None):
        look = {} if look is None else look
        look["x"] = x = self.columns(device, node)
        look["hidden.0"] = first = torch.relu(self.layer("own.0", x))
        look["hidden.1"] = second = torch.relu(self.layer("own.1", first))
        look["own"] = own = self.layer("own.2", second)
        ends = []
        for name, gathers in zip(WAYS, (self.edge.T, self.edge)):
            some, y = (gathers.sum(dim=1, keepdim=True) > 0).double(), own
            for r in range(self.case["rounds"]):
                y = own + some * self.twice(name + ".g", gathers @ self.twice(name + ".f", y))
                look[f"{name}.{r}"] = y
            ends.append(y)
        look["e"] = e = torch.cat(ends, dim=1)
        above, below = self.leads[:, node], self.leads[node]
        beside = ((above + below) == 0).double()
        beside[node] = 0.0
        parts = []
        for name, mask in zip(POOLS, (above, below, beside)):
            total = mask[None] @ self.twice(name + ".f", e)
            if self.case["mean"]:
                total = total / mask.sum().clamp(min=1)
            parts.append(self.twice(name + ".g", total))
        look["joined"] = joined = torch.cat(parts + [e[node:node + 1]], dim=1)
        look["policy.0"] = first = torch.relu(self.layer("policy.0", joined))
        look["policy.1"] = second = torch.relu(self.layer("policy.1", first))
        look["logp"] = torch.log_softmax(self.layer("policy.2", second), dim=1)
        return look["logp"][0]

    def loss(self, device, choice, weight):
        """Of an episode: every node is visited once, and goes where its choice says."""
        device, total = device.clone(), 0.0
        for node in range(self.case["nodes"]):
            logp = self.forward(device, node)
            total = total - weight[node] * logp[choice[node]] + BONUS * (logp.exp() * logp).sum()
            device[node] = choice[node]
        return total


def write(name, case):
    torch.manual_seed(case["seed"])
    n, d = case["nodes"], case["devices"]
    columns = 4 + d
    width = case["width"] or columns
    edge = torch.triu((torch.rand(n, n) < 0.25), diagonal=1).double()
    edge[:, 3] = edge[3] = 0  # one node stands alone
    time, size = torch.rand(n, d, dtype=torch.double), torch.rand(n, dtype=torch.double)
    parameters = {}
    for key, shape in shapes_of(columns, width, d).items():
        value = (torch.rand(shape, dtype=torch.double) * 2 - 1) / shape[1] ** 0.5 + (0.05 if key.endswith("bias") else 0.0)
        parameters[key] = value.float().double().requires_grad_()  # so that both backends begin with the same
    net = Net(case, edge, time, size, parameters)
    device, choice = torch.randint(d, (n,)), torch.randint(d, (n,))
    weight = torch.randn(n, dtype=torch.double)
    tensors = {"input/edge": edge, "input/time": time, "input/bytes": size[None], "case/device": device[None].int(),
               "case/choice": choice[None].int(), "case/weight": weight[None]}
    tensors.update({"parameter/" + key: value.detach().float() for key, value in parameters.items()})
    look = {}
    net.forward(device, LOOK, look)
    tensors.update({"look/" + key: value.detach() for key, value in look.items()})
    optimizer = torch.optim.Adam(parameters.values(), lr=RATE)
    norms = []
    for update in range(UPDATES):
        optimizer.zero_grad()
        loss = net.loss(device, choice, weight)
        loss.backward()
        norm = torch.sqrt(sum((p.grad ** 2).sum() for p in parameters.values()))
        if update == 0:
            tensors["loss"] = loss.detach().reshape(1, 1)
            tensors.update({"gradient/" + key: value.grad.clone() for key, value in parameters.items()})
        for p in parameters.values():
            p.grad *= min(1.0, CLIP / norm.item())
        optimizer.step()
        norms.append(norm.item())
    tensors["norms"] = torch.tensor([norms], dtype=torch.double)
    tensors.update({"after/" + key: value.detach() for key, value in parameters.items()})
    (HERE / "data").mkdir(exist_ok=True)
    write_file(HERE / "data" / f"placeto-{name}.stw", {**{k: v for k, v in case.items() if k != "seed"}, "look": LOOK}, tensors)
    print(name, "loss", loss.item(), "norms", norms[:2])


for name, case in CASES.items():
    write(name, case)
