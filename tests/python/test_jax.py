#!/usr/bin/env python3
"""stowage.jax on JAX's CPU backend: results equal XLA's own, the plan's order and groups are in what XLA compiled, and whatever goes
wrong leaves XLA's own result.

    STOWAGE_LIBRARY=build/release/libstowage.so build/venv/bin/python3 tests/python/test_jax.py [names of tests]
"""
import argparse
import contextlib
import csv
import importlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import types
import unittest
import warnings
import zipfile
from pathlib import Path

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402

from jax_testing import LACKS, PACKAGE, ROOT, Jax, compiled_with, copied, our_fusions  # noqa: E402

import stowage  # noqa: E402
from stowage import _library  # noqa: E402

if not LACKS:
    import jax
    import jax.numpy as jnp
    import jax_functions
    import numpy as np
    from jax_functions import attention, cached, mlp, train_step

    import stowage.jax
    from stowage.jax._hook import module_text
    from stowage.jax import _module as _jax_module, _order as _jax_order, _profile as _jax_profile, _target as _jax_target


def functions():
    for loss, p, x in jax_functions.functions():
        yield loss, jax.tree.map(jnp.array, p), jnp.array(x)


def entry_of(text):
    """Names of the entry's instructions in order."""
    return re.findall(r"^\s+(?:ROOT )?%?([\w.\-]+) = ", text[text.index("\nENTRY"):], re.M)


def fused_ops(text):
    """For each fusion of a module, the ops in it."""
    bodies = {m[1]: re.findall(r"^\s+(?:ROOT )?%?[\w.\-]+ = (?:\(.*?\)|\S+) ([a-z][\w\-]*)\(", m[2], re.M)
              for m in re.finditer(r"^%?(\S+) \([^\n]*\{\n(.*?)^\}", text, re.M | re.S)}  # fmt: skip
    called = re.findall(r" fusion\(.*calls=%?([\w.\-]+)", text)
    return [[op for op in bodies[name] if op not in ("parameter", "constant", "bitcast")] for name in called]


