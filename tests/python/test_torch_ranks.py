#!/usr/bin/env python3
"""stowage.torch.place with devices in several processes: results equal those of the module by itself, ranks that differ are refused, and a
rank that fails or is killed ends the step on all.

    STOWAGE_LIBRARY=build/release/libstowage.so build/venv/bin/python3 tests/python/test_torch_ranks.py [names of tests]

Processes are started with torch.distributed.run and run this file too: functions of `Rank`. All devices name the same core, so that the
tests run wherever there is one. What goes from rank to rank does so by both carriers, memory that is shared and gloo.
"""
import copy
import datetime
import json
import os
import signal
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import torch_lacks  # noqa: E402


def lacks():
    """Why these tests cannot run here, or ""."""
    if torch_lacks():
        return torch_lacks()
    import torch.distributed

    gloo = torch.distributed.is_available() and torch.distributed.is_gloo_available()
    return "" if gloo else "this torch has no gloo"


LACKS = lacks()
if not LACKS:
    import torch
    import torch.distributed as dist
    from torch import nn

    import stowage
    import stowage.torch
    from stowage.torch.running import _shared

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}  # sums of float32 in another order, over three steps
RATE = 0.1
CARRIERS = ["gloo"] if LACKS or _shared.lacks() else ["shared", "gloo"]
CORE = min(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 0
LONG = "STOWAGE_LONG" in os.environ
TWO = [f"cpu:{CORE}@0", f"cpu:{CORE}@1"]
THREE = [f"cpu:{CORE}@0", f"cpu:{CORE}@1", f"cpu:{CORE}@1"]


# ---- modules ----

if not LACKS:

    class Recurrent(nn.Module):
        """An LSTM of two layers, step by step: chunks of a result and transposed weights go from rank to rank."""

        def __init__(self, width=8):
            super().__init__()
            self.width = width
            self.cells = nn.ModuleList(nn.Linear(2 * width, 4 * width) for _ in range(2))
            self.out = nn.Linear(width, 5)

        def forward(self, x):
            h = [x.new_zeros(x.shape[1], self.width) for _ in self.cells]
            c, total = list(h), 0
            for t in range(2):
                value = x[t]
                for k, cell in enumerate(self.cells):
                    i, f, g, o = cell(torch.cat([value, h[k]], 1)).chunk(4, 1)
                    c[k] = f.sigmoid() * c[k] + i.sigmoid() * g.tanh()
                    h[k] = value = o.sigmoid() * c[k].tanh()
                total = total + self.out(value).logsumexp(1).mean()
            return total

    class Tied(nn.Module):
        """Attention between an embedding and itself."""

        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(20, 8)
            self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
            self.out = nn.Linear(8, 20, bias=False)
            self.out.weight = self.embedding.weight

        def forward(self, x):
            return nn.functional.cross_entropy(self.out(self.layer(self.embedding(x))).flatten(0, 1), x.flatten())

    class TwoOutputs(nn.Module):
        """One is transposed, one of bools, one no tensor."""

        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 2)

        def forward(self, x):
            return {"a": self.a(x).t().sin(), "b": [self.b(x).tanh() > 0, 3]}

    class Averaged(nn.Module):
        """Writes a buffer twice."""

        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))

        def forward(self, x):
            return self.mean.mul_(0.9).add_(0.1 * x) + 1

    def normed():
        """Batch norm, whose statistics are buffers, and activations in place."""
        return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
                             nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(4 * 16, 5))  # fmt: skip

    MODULES = {
        "recurrent": (Recurrent, lambda: torch.randn(2, 4, 8)),
        "tied": (Tied, lambda: torch.randint(0, 20, (2, 5))),
        "normed": (normed, lambda: torch.randn(2, 3, 6, 6)),
    }


# ---- what the processes do ----


def module_and_data(name):
    torch.manual_seed(7)
    make, data = MODULES[name]
    return make(), data


class Plans:
    """Of one module, on so many devices."""

    def __init__(self, name, count):
        module, data = module_and_data(name)
        self.simulator = stowage.Simulator(stowage.torch.trace(module, data()), f"h200x{count}")

    def __getitem__(self, how):
        return self.simulator.run(how)