class Results(Jax):
    def test_fusions_and_order(self):
        for loss, p, x in functions():
            with self.subTest(loss.__name__):
                step = train_step(loss)
                expected = jax.jit(step)(p, x)
                plan = stowage.jax.plan(step, p, x, evaluations=100)
                self.assertTrue(plan.fuse)
                compiled, applied = compiled_with(plan, step, p, x)
                self.assert_close(expected, compiled(p, x))
                group = plan.plan.group
                ops = [n.id for n in plan.graph.ops]
                fused = {group[k] for k in ops if group[k] >= 0 and [group[m] for m in ops].count(group[k]) > 1}
                self.assertGreaterEqual(len(our_fusions(compiled)), max(1, len(fused)))
                self.assertLess(plan.kernels, len(ops))
                self.assert_order_is_ours(applied, compiled)

    def test_xla_fuses_nothing_of_its_own(self):
        """Also where values are large enough for the library that XLA's CPU backend hands fusions to."""
        for side in (64, 160):
            p, x = {n: jnp.ones((side, side)) for n in "qkv"}, jnp.ones((side, side))
            step = train_step(attention)
            text = module_text(stowage.jax.capture(step, p, x).module)
            self.assertNotIn("ynn_fusion", text)
            self.assertEqual([ops for ops in fused_ops(text) if len(ops) > 1], [])
            plan = stowage.jax.plan(step, p, x, evaluations=5)
            self.assertGreater(max(len(ops) for ops in fused_ops(module_text(plan.planned))), 1)
            compiled, _ = compiled_with(plan, step, p, x)
            self.assert_close(jax.jit(step)(p, x), compiled(p, x))

    def test_options_that_an_xla_does_not_know_are_left_out(self):
        device = jax.devices()[0]
        self.assertFalse(_jax_target._knows("xla_no_such_option", "", device))
        self.assertTrue(_jax_target._knows("xla_disable_hlo_passes", "", device))
        before = _jax_target._knows
        try:
            _jax_target._knows = lambda *_: False
            self.assertEqual(list(_jax_target.passes_off({}, _jax_target.Target())), ["xla_disable_hlo_passes"])
        finally:
            _jax_target._knows = before

    def test_order_on_the_fusions_of_xla(self):
        for loss, p, x in functions():
            with self.subTest(loss.__name__):
                step = train_step(loss)
                expected = jax.jit(step)(p, x)
                plan = stowage.jax.plan(step, p, x, fuse=False, evaluations=100)
                self.assertEqual(plan.kernels, len(plan.graph.ops))
                plan.plan.priority = [float(k * 7919 % 101) for k in range(len(plan.graph))]
                compiled, applied = compiled_with(plan, step, p, x)
                self.assert_close(expected, compiled(p, x), 0.0)
                self.assert_order_is_ours(applied, compiled)
                self.assertNotEqual(entry_of(plan.text), entry_of(compiled.as_text()))

    def test_regions_of_other_plans_in_the_module_of_xla(self):
        """XLA's own module with regions of two other plans, where the model expects them to be faster; else as it is."""
        regions = []
        for loss, p, x in functions():
            with self.subTest(loss.__name__):
                step = train_step(loss)
                expected = jax.jit(step)(p, x)
                plan = stowage.jax.plan(step, p, x, fuse="best", evaluations=20)
                self.assertLessEqual({"XLA", "merged", "chosen"}, set(plan.expected))
                self.assertEqual(plan.keeps_xla, plan.regions == 0)
                if plan.regions:
                    self.assertLessEqual(plan.expected["chosen"], 0.98 * plan.expected["XLA"])
                    self.assertAlmostEqual(plan.step, plan.expected["chosen"], delta=1e-6 * plan.step)
                else:
                    self.assertEqual(plan.planned, plan.module)
                compiled, _ = compiled_with(plan, step, p, x)
                self.assert_close(expected, compiled(p, x))
                plan.save(self.folder / "best.plan")
                again = stowage.jax.load(self.folder / "best.plan")
                self.assertEqual((again.expected, again.regions, again.planned), (plan.expected, plan.regions, plan.planned))
                regions.append(plan.regions)
        self.assertTrue(any(regions) and not all(regions), f"nothing was decided: {regions}")

    def test_what_cannot_be_chosen_among(self):
        p, x = {n: jnp.ones((8, 8)) for n in "qkv"}, jnp.ones((8, 8))
        step = train_step(attention)
        for fn, more in ((stowage.jax.capture(step, p, x), {}), (step, {"costs": "costs.csv"}), (step, {"fusion": "default"})):
            with self.assertRaisesRegex(stowage.Error, "compiles the function twice"):
                stowage.jax.plan(fn, p, x, fuse="best", **more)
        with self.assertRaisesRegex(stowage.Error, "fuse is True, False or"):
            stowage.jax.plan(step, p, x, fuse="worst")
        self.assertEqual(stowage.jax.plan(step, p, x, evaluations=5).expected, {})

    def assert_order_is_ours(self, applied, compiled):
        (module,) = applied.modules
        ours = entry_of(module_text(module))
        final = [name for name in entry_of(compiled.as_text()) if name in set(ours)]
        self.assertEqual([name for name in ours if name in set(final)], final)
        self.assertGreater(len(final), 0.8 * len(ours))

    def test_readers_stay_before_what_overwrites(self):
        """Donated arguments and slices in place, in the worst of orders."""
        for loss, p, x in functions():
            if loss not in (cached, mlp):
                continue
            step = train_step(loss)
            expected = jax.jit(step)(p, x)
            for fuse in (False, True):
                plan = stowage.jax.plan(jax.jit(step, donate_argnums=0), p, x, fuse=fuse, evaluations=20)
                for sign in (1.0, -1.0):
                    with self.subTest(f"{loss.__name__}, fuse {fuse}, {sign:+g}"):
                        plan.plan.priority = [sign * k for k in range(len(plan.graph))]
                        compiled, _ = compiled_with(plan, step, p, x, donate=0)
                        self.assert_close(expected, compiled(copied(p), x))

    def test_memory_is_that_of_the_order(self):
        """Many large values that could all be made first: the planned order frees each before the next."""

        def wide(p, x):
            return sum(jnp.sum(jnp.sort(x * k, axis=0)[0] * p) for k in range(1, 9))

        p, x = jnp.ones(64), jnp.ones((64, 64))
        plan = stowage.jax.plan(wide, p, x, fuse=False, evaluations=200)
        good, _ = compiled_with(plan, wide, p, x)
        position = {n.id: float(n.op == "sort" or "sort" in n.name) for n in plan.graph.nodes}
        plan.plan.priority = [position[k] for k in range(len(plan.graph))]
        bad, _ = compiled_with(plan, wide, p, x)
        self.assert_close(good(p, x), bad(p, x))
        self.assertLess(good.memory_analysis().temp_size_in_bytes, bad.memory_analysis().temp_size_in_bytes)