class Rank:
    """Functions that every rank runs; the test reads what they return."""

    @staticmethod
    def steps(name, devices, carrier):
        """Plans without and with an update; what differs from the module by itself, and how much went over."""
        plans = Plans(name, len(devices))
        cases = [("single", None), ("spread", "sgd"), ("random", None), ("etf", "sgd")]
        return {f"{how} {update}": Rank.three_steps(name, plans[how], devices, update, carrier) for how, update in cases}

    @staticmethod
    def three_steps(name, plan, devices, update, carrier):
        module, data = module_and_data(name)
        alone = copy.deepcopy(module)
        optimizers = [torch.optim.SGD(m.parameters(), RATE) for m in (alone, module)]
        differs, owned = [], 0
        with stowage.torch.place(module, data(), plan=plan, devices=devices, update=update, rate=RATE, carrier=carrier) as step:
            for _ in range(3):
                x = data()
                optimizers[0].zero_grad()
                out = alone(x)
                loss = out if out.numel() == 1 else out.pow(2).mean()
                loss.backward()
                if not torch.allclose(step(x), loss.detach(), **TOLERANCE):
                    differs.append("loss")
                if update is None:
                    differs += differing_gradients(alone, module)
                    owned = sum(p.grad is not None for p in module.parameters())
                    optimizers[1].step()  # of the parameters that are this rank's
                optimizers[0].step()
            step.gather()
            mine = step.state_dict()
            differs += [n for n, t in alone.state_dict().items() if not torch.allclose(t, mine[n], **TOLERANCE)]
            count = len(list(module.parameters()))
            messages = len(step._ranks.messages)
        return {"differs": differs, "owned": owned, "parameters": count, "messages": messages, "carrier": step.carrier}  # also of a closed step

    @staticmethod
    def many(carrier):
        """Values that change in every step, losses that are kept, and the order of the ops; what is open in the system behind them."""
        module, data = module_and_data("recurrent")
        batches = [data() for _ in range(40)]
        plan = Plans("recurrent", 2)["spread"]
        called = []
        with stowage.torch.place(module, batches[0], plan=plan, devices=TWO, carrier=carrier) as step:
            files = descriptors()
            note_calls(step, called)
            kept = [step(x) for x in batches]
            maps = [line.split(maxsplit=5)[5:] for line in Path("/proc/self/maps").read_text().splitlines()]
            mapped = {name[0] for name in maps if name and ("memfd" in name[0] or name[0].startswith("/dev/shm/"))}
            order = [task.id for task in step.program.of(dist.get_rank())]
        module.zero_grad(set_to_none=True)  # a gradient may be in shared memory
        wrong = [k for k, (x, loss) in enumerate(zip(batches, kept)) if not torch.allclose(loss, module(x).detach(), **TOLERANCE)]
        return {"wrong": wrong, "distinct": len({float(loss) for loss in kept}), "in order": called == 40 * order, "mapped": sorted(mapped),
                "files": files, "files behind it": descriptors()}  # fmt: skip

    @staticmethod
    def seconds(carrier):
        """What a step takes is the same on all ranks."""
        module, data = module_and_data("recurrent")
        x = data()
        with stowage.torch.place(module, x, plan=Plans("recurrent", 2)["spread"], devices=TWO, carrier=carrier) as step:
            return step.seconds(3)

    @staticmethod
    def sizes():
        """Rank 1 means other messages than rank 0 does."""
        module, data = module_and_data("recurrent")
        layout = _shared.layout
        if os.environ["RANK"] == "1":
            _shared.layout = lambda messages: (layout(messages)[0], layout(messages)[1] + 4096)
        try:
            stowage.torch.place(module, data(), plan=Plans("recurrent", 2)["spread"], devices=TWO)
        except stowage.Error as error:
            return str(error)
        finally:
            _shared.layout = layout

    @staticmethod
    def outputs():
        """Without training, every rank gets all that the module returns."""
        torch.manual_seed(7)
        module, x = TwoOutputs(), torch.randn(5, 4)
        plan = stowage.Simulator(stowage.torch.trace(module, x, train=False), "h200x2").run("spread")
        with stowage.torch.place(module, x, plan=plan, devices=TWO, train=False) as step:
            mine, theirs = step(x), module(x)
        same = torch.allclose(mine["a"], theirs["a"]) and mine["a"].stride() == theirs["a"].stride()
        return {"a": same, "b": torch.equal(mine["b"][0], theirs["b"][0]), "c": mine["b"][1]}

    @staticmethod
    def refusals():
        """Rank 1 gives place something else than rank 0."""
        plans = Plans("recurrent", 2)
        module, data = module_and_data("recurrent")
        x, double = data(), copy.deepcopy(module).double()
        wide = stowage.Simulator(stowage.torch.trace(double, x.double()), "h200x2").run("spread")
        usual = {"plan": plans["spread"], "devices": TWO}
        others = {
            "plan": (module, x, {"plan": plans["random"]}),
            "device list": (module, x, {"devices": TWO[::-1]}),
            "graph": (double, x.double(), {"plan": wide}),
            "set of options": (module, x, {"update": "sgd"}),
            "set of options (train, update, carrier)": (module, x, {"carrier": "gloo"}),
            "core": (module, x, {"devices": [TWO[0], "cpu:9999@1"]}),
        }
        found = {}
        for what, other in others.items():
            a, b, given = other if os.environ["RANK"] == "1" else (module, x, {})
            try:
                stowage.torch.place(a, b, **{**usual, **given})
                found[what] = ""
            except stowage.Error as error:
                found[what] = str(error)
        return found

    @staticmethod
    def fails(how, carrier):
        """Rank 1 does not come through its second step; all say what they see of that, and what a third one says."""
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # torchrun ends the others when one is gone, and they would say nothing
        module, data = module_and_data("recurrent")
        x = data()
        step = stowage.torch.place(module, x, plan=Plans("recurrent", 3)["spread"], devices=[*TWO, f"cpu:{CORE}@2"], carrier=carrier)
        if dist.get_rank() == 1:
            spoil(step, how)
        step(x)
        found = []
        for _ in range(2):
            try:
                step(x)
                found.append("")
            except stowage.Error as error:
                found.append(str(error))
        step.close()
        return found

    @staticmethod
    def silence(carrier):
        """Rank 1 takes no step until the others have given up."""
        module, data = module_and_data("recurrent")
        x = data()
        step = stowage.torch.place(module, x, plan=Plans("recurrent", 3)["spread"], devices=[*TWO, f"cpu:{CORE}@2"], carrier=carrier)
        step._ranks.timeout = datetime.timedelta(seconds=1)  # set-up has the usual one: a busy machine may need it
        said = ""
        if dist.get_rank() != 1:
            try:
                step(x)
            except stowage.Error as error:
                said = str(error)
        dist.barrier()
        step.close()
        return said


def differing_gradients(alone, module):
    return [f"gradient of {name}" for (name, p), q in zip(alone.named_parameters(), module.parameters())
            if q.grad is not None and not torch.allclose(p.grad, q.grad, **TOLERANCE)]  # fmt: skip


def descriptors():
    """How many files of this process are memory or processes."""
    found = [os.readlink(path) for path in map(str, Path("/proc/self/fd").iterdir()) if os.path.lexists(path)]
    return {kind: sum(kind in name for name in found) for kind in ("memfd:stowage", "pidfd")}


def note_calls(step, called):
    """The ops of this rank's one device say so when they are called."""
    names = step.runner._functions[0].__globals__

    def noted(k, function):
        return lambda *args, **kwargs: (called.append(k), function(*args, **kwargs))[1]

    for task in step.program.of(dist.get_rank()):
        names[f"f{task.id}"] = noted(task.id, names[f"f{task.id}"])


def spoil(step, how):
    """The first op of this rank kills the process, or raises, when it is called a second time. All others wait for this rank then."""
    assert {m.target for m in step._ranks.messages if step._ranks.is_mine(m.source)} == {0, 2}
    name = f"f{step.program.of(dist.get_rank())[0].id}"
    names = step.runner._functions[0].__globals__  # of the one device here
    function, calls = names[name], []

    def trouble(*args, **kwargs):
        calls.append(1)
        if len(calls) > 1 and how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if len(calls) > 1:
            raise RuntimeError("no more of this\nand a second line")
        return function(*args, **kwargs)

    names[name] = trouble