class Contexts(Jax):
    def make(self):
        loss, p, x = next(functions())
        step = train_step(loss)
        return step, p, x, stowage.jax.plan(step, p, x, evaluations=20)

    def test_other_modules_are_left_alone(self):
        step, p, x, plan = self.make()

        def other(x):
            return jnp.tanh(x) @ x.T + 1.0

        expected = jax.jit(other).lower(x).compile().as_text()
        with stowage.jax.apply(plan) as applied:
            beside = jax.jit(other).lower(x).compile()
            compiled = jax.jit(step).lower(p, x).compile(plan.compiler_options)
        self.assertEqual(applied.others, ["jit_other"])
        self.assertEqual(entry_of(beside.as_text()), entry_of(expected))
        self.assertEqual(our_fusions(beside), set())
        self.assertNotEqual(our_fusions(compiled), set())

    def test_a_module_that_never_came_is_an_error(self):
        step, p, x, plan = self.make()
        fewer = jnp.ones((5, x.shape[1]))
        with self.assertRaisesRegex(stowage.Error, "for another module jit_step; within the context XLA compiled jit_step. Compile"):
            with stowage.jax.apply(plan):
                compiled = jax.jit(step).lower(p, fewer).compile(plan.compiler_options)
        self.assertEqual(our_fusions(compiled), set())
        with self.assertRaisesRegex(stowage.Error, "XLA compiled nothing"):
            with stowage.jax.apply(plan):
                pass

    def test_a_failing_hook_leaves_the_result_of_xla(self):
        step, p, x, plan = self.make()
        expected = jax.jit(step).lower(p, x).compile(plan.compiler_options)

        def fails(module):
            raise RuntimeError("on purpose")

        def breaks(module):
            return module[: len(module) // 2]

        for broken, message in ((fails, "on purpose"), (breaks, "XLA does not accept")):
            plan.rewrite = broken
            with self.assertRaisesRegex(stowage.Error, message):
                with stowage.jax.apply(plan):
                    compiled = jax.jit(step).lower(p, x).compile(plan.compiler_options)
            self.assertEqual(entry_of(compiled.as_text()), entry_of(expected.as_text()))
            self.assert_close(expected(p, x), compiled(p, x), 0.0)

    def test_an_interrupt_is_raised_as_itself(self):
        step, p, x, plan = self.make()

        def interrupt(module):
            raise KeyboardInterrupt

        plan.rewrite = interrupt
        with self.assertRaises(KeyboardInterrupt), stowage.jax.apply(plan):
            jax.jit(step).lower(p, x).compile(plan.compiler_options)

    def test_what_is_raised_within_comes_out(self):
        _, _, _, plan = self.make()
        with self.assertRaisesRegex(ZeroDivisionError, "mine"), stowage.jax.apply(plan):
            raise ZeroDivisionError("mine")

    def test_a_fault_beside_an_exception_is_warned_of(self):
        _, _, _, plan = self.make()
        with self.assertRaisesRegex(ZeroDivisionError, "mine"), self.assertWarnsRegex(UserWarning, "for another module jit_step"):
            with stowage.jax.apply(plan):
                jax.jit(lambda x: x + 2).lower(1.0).compile()
                raise ZeroDivisionError("mine")

    def test_the_cache_of_this_thread_is_off_too(self):
        from jax._src.config import enable_compilation_cache as state

        step, p, x, plan = self.make()
        for here, everywhere in ((True, False), (False, True), (True, True)):
            before = state.get_global()
            jax.config.update("jax_enable_compilation_cache", everywhere)
            try:
                with state(here):
                    with stowage.jax.apply(plan):
                        self.assertEqual((state.value, state.get_global()), (False, False))
                        jax.jit(step).lower(p, x).compile(plan.compiler_options)
                    self.assertEqual((state.value, state.get_global()), (here, everywhere))
            finally:
                jax.config.update("jax_enable_compilation_cache", before)

    def test_everything_is_as_before_afterwards(self):
        step, p, x, plan = self.make()
        before = jax.config.jax_enable_compilation_cache
        with stowage.jax.apply(plan):
            self.assertFalse(jax.config.jax_enable_compilation_cache)
            with self.assertRaisesRegex(stowage.Error, "another stowage.jax context is open"), stowage.jax.apply(plan):
                pass
            jax.jit(step).lower(p, x).compile(plan.compiler_options)
        self.assertEqual(jax.config.jax_enable_compilation_cache, before)
        jax.clear_caches()
        self.assertEqual(our_fusions(jax.jit(step).lower(p, x).compile(plan.compiler_options)), set())

    def test_a_cache_on_disk_plays_no_part(self):
        code = f"""
import sys
sys.path[:0] = {[str(PACKAGE / "src")]!r}
import jax, jax.numpy as jnp, stowage.jax
jax.config.update("jax_compilation_cache_dir", {str(self.folder)!r})
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
def f(x):
    return jnp.tanh(x * 2.0 + 1.0).sum()
x = jnp.ones((8, 8))
plan = stowage.jax.plan(f, x, evaluations=5)
plain = jax.jit(f).lower(x).compile(plan.compiler_options)
with stowage.jax.apply(plan):
    ours = jax.jit(f).lower(x).compile(plan.compiler_options)
jax.clear_caches()
again = jax.jit(f).lower(x).compile(plan.compiler_options)
print(["stowage_fusion." in c.as_text() for c in (plain, ours, again)])
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertEqual(done.stdout, "[False, True, False]\n", done.stderr)

    def test_a_jitted_call_within(self):
        step, p, x, plan = self.make()
        expected = jax.jit(step)(p, x)
        jitted = jax.jit(step, compiler_options=plan.compiler_options)
        with stowage.jax.apply(plan) as applied:
            self.assert_close(expected, jitted(p, x))
        self.assertEqual(len(applied.modules), 1)

    def test_an_old_jax_is_refused(self):
        code = f"""
import sys
sys.path[:0] = {[str(PACKAGE / "src")]!r}
import jax, jax.extend.xla, stowage, stowage.jax
del jax.extend.xla.register_hlo_module_transformation
try:
    stowage.jax.plan(lambda x: x + 1, 1.0)
except stowage.Error as error:
    print(error)
"""
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        self.assertIn("lets nobody change modules before code is made; 0.10.2 and newer do", done.stdout, done.stderr)


class Plans(Jax):
    def test_save_and_load(self):
        loss, p, x = next(functions())
        step = train_step(loss)
        plan = stowage.jax.plan(step, p, x, evaluations=20)
        plan.save(self.folder / "plan.zip")
        again = stowage.jax.load(self.folder / "plan.zip")
        self.assertEqual((again.planned, again.compiler_options, again.order), (plan.planned, plan.compiler_options, plan.order))
        self.assertEqual(repr(again), repr(plan))
        compiled, _ = compiled_with(again, step, p, x)
        self.assert_close(jax.jit(step)(p, x), compiled(p, x))
        self.assertEqual(os.listdir(self.folder), ["plan.zip"])

    def test_a_broken_file_is_refused(self):
        plan = stowage.jax.plan(lambda x: jnp.tanh(x) + 1.0, jnp.ones(8), evaluations=5)
        file = self.folder / "plan.zip"
        plan.save(file)
        whole = file.read_bytes()
        broken = [b"nothing", whole[: len(whole) // 2], whole[:60] + b"\xff" * 40 + whole[100:]]
        for entries in ({"info.json": "[]"}, {"info.json": "{}"}, {"info.json": "?"}, {"plan.json": "{}"}, {"module.hlo.pb": "?"}):
            with zipfile.ZipFile(io.BytesIO(whole)) as old, zipfile.ZipFile(made := io.BytesIO(), "w") as new:
                for name in old.namelist():
                    new.writestr(name, entries.get(name) or old.read(name))
            broken.append(made.getvalue())
        for data in broken:
            file.write_bytes(data)
            with self.assertRaises(stowage.Error):
                stowage.jax.load(file)

    def test_a_save_that_fails_leaves_the_file(self):
        plan = stowage.jax.plan(lambda x: jnp.tanh(x) + 1.0, jnp.ones(8), evaluations=5)
        file = self.folder / "plan.zip"
        file.write_text("old")
        plan._info["compiler_options"]["xla_dump_to"] = self.folder  # a path is no JSON
        with self.assertRaisesRegex(stowage.Error, "compiler options"):
            plan.save(file)
        self.assertEqual((file.read_text(), os.listdir(self.folder)), ("old", ["plan.zip"]))

    def test_an_interrupt_keeps_the_best_order(self):
        loss, p, x = next(functions())

        def interrupt(_):
            raise KeyboardInterrupt

        plan = stowage.jax.plan(train_step(loss), p, x, budget="100h", progress=interrupt)
        self.assertTrue(plan.interrupted)
        self.assertIsNotNone(plan.step)
        self.assertFalse(stowage.jax.plan(train_step(loss), p, x, evaluations=5).interrupted)

    def test_times_of_another_module_are_warned_of(self):
        def fn(x):
            return jnp.tanh(x) @ x

        file = self.folder / "costs.csv"
        stowage.jax.profile(fn, jnp.ones((8, 8)), path=file, repeats=2)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            stowage.jax.plan(fn, jnp.ones((8, 8)), costs=file, evaluations=5)
        with self.assertWarnsRegex(UserWarning, "has the times of another module") as caught:
            stowage.jax.plan(fn, jnp.ones((16, 16)), costs=file, evaluations=5)
        self.assertEqual(caught.filename, __file__)
        with open(file, "a") as opened:
            opened.write(f"nothing,cpu{os.cpu_count()},3\n")
        with self.assertWarnsRegex(UserWarning, "name no op of the graph"):
            stowage.jax.plan(fn, jnp.ones((8, 8)), costs=file, evaluations=5)

    def test_what_a_plan_says(self):
        loss, p, x = next(functions())
        plan = stowage.jax.plan(jax.jit(train_step(loss)), p, x, machine="h200x1", evaluations=20)
        self.assertRegex(repr(plan), r"^<JaxPlan of jit_step for cpu: fusions and order \(\S+\); \d+ ops in \d+ kernels, predicted ")
        self.assertTrue(plan.text.startswith("HloModule jit_step"))
        self.assertGreater(plan.step, 0)
        self.assertGreater(plan.peak, 4 * 32 * 16)
        with self.assertRaisesRegex(stowage.Error, "XLA runs a module on one device, and h200x2 has 2"):
            stowage.jax.plan(train_step(loss), p, x, machine="h200x2")

    def test_options_of_the_user_are_kept(self):
        plan = stowage.jax.plan(lambda x: jnp.tanh(x) + 1.0, jnp.ones(8), evaluations=5,
                                compiler_options={"xla_disable_hlo_passes": "algsimp", "xla_cpu_enable_fast_math": False})  # fmt: skip
        self.assertEqual(plan.compiler_options["xla_disable_hlo_passes"], "algsimp,fusion,cpu_multi_output_fusion")
        self.assertIs(plan.compiler_options["xla_cpu_enable_fast_math"], False)

    def test_measured_times(self):
        loss, p, x = next(functions())
        step = train_step(loss)
        file = self.folder / "costs.csv"
        times = stowage.jax.profile(step, p, x, kind="mine", path=file, repeats=3)
        with open(file, newline="") as opened:
            self.assertRegex(next(opened), r"^# stowage.jax.profile: module [0-9a-f]{32} jit_step, jax ")
            rows = list(csv.DictReader(opened))
        self.assertEqual({row["name"]: row["kind"] for row in rows}, {name: "mine" for name in times})
        self.assertTrue(all(float(row["us"]) > 0 for row in rows))
        stowage.jax.profile(step, p, x, path=file, repeats=3)
        plan = stowage.jax.plan(step, p, x, costs=file, evaluations=20)
        self.assertGreater(plan.evaluation.measured_share, 0.99)
        names = {n.name for n in plan.graph.ops}
        self.assertGreater(len(names & set(times)), 0.9 * len(names))


class Profiles(Jax):
    """What a profile has, by hand: it depends on what else is installed."""

    @staticmethod
    def event(name, start_ns, duration_ns, **stats):
        return types.SimpleNamespace(name=name, start_ns=start_ns, duration_ns=duration_ns, stats=list(stats.items()))

    def times(self, **planes):
        """Planes of one line each; `device_x` stands for "/device:x"."""
        data = types.SimpleNamespace(planes=[types.SimpleNamespace(
            name=("/device:" if name.startswith("device_") else "/host:") + name.partition("_")[2],
            lines=[types.SimpleNamespace(name=line, events=events)]) for name, (line, events) in planes.items()])  # fmt: skip
        return _jax_profile._events(data, "jit_step")

    def test_idle_gpu_beside_the_cpu(self):
        """A plane of a device says nothing of the module that ran elsewhere."""
        run = self.event("dot.1", 100, 3000, hlo_op="dot.1", hlo_module="jit_step", _p=7)
        done = self.event("end: dot.1", 5100, 10, _c=7)
        other = self.event("dot.2", 0, 9000, hlo_op="dot.2", hlo_module="jit_other", _p=8)
        host = ("threads", [run, done, other])
        self.assertEqual(self.times(host_CPU=host), [("dot.1", 5.0)])
        for beside in ([], [self.event("Memcpy", 0, 50)], [other]):
            self.assertEqual(self.times(device_GPU=("Stream #1", beside), host_CPU=host), [("dot.1", 5.0)])

    def test_devices_come_first(self):
        kernel = self.event("loop_fusion", 0, 2000, hlo_op="fusion", hlo_module="jit_step")
        launch = self.event("fusion", 0, 70000, hlo_op="fusion", hlo_module="jit_step")
        self.assertEqual(self.times(host_CPU=("python", [launch]), device_GPU=("Stream #1", [kernel])), [("fusion", 2.0)])
        op = self.event("fusion", 0, 4000)
        self.assertEqual(self.times(host_CPU=("python", [launch]), device_TPU=("XLA Ops", [op])), [("fusion", 4.0)])


class Groups(Jax):
    def rule(self, fn, *args, rule="default"):
        captured = stowage.jax.capture(fn, *args)
        graph = stowage.Graph.parse(captured.module)
        plan = stowage.Simulator(graph, "h200x1").run("single").copy()
        plan.fuse(rule)
        self.assertIsNone(plan.evaluate().reason)
        self.assertTrue(plan.export_bytes("hlo", captured.module))
        return graph, plan.group

    def test_the_module_is_that_of_xla(self):
        captured = stowage.jax.capture(mlp, *[v for loss, p, v in [next(functions())] for v in (p, v)])
        module = _jax_module.read_module(captured.module)
        text = module_text(captured.module)
        self.assertEqual(sorted(i.name for i in module.entry.instructions.values()), sorted(entry_of(text)))
        self.assertEqual(module.name, "jit_mlp")
        self.assertEqual(len(module.outputs()), 1)

    def test_a_chain_is_one_kernel(self):
        graph, group = self.rule(lambda x: jnp.sum(jnp.exp(x * 2.0 + 1.0) - 3.0), jnp.ones((16, 16)))
        self.assertEqual(len({group[n.id] for n in graph.ops} - {-1}), 1)

    def test_a_value_with_two_readers_is_written(self):
        def fn(a, b):
            y = jnp.tanh(a)
            return (y @ b, jnp.cos(y) @ b)

        graph, group = self.rule(fn, jnp.ones((16, 16)), jnp.ones((16, 16)))
        tanh = next(n.id for n in graph.ops if "tanh" in n.name)
        self.assertEqual(sum(group[n.id] == group[tanh] for n in graph.ops), 1)

    def test_limits_hold(self):
        def fn(x):
            for k in range(40):
                x = x * x + x[0, 0] * k
            return x

        graph, group = self.rule(fn, jnp.ones((8, 8)))
        sizes = {}
        for n in graph.ops:
            sizes[group[n.id]] = sizes.get(group[n.id], 0) + 1
        self.assertLessEqual(max(size for number, size in sizes.items() if number >= 0), 64)

    def test_results_of_one_kernel(self):
        loss, p, x = next(functions())
        step = train_step(loss)
        captured = stowage.jax.capture(step, p, x)
        expected = captured.compiled(p, x)
        kernels = {}
        for rule in ("none", "default", "joined"):
            plan = stowage.jax.plan(captured, fusion=rule, evaluations=20)
            with stowage.jax.apply(plan):
                compiled = jax.jit(step).lower(p, x).compile(plan.compiler_options)
            for a, b in zip(jax.tree.leaves(expected), jax.tree.leaves(compiled(p, x))):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
            kernels[rule] = plan.kernels
        self.assertLess(kernels["default"], kernels["none"])
        self.assertLessEqual(kernels["joined"], kernels["default"])
        with self.assertRaisesRegex(stowage.Error, "unknown fusion rule 'all'"):
            stowage.jax.plan(captured, fusion="all", evaluations=20)

    def test_loops_and_branches_join_no_group(self):
        def loss(x):
            y = jax.lax.scan(lambda c, v: (jnp.tanh(c * v), c), jnp.sin(x), jnp.ones((5, 16, 16)))[0]
            return jnp.cos(jax.lax.cond(jnp.sum(y) > 0, lambda v: v * 2.0, lambda v: v - 1.0, jnp.exp(y)))

        for rule in ("default", "reverse-post-order", "joined"):
            graph, group = self.rule(loss, jnp.ones((16, 16)), rule=rule)
            bodies = [n for n in graph.ops if n.op in ("while", "conditional", "call")]
            self.assertTrue(any(n.op == "while" for n in bodies))
            for n in bodies:
                self.assertEqual(list(group).count(group[n.id]), 1, f"{rule}: {n.name}")

    def test_weights_are_read_in_a_row(self):
        nodes = [{"id": k, "name": f"w{k}", "op": "parameter", "inputs": [], "dtype": "f32", "shape": [1000]} for k in (0, 1)]
        for t in range(4):  # two layers that alternate
            for layer in (0, 1):
                below = [k for k in (len(nodes) - 1,) if layer] + [k for k in (len(nodes) - 2,) if t]
                nodes.append({"id": len(nodes), "name": f"{layer}-{t}", "op": "mm", "inputs": [layer, *below], "dtype": "f32", "shape": [8]})
        graph = stowage.Graph.parse({"format": "opgraph", "version": 1, "name": "two", "outputs": [len(nodes) - 1], "nodes": nodes})
        priority = _jax_order._order_for_cache(graph, [-float(k) for k in range(len(nodes))], 5000)
        order = [n.name for n in sorted(graph.ops, key=lambda n: -priority[n.id])]
        self.assertEqual(order, [f"{layer}-{t}" for layer in (0, 1) for t in range(4)])


class Bench(Jax):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(ROOT / "bench"))
        try:
            cls.bench, cls.kernels = importlib.import_module("xla"), importlib.import_module("xla_kernels")
        finally:
            sys.path.remove(str(ROOT / "bench"))

    def test_rows(self):
        options = argparse.Namespace(budget="100ms", repeats=2, seconds=1.0, cache=None)
        record = self.bench.measure("mlp", {"depth": 2, "width": 64, "batch": 16}, options)
        self.assertEqual([row["row"] for row in record["rows"]], ["XLA", "no fusion", "ours", "planned", "tuned"])
        self.assertTrue(self.bench.is_equal(record, 1e-3))
        self.assertLess(record["rows"][2]["kernels"], record["rows"][1]["kernels"])
        self.assertIn("ours", record["rows"][3]["expected_ms"])
        old = {**record}
        old.pop("options")  # of a run in which all rows were compiled with other options
        self.assertNotEqual(self.bench.key_of(old), self.bench.key_of(record))

    def test_difference(self):
        before, expected, got = ([np.array(v)] for v in ([0.0, 0.0], [1.0, 4.0], [1.0, 5.0]))
        self.assertAlmostEqual(self.bench.difference(before, (2.0, expected), (2.0, got)), 0.25)
        self.assertAlmostEqual(self.bench.difference(before, (2.0, expected), (3.0, expected)), 0.5)

    def test_kernels_beside_the_cost_model(self):
        """Times that are twice the model's: all in its order, and half of each is its error."""
        loss, p, x = [f for f in functions()][1]  # with a loop
        module = stowage.jax.capture(train_step(loss), p, x, fuse=False).module
        names = {i.name for i in _jax_module.read_module(module).entry.instructions.values()}
        graph = stowage.Graph.parse(module)
        simulator = stowage.Simulator(graph, "h200x1")
        us = {n.name: 2e6 * simulator.op_seconds(n.id) for n in graph.ops if n.op != "while"}
        us["in a body"] = 2e6 * sum(simulator.op_seconds(n.id) for n in graph.ops if n.op == "while")
        self.assertNotIn("in a body", names)
        store = self.folder / "kernels.zip"
        with zipfile.ZipFile(store, "w") as file:
            file.writestr("rnn/xla.hlo.pb", module)
            file.writestr("rnn/xla.json", json.dumps({"us": us}))
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self.kernels.table(argparse.Namespace(store=store, models=None, machine="h200x1", kernels="formula"))
        row = next(line for line in printed.getvalue().splitlines() if line.startswith("| rnn, xla")).split(" | ")
        self.assertEqual(row[-3:], ["0.50", "50 %", "1.00 |"])
        self.assertIn(" / ", row[1 + self.kernels.SORTS.index("bodies")])
        self.assertEqual(self.kernels.kendall([(1, 3), (2, 2), (3, 1)]), -1.0)

    def test_absurd_bandwidths_are_refused(self):
        self.assertAlmostEqual(self.bench.bandwidth_of(10**9, 0.1, 0.2), 1e10)
        for small, large in ((0.1, 0.1), (0.2, 0.1), (0.1, 0.1 + 1e-6)):
            self.assertIsNone(self.bench.bandwidth_of(10**9, small, large))
        self.assertIsNone(self.bench.predict([], {}, {}, {(0, 1): (1.0, None), (1, 0): (1.0, 1e9)}))


class Bytes(unittest.TestCase):
    """Plans in memory need no jax."""

    def test_the_bytes_are_those_of_the_file(self):
        graph = stowage.load(ROOT / "data" / "graphs" / "unet.json.gz")
        plan = stowage.Simulator(graph, "h200x2").run("spread")
        with tempfile.TemporaryDirectory() as folder:
            plan.export("csv", Path(folder) / "plan.csv")
            self.assertEqual(plan.export_bytes("csv"), (Path(folder) / "plan.csv").read_bytes())
        with self.assertRaises(stowage.Error):
            plan.export_bytes("hlo", b"nothing")


@unittest.skipIf(LACKS, LACKS)
class Readme(unittest.TestCase):
    def test_the_example(self):
        blocks = re.findall(r"^```python\n(.*?)^```", (PACKAGE / "README.md").read_text(), re.M | re.S)
        blocks = [block for block in blocks if re.search(r"^import jax$", block, re.M)]
        self.assertGreaterEqual(len(blocks), 1)
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
            os.chdir(folder)
            try:
                session = {}
                for block in blocks:
                    exec(compile(block, "python/README.md", "exec"), session)
            finally:
                os.chdir(before)
        self.assertIn("<JaxPlan of jit_step for cpu: fusions and order", printed.getvalue())
        self.assertIn("True\n", printed.getvalue())


if __name__ == "__main__":
    print(f"library {_library.library._name}" + ("" if LACKS else f", jax {jax.__version__}"))
    sys.exit(run_tests())