def main(folder, jobs):
    """One rank does several jobs, one after the other: to start is what takes longest."""
    torch.set_num_threads(1)
    for name, function, *arguments in json.loads(jobs):
        try:
            said = getattr(Rank, function)(*arguments)
        except Exception as error:  # the test shows it
            said = f"{type(error).__name__}: {error}"
        (Path(folder) / f"{name} {os.environ['RANK']}").write_text(json.dumps(said))


# ---- the tests ----


@unittest.skipIf(LACKS, LACKS)
class Started(unittest.TestCase):
    """Starts processes once for all tests of a class. ``said`` has what each rank returned, by job."""

    @classmethod
    def start(cls, ranks, jobs):
        launcher = ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]
        cls.said = {job[0]: {} for job in jobs}
        with tempfile.TemporaryDirectory() as folder:
            command = [sys.executable, *launcher, str(Path(__file__).resolve()), "--rank", folder, json.dumps(jobs)]
            done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, timeout=600)
            for file in Path(folder).iterdir():
                name, rank = file.name.split()
                cls.said[name][int(rank)] = json.loads(file.read_text())
        cls.output = done.stdout + done.stderr

    def ranks(self, job, count):
        """What the ranks returned, which must be so many."""
        self.assertEqual(sorted(self.said[job]), list(range(count)), self.output)
        return [self.said[job][rank] for rank in range(count)]


class Steps(Started):
    @classmethod
    def setUpClass(cls):
        jobs = [[f"{name}-{carrier}", "steps", name, devices, carrier] for carrier in CARRIERS
                for name, devices in (("recurrent", TWO), ("normed", THREE), *([("tied", THREE)] if LONG else []))]  # fmt: skip
        jobs += [[f"many-{carrier}", "many", carrier] for carrier in CARRIERS] + [[f"seconds-{carrier}", "seconds", carrier] for carrier in CARRIERS]
        cls.start(2, [*jobs, ["outputs", "outputs"], ["refusals", "refusals"], ["sizes", "sizes"]])

    def check(self, name):
        for carrier in CARRIERS:
            self.check_carrier(name, carrier)

    def check_carrier(self, name, carrier):
        first, second = self.ranks(f"{name}-{carrier}", 2)
        self.assertIsInstance(first, dict, first)
        for case, mine in first.items():
            with self.subTest(case, carrier=carrier):
                self.assertEqual(mine["differs"] + second[case]["differs"], [])
                self.assertEqual([mine["carrier"], second[case]["carrier"]], [carrier] * 2)
                self.assertGreater(mine["messages"], 0 if case.startswith("single") else 5)
                if case.endswith("None"):  # each gradient is on one rank
                    self.assertEqual(mine["owned"] + second[case]["owned"], mine["parameters"])

    def test_recurrent(self):
        self.check("recurrent")

    def test_batch_norm(self):
        self.check("normed")

    @unittest.skipUnless(LONG, "STOWAGE_LONG is not set; make check-all does that")
    def test_tied_weights(self):
        self.check("tied")

    @unittest.skipUnless(LONG, "STOWAGE_LONG is not set; make check-all does that")
    def test_outputs_are_on_every_rank(self):
        for said in self.ranks("outputs", 2):
            self.assertEqual(said, {"a": True, "b": True, "c": 3})

    def test_many_steps(self):
        """Slots are used again and again; nothing is left open, and memory that is shared has no name in the system."""
        for carrier in CARRIERS:
            for said in self.ranks(f"many-{carrier}", 2):
                self.assertIsInstance(said, dict, said)
                self.assertEqual(said["wrong"], [])
                self.assertEqual(said["distinct"], 40)
                self.assertTrue(said["in order"])
                shared = carrier == "shared"
                self.assertEqual(said["mapped"], ["/memfd:stowage (deleted)"] if shared else [])
                self.assertEqual(said["files"], {"memfd:stowage": 2 * shared, "pidfd": int(shared)})  # mmap keeps one of each segment
                self.assertEqual(said["files behind it"], {"memfd:stowage": 0, "pidfd": 0})

    def test_a_step_takes_the_same_on_all_ranks(self):
        for carrier in CARRIERS:
            first, second = self.ranks(f"seconds-{carrier}", 2)
            self.assertGreater(first, 0)
            self.assertEqual(first, second)

    @unittest.skipUnless("shared" in CARRIERS, "memory cannot be shared here")
    def test_sizes_that_differ_are_refused(self):
        first, second = self.ranks("sizes", 2)
        self.assertRegex(first, r"^rank 1 shares \d+ bytes for what it sends, and \d+ are expected")
        self.assertRegex(second, r"^rank 0 shares \d+ bytes for what it sends, and \d+ are expected")

    def test_ranks_that_differ_are_refused(self):
        for said in self.ranks("refusals", 2):
            self.assertIsInstance(said, dict, said)
            for what in ("plan", "device list", "graph", "set of options", "set of options (train, update, carrier)"):
                self.assertTrue(said[what].startswith(f"rank 1 has another {what}"), said[what])
        self.assertTrue(self.said["refusals"][0]["core"].startswith("rank 1 cannot place the step: 'cpu:9999@1' names core 9999"))
        self.assertTrue(self.said["refusals"][1]["core"].startswith("'cpu:9999@1' names core 9999"))


class Failures(Started):
    @classmethod
    def setUpClass(cls):
        jobs = [[f"raises-{carrier}", "fails", "raises", carrier] for carrier in CARRIERS]
        cls.start(3, jobs + [[f"silence-{carrier}", "silence", carrier] for carrier in CARRIERS])

    def test_an_op_that_raises_ends_the_step_on_all_ranks(self):
        line = f"rank 1: the step failed on {TWO[1]}: no more of this"
        for carrier in CARRIERS:
            self.assertEqual(self.ranks(f"raises-{carrier}", 3), [[line, line]] * 3)

    @unittest.skipUnless(LONG, "STOWAGE_LONG is not set; make check-all does that")
    def test_a_rank_that_sends_nothing_is_given_up(self):
        line = "rank 1 is gone (it has sent nothing for 1 s); the step has ended on all ranks"
        for carrier in CARRIERS:
            self.assertEqual(self.ranks(f"silence-{carrier}", 3), [line, "", line])


class Killed(Started):
    """A rank that is killed ends the job, so each carrier has one of its own."""

    @unittest.skipUnless("shared" in CARRIERS, "memory cannot be shared here")
    def test_a_killed_rank_ends_the_step_in_shared_memory(self):
        self.kill("shared")

    def test_a_killed_rank_ends_the_step(self):
        self.kill("gloo")

    def kill(self, carrier):
        self.start(3, [["killed", "fails", "killed", carrier]])
        said = self.said["killed"]
        self.assertEqual(sorted(said), [0, 2], self.output)
        for first, again in said.values():
            self.assertRegex(first, r"^rank 1 is gone \(.*(closed|reset|[Bb]roken).*\); the step has ended on all ranks$")
            self.assertEqual(first, again)


@unittest.skipIf(LACKS, LACKS)
class Names(unittest.TestCase):
    """What needs no processes."""

    def test_devices(self):
        from stowage.torch.running import _devices

        spec = _devices.parse("cuda:2/sm:16@3")
        self.assertEqual((spec.gpu, spec.sms, spec.rank), (2, 16, 3))
        self.assertIsNone(_devices.parse("cpu:0").rank)
        for wrong in ("cpu:0@", "cpu:0@-1", "@1", "cpu:0@1@1"):
            with self.assertRaisesRegex(stowage.Error, "is no device"):
                _devices.parse(wrong)
        with self.assertRaisesRegex(stowage.Error, "names a rank"):
            _devices.parse_all([f"cpu:{CORE}@0"])

    def messages(self, updates):
        """Of a module over two ranks. Its weight is read, transposed, where it is not."""
        from stowage.torch.running import _messages, _program
        from stowage.torch.tracing import _trace

        step = _trace.Step(nn.Linear(4, 3), (torch.randn(5, 4),), {}, True, None)
        nodes = _trace.Nodes(step)
        graph = stowage.Graph.parse(nodes.opgraph("linear"), "a trace")
        at_home = {k for k, node in enumerate(nodes.nodes) if node["op"] == "parameter" or "updates" in node}
        program = _program.Program(nodes, stowage.Plan(graph, "h200x2", device=[int(k not in at_home) for k in range(len(graph))]))
        return _messages.messages_of(program, [0, 1], 2, [update.new for update in step.updates()] if updates else [])

    def test_what_is_overwritten_is_copied_before_it_is_sent(self):
        for updates in (False, True):
            sent = [m for m in self.messages(updates) if m.producer is None]
            self.assertEqual(len(sent), 2)  # weight and bias
            for message in sent:
                value = torch.randn(message.value.shape).as_strided(message.value.shape, message.value.stride())
                self.assertEqual(message.packed(value).data_ptr() != value.data_ptr(), updates)

    def test_values_keep_their_layout(self):
        from stowage.torch.running import _messages

        image = torch.empty(2, 3, 4, 5).to(memory_format=torch.channels_last)
        layouts = [torch.empty(3, 4).t(), image, torch.empty(3, 1, 2), torch.empty(()), torch.empty(0, 3)]
        gaps = [torch.empty(4, 6)[:, :3], torch.empty(3, 1).expand(3, 4)]
        for traced in [*layouts, *gaps]:
            node = types.SimpleNamespace(meta={"val": traced}, name="n")
            message = _messages.Message(0, node, 0, 1, 0, (), False, False, _messages._axes(node))
            value = torch.randn_like(traced)
            packed = message.packed(value)
            self.assertTrue(packed.is_contiguous())
            buffer = message.buffer(torch.device("cpu"))
            arrived = message.unpacked(buffer.copy_(packed))
            self.assertTrue(torch.equal(arrived, value))
            if traced is not gaps[0] and traced is not gaps[1]:
                self.assertEqual(arrived.stride(), traced.stride())

    def test_writes_in_place_stay_in_one_rank(self):
        """Of two writes to one buffer the second may be elsewhere only where the memory is the same."""
        from stowage.torch.running import _devices, _place, _program
        from stowage.torch.tracing import _trace

        nodes = _trace.Nodes(_trace.Step(Averaged(), (torch.randn(4),), {}, False, None))
        graph = stowage.Graph.parse(nodes.opgraph("averaged"), "a trace")
        second = next(node["id"] for node in nodes.nodes if node["op"] == "add_")
        plan = stowage.Plan(graph, "h200x2", device=[int(k >= second) for k in range(len(graph))])
        program = _program.Program(nodes, plan)
        _place._check_writes(program, [_devices.parse(f"cpu:{CORE}"), _devices.parse(f"cpu:{CORE}")], copies=False)
        with self.assertRaisesRegex(stowage.Error, "writes b_mean in place, which is in another memory"):
            _place._check_writes(program, [_devices.parse(name) for name in TWO], copies=False)

    def place(self, devices, **environment):
        """The error of placing a module in this process, with these variables and no others of torchrun."""
        module, x = nn.Linear(2, 2), torch.randn(1, 2)
        plan = stowage.Simulator(stowage.torch.trace(module, x), f"h200x{len(devices)}").run("spread")
        kept = dict(os.environ)
        for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"):
            os.environ.pop(name, None)
        os.environ.update(environment)
        try:
            with stowage.torch.place(module, x, plan=plan, devices=devices) as step:
                return float(step(x)) - float(module(x).detach().pow(2).mean())
        except stowage.Error as error:
            return str(error)
        finally:
            os.environ.clear()
            os.environ.update(kept)

    def test_rank_0_needs_no_other_process(self):
        self.assertAlmostEqual(self.place([f"cpu:{CORE}@0", f"cpu:{CORE}"]), 0, places=5)

    def test_processes_must_have_been_started(self):
        self.assertIn("start them with torchrun", self.place(TWO))
        elsewhere = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "192.0.2.1", "MASTER_PORT": "1"}
        self.assertIn("MASTER_ADDR is 192.0.2.1, another machine", self.place(TWO, **elsewhere))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--rank"]:
        main(*sys.argv[2:4])
    else:
        sys.exit(run_tests())
