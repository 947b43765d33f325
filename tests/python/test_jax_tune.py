#!/usr/bin/env python3
"""stowage.jax on JAX's CPU backend: bodies of loops and branches, modules out of two, and tuning. Times are given, not taken.

    STOWAGE_LIBRARY=build/release/libstowage.so build/venv/bin/python3 tests/python/test_jax_tune.py [names of tests]
"""
import json
import os
import random
import re
import sys
import types
import unittest.mock
import warnings
from functools import partial

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402

from jax_testing import LACKS, Jax, copied, our_fusions  # noqa: E402

import stowage  # noqa: E402
from stowage import _library  # noqa: E402

if not LACKS:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax

    import stowage.jax
    from stowage.jax import _plan, _splice, _tune
    from stowage.jax._apply import compile_applied
    from stowage.jax._bodies import View, find_bodies
    from stowage.jax._compare import Comparison, compare
    from stowage.jax._hook import _hlo, check_module
    from stowage.jax._module import read_module
    from stowage.jax._order import set_order
    from stowage.jax._plan import plan_captured
    from stowage.jax._splice import Knot, Pair
    from stowage.jax._times import Known, contents_of
    from stowage.jax._values import Values, computes_same


def some(*shape, dtype="float32", seed=3):
    return jnp.asarray(0.5 * np.random.default_rng(seed).normal(size=shape), dtype)


# ---- steps ----


def scan_step(x):
    def turn(c, v):
        y = jnp.tanh(c * v) + jnp.sin(c) * 0.5
        return y, jnp.sum(y * c)

    return lax.scan(turn, x, some(4, 8, 8))


def nested_scan(x):
    def inner(c, v):
        return jnp.tanh(c * v) + jnp.cos(c) * v, jnp.max(c)

    def outer(c, v):
        c, most = lax.scan(inner, jnp.sin(c) * v, some(3, 8, 8))
        return jnp.exp(-c * c) + v, most

    return lax.scan(outer, x, some(2, 8, 8, seed=5))


def branches(x):
    def one(v):
        return jnp.tanh(v * 2.0) + jnp.sum(jnp.exp(v) * v, axis=0)

    def other(v):
        return jnp.sin(v) * jnp.cos(v - 1.0)

    return lax.cond(jnp.sum(x) > 0, one, other, x)


def nested_jit(x):
    inner = jax.jit(lambda v: jnp.tanh(v * 2.0) + jnp.sin(v))
    return lax.fori_loop(0, 3, lambda _, v: inner(v) @ v * 0.1, inner(x))


def remat_step(x):
    w = some(3, 8, 8)

    def loss(w):
        def layer(c, v):
            return jnp.tanh(jax.nn.softmax(c @ v) + jnp.sin(c)), None

        return jnp.sum(lax.scan(jax.checkpoint(layer), x, w)[0] ** 2)

    return jax.value_and_grad(loss)(w)


def half_step(x):
    return scan_step(x.astype(jnp.bfloat16).astype(jnp.float32)), lax.scan(
        lambda c, v: (jnp.tanh(c * v) + c * 0.5, jnp.sin(c)), x.astype(jnp.bfloat16), some(4, 8, 8, dtype="bfloat16"))  # fmt: skip


def several(x):
    (a, b), c = lax.scan(lambda s, v: ((jnp.tanh(s[0] * v) + s[1], jnp.cos(s[0]) * s[1]), jnp.sum(s[0] * v, axis=0)),
                         (x, x + 1.0), some(3, 8, 8))  # fmt: skip
    return {"a": a, "rest": (b, c, jnp.sum(jnp.exp(a) * b))}


def inference(x):
    """A token at a time, with a cache that is written in place."""
    w = some(8, 8)

    def turn(state, t):
        row, cache = state
        cache = lax.dynamic_update_slice(cache, row[None], (t, 0))
        weight = jax.nn.softmax(cache @ row)
        return (jnp.tanh(weight @ cache @ w + row), cache), jnp.argmax(row)

    return lax.scan(turn, (x[0], x), jnp.arange(4))


def transposing(x):
    return lax.fori_loop(0, 5, lambda _, c: c.T * 2.0 + c, x)


def reversing(x):
    return lax.fori_loop(0, 5, lambda _, c: c[::-1] * 2.0 + c, x)


def layer_step(p, x):
    def loss(p):
        h = (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)
        q, k, v = (h @ p[n] for n in "qkv")
        y = jax.nn.softmax(q @ k.T / 3.0) @ v + x
        return jnp.mean((jax.nn.gelu(y @ p["a"]) @ p["b"] - x) ** 2)

    value, gradient = jax.value_and_grad(loss)(p)
    return value, jax.tree.map(lambda a, b: a - 0.1 * b, p, gradient)


def layer_arguments():
    return {n: some(16, 16, seed=k) for k, n in enumerate("qkvab")}, some(12, 16)


def draws(x):
    return lax.scan(lambda c, v: (jnp.tanh(c * v) + jnp.sin(c), jnp.sum(c)), lax.rng_uniform(0.0, 1.0, (8, 8)) + x, some(3, 8, 8))


def body_texts(text, module):
    """The computations of a module's text that are bodies of its loops, branches and calls."""
    names = {module.computations[body.id].name for body in find_bodies(module)}
    return [m[2] for m in re.finditer(r"^%?(\S+) \([^\n]*\{\n(.*?)^\}", text, re.M | re.S) if m[1] in names]


class Bodies(Jax):
    def check(self, step, *args, donate=(), has_groups=True):
        jitted = jax.jit(step, donate_argnums=donate)
        expected = jax.jit(step)(*args)
        plan = stowage.jax.plan(jitted, *args, evaluations=5)
        self.assertTrue(plan.fuse)
        compiled, module = compile_applied(jitted, args, plan)
        self.assert_close(as_float(expected), as_float(compiled(*copied(args))))
        if has_groups:
            self.assertGreater(len(plan.bodies), 0)
            bodies = body_texts(compiled.as_text(), read_module(module))
            self.assertTrue(any("stowage_fusion" in body for body in bodies))
        plan.save(self.folder / "plan.zip")
        again = stowage.jax.load(self.folder / "plan.zip")
        self.assertEqual((again.planned, len(again.bodies)), (plan.planned, len(plan.bodies)))
        return plan

    def test_loops_and_branches(self):
        for step in (scan_step, nested_scan, branches, nested_jit, remat_step, half_step, several, inference):
            with self.subTest(step.__name__):
                self.check(step, some(8, 8))

    def test_all_bodies_are_planned(self):
        plan = self.check(nested_scan, some(8, 8))
        self.assertEqual(len(plan.bodies), len(find_bodies(read_module(plan.module))))
        self.assertGreaterEqual(len(plan.bodies), 2)

    def test_donated(self):
        self.check(scan_step, some(8, 8), donate=0)
        self.check(layer_step, *layer_arguments(), donate=0, has_groups=False)

    def test_a_state_that_is_read_elsewhere_while_it_is_written(self):
        """Transposed, or from its end: a kernel that writes the state over itself must not do that."""
        x = some(32, 32)
        for step, turned in ((transposing, np.transpose), (reversing, np.flipud)):
            expected = np.asarray(x)
            for _ in range(5):
                expected = turned(expected) * 2.0 + expected
            for rule in ("default", "joined"):
                plan = stowage.jax.plan(step, x, fusion=rule, evaluations=5)
                self.assertGreater(len(plan.bodies), 0)
                self.assert_close(expected, compile_applied(jax.jit(step), (x,), plan)[0](x))

    def test_a_body_that_cannot_be_planned_keeps_the_fusions_of_xla(self):
        x = some(8, 8)
        with unittest.mock.patch.object(View, "_find_fault", lambda self: "a fault on purpose"):
            with self.assertWarnsRegex(UserWarning, r"a body cannot be planned \(a fault on purpose\): XLA's fusions stay"):
                plan = stowage.jax.plan(scan_step, x, evaluations=5)
            with self.assertRaisesRegex(stowage.Error, "would be left without fusions; capture with fuse=False"):
                stowage.jax.plan(stowage.jax.capture(scan_step, x))
        self.assertEqual((plan.fuse, plan.bodies), (False, []))
        self.assert_close(scan_step(x), compile_applied(jax.jit(scan_step), (x,), plan)[0](x))

    def test_tasks_are_no_unknown_operators(self):
        """A library's call is known by what it computes, and its task in the graph of tasks is called like it."""
        module = _hlo().hlo_module_from_text("""HloModule product, is_scheduled=true
ENTRY main {
  a = f32[8,8] parameter(0)
  b = f32[8,8] parameter(1)
  ROOT c = f32[8,8] custom-call(a, b), custom_call_target="__cublas$lt$matmul"
}""").as_serialized_hlo_module_proto()
        graph = stowage.Graph.parse(module)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            simulator = stowage.Simulator(graph, "h200x1")
            self.assertEqual((simulator.warnings, [n.flops for n in graph.ops]), ((), [2 * 8**3]))
            plan = simulator.run("single").copy()
            set_order(plan, {n.id for n in graph.ops}, "memory", None, {"evaluations": 5})


def as_float(tree):
    return jax.tree.map(lambda a: np.asarray(a, np.float32), tree)


class Numbers(Jax):
    """What instructions compute."""

    @staticmethod
    def module(fn, *args, fuse=False):
        return stowage.jax.capture(fn, *args, fuse=fuse).module

    def test_fused_or_not(self):
        for step, args in ((scan_step, (some(8, 8),)), (layer_step, layer_arguments())):
            fused, bare = self.module(step, *args), self.module(step, *args, fuse=True)
            self.assertNotEqual(len(read_module(fused).computations), len(read_module(bare).computations))
            self.assertTrue(computes_same(fused, bare))

    def test_what_differs(self):
        x, y = some(8, 8), some(8, 8, seed=4)
        first = self.module(lambda x, y: jnp.tanh(x - y) * 2.0, x, y)
        self.assertTrue(computes_same(first, self.module(lambda b, a: jnp.tanh(b - a) * 2.0, x, y, fuse=True)))
        for other in (lambda x, y: jnp.tanh(x - y) * 3.0, lambda x, y: jnp.sin(x - y) * 2.0, lambda x, y: jnp.tanh(y - x) * 2.0):
            self.assertFalse(computes_same(first, self.module(other, x, y)))

    def test_a_draw_is_like_no_other(self):
        module = self.module(draws, some(8, 8))
        results = {Values(each).result(each.entry) for each in (read_module(module), read_module(module))}
        self.assertEqual(len(results), 2)
        self.assertFalse(computes_same(module, self.module(draws, some(8, 8), fuse=True)))
        self.assertEqual(Pair(module, stowage.jax.plan(draws, some(8, 8), evaluations=5).planned).regions, [])


KNOT = """HloModule knot, is_scheduled=true

fused {{
  a.0 = f32[8] parameter(0)
  b.0 = f32[8] parameter(1)
  n.0 = f32[8] negate(a.0)
  s.0 = f32[8] add(a.0, b.0)
  ROOT t.0 = (f32[8], f32[8]) tuple(n.0, s.0)
}}

ENTRY main {{
  p1 = f32[8] parameter(0)
  p2 = f32[8] parameter(1)
  p3 = f32[8] parameter(2)
{body}
  ROOT out = (f32[8], f32[8], f32[8]) tuple(b1, b2, b3)
}}
"""


def apart(k, *names):
    lines = {"a": f"  a{k} = f32[8] negate(p{k})", "b": f"  b{k} = f32[8] add(p{k}, a{before_of(k)})"}
    return [lines[name] for name in names]


def together(k):
    return [f"  f{k} = (f32[8], f32[8]) fusion(p{k}, a{before_of(k)}), kind=kLoop, calls=fused",
            f"  a{k} = f32[8] get-tuple-element(f{k}), index=0", f"  b{k} = f32[8] get-tuple-element(f{k}), index=1"]  # fmt: skip


def before_of(k):
    return {1: 3, 3: 2, 2: 1}[k]


def parsed(lines):
    return _hlo().hlo_module_from_text(KNOT.format(body="\n".join(lines))).as_serialized_hlo_module_proto()


class Spliced(Jax):
    def test_regions_of_a_plan_in_the_module_of_xla(self):
        source, taken_over = random.Random(2), 0
        for step, args in ((layer_step, layer_arguments()), (scan_step, (some(8, 8),))):
            own = stowage.jax.capture(step, *args, fuse=False)
            pair = Pair(own.module, stowage.jax.plan(step, *args, evaluations=5).planned)
            free = [region for region in pair.regions if not region.fixed]
            self.assertGreater(len(free), 0, step.__name__)
            for region in free:
                check_module(pair.spliced([region])[0])
            for _ in range(5):
                check_module(pair.spliced(source.sample(free, source.randint(1, len(free))))[0])
            module, names, taken = pair.best({k: 1.0 for k in range(len(pair.regions))})
            self.assertEqual((len(taken), module == own.module, bool(names)), (len(free), False, True))
            plan = plan_captured(own, spliced=module, options={"evaluations": 5})
            compiled, _ = compile_applied(jax.jit(step), args, plan)
            taken_over += len(our_fusions(compiled))
            self.assert_close(own.compiled(*args), compiled(*args))
        self.assertGreater(taken_over, 0)

    def test_a_knot_drops_what_gains_least(self):
        """1 and 2 as one kernel each wait for each other by way of 3, which the first module has as one kernel. Neither module is tied
        by itself."""
        ours = parsed([*apart(1, "a"), *apart(2, "a"), *together(3), *apart(1, "b"), *apart(2, "b")])
        theirs = parsed([*apart(3, "a"), *together(1), *together(2), *apart(3, "b")])
        pair = Pair(ours, theirs)
        number = {i.name: k for k, region in enumerate(pair.regions) for i in region.ours}
        self.assertEqual((len(pair.regions), [r.fixed for r in pair.regions]), (3, [False] * 3))
        one, two, three = (pair.regions[number[name]] for name in ("a1", "a2", "f3"))
        with self.assertRaises(Knot) as caught:
            pair.spliced([one, two])
        self.assertEqual({id(region) for region in caught.exception.regions}, {id(one), id(two)})
        for gains, kept in (((1.0, 2.0), two), ((2.0, 1.0), one)):
            module, _, taken = pair.best({number["a1"]: gains[0], number["a2"]: gains[1]})
            check_module(module)
            self.assertEqual([id(region) for region in taken], [id(kept)])
        check_module(pair.spliced([one, two, three])[0])

    def test_what_stays(self):
        """What reads a second buffer: in the other module the first of that value may be written over by then. What has effects. What
        comes after the value that is written over what it reads would wait for itself."""
        texts = [f"""HloModule stays, is_scheduled=true, input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}

fused {{
  p.0 = f32[8] parameter(0)
  s.0 = f32[8] sine(p.0)
  ROOT n.0 = f32[8] negate(s.0)
}}

ENTRY main {{
  x = f32[8] parameter(0)
  z = f32[8] parameter(1)
  c = f32[8] copy(x)
  y = f32[8] cosine(x)
{lines}
  l = f32[8] tanh(z)
  k = f32[8] custom-call(l), custom_call_target="tell", custom_call_has_side_effect=true
  ROOT out = (f32[8], f32[8], f32[8]) tuple(y, r, q)
}}
""" for lines in (
            "  s = f32[8] sine(c)\n  r = f32[8] negate(s)\n  t = f32[8] sine(z)\n  q = f32[8] negate(t)",
            "  r = f32[8] fusion(c), kind=kLoop, calls=fused\n  q = f32[8] fusion(z), kind=kLoop, calls=fused",
        )]  # fmt: skip
        pair = Pair(*(_hlo().hlo_module_from_text(text).as_serialized_hlo_module_proto() for text in texts))
        fixed = {i.name: region.fixed for region in pair.regions for i in region.ours}
        self.assertEqual(fixed, {"c": True, "y": False, "s.1": True, "r": True, "t": False, "q": False, "l": False, "k": True})

    def test_what_does_not_compute_the_same_is_refused(self):
        own = stowage.jax.capture(scan_step, some(8, 8), fuse=False).module
        pair = Pair(own, stowage.jax.plan(scan_step, some(8, 8), evaluations=5).planned)
        chosen = [region for region in pair.regions if not region.fixed]
        with unittest.mock.patch.object(_splice, "Values", lambda made: types.SimpleNamespace(result=lambda _: None)):
            with self.assertRaisesRegex(stowage.Error, "would not compute the same"):
                pair.spliced(chosen)


class Times(Jax):
    def contents(self, fn, *args):
        return contents_of(read_module(stowage.jax.capture(fn, *args, fuse=False).module))

    def test_contents(self):
        def another_name(argument):
            return scan_step(argument)

        def loop(trips, x):
            return lax.fori_loop(0, trips, lambda _, c: jnp.tanh(c) * 2.0 + jnp.sin(c), x)

        first = sorted(self.contents(scan_step, some(8, 8)).values())
        self.assertEqual(first, sorted(self.contents(another_name, some(8, 8)).values()))
        self.assertFalse(set(self.contents(jnp.tanh, some(8)).values()) & set(self.contents(jnp.tanh, some(16)).values()))
        few, many = (self.contents(partial(loop, trips), some(8, 8)) for trips in (3, 5))
        self.assertEqual(few.keys(), many.keys())
        bodies = [name for name in few if "tanh" in name or "fusion" in name]
        self.assertTrue(bodies and all(few[name] != many[name] for name in bodies))

    def test_means(self):
        module = read_module(stowage.jax.capture(lambda x: jnp.sin(x) @ jnp.tanh(x), some(8, 8), fuse=False).module)
        known = Known(None, "cpu")
        self.assertIsNone(known.times(module))
        names = list(contents_of(module))
        for us in (1.0, 2.0, 6.0):
            known.learn(module, {name: us for name in names[1:]})
        self.assertEqual(known.times(module), {name: 0.0 if name == names[0] else 3.0 for name in names})

    def test_the_file(self):
        path = str(self.folder / "below" / "times.json")
        module = read_module(stowage.jax.capture(jnp.tanh, some(8, 8), fuse=False).module)
        known = Known(path, "cpu")
        known.learn(module, {name: 4.0 for name in contents_of(module)})
        known.save()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(set(Known(path, "cpu").times(module).values()), {4.0})
            self.assertIsNone(Known(path, "h200").times(module))
            with unittest.mock.patch("jax.__version__", "0.0.1"):
                self.assertIsNone(Known(path, "cpu").times(module))
        whole = open(path).read()
        head = json.loads(whole)
        for damaged in ("", whole[: len(whole) // 2], "[]", json.dumps({**head, "us": {"x": "y"}})):
            with open(path, "w") as opened:
                opened.write(damaged)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                known = Known(path, "cpu")
            self.assertEqual([("made anew" in str(w.message)) for w in caught], [True], damaged)
            known.learn(module, {name: 5.0 for name in contents_of(module)})
            known.save()
            self.assertEqual(set(Known(path, "cpu").times(module).values()), {5.0})


class Given:
    """In the place of arguments: a run says itself how long it took."""

    def time(self, run):
        return run()


class Compared(Jax):
    def run_of(self, seconds, noise, seed):
        source = random.Random(seed)
        return lambda: seconds * (1.0 + noise * source.random())

    def test_faster_or_not(self):
        for ours, is_faster in ((0.9, True), (1.0, False), (1.1, False)):
            found = compare(self.run_of(ours, 0.02, 1), self.run_of(1.0, 0.02, 2), Given(), 100.0, most=60)
            self.assertEqual((found.runs, found.is_faster), (60, is_faster))
            self.assertLessEqual(found.low, found.ratio)
            self.assertLessEqual(found.ratio, found.high)
            self.assertAlmostEqual(found.ratio, ours, delta=0.01)
            self.assertTrue(found.low < ours * 1.005 and found.high > ours * 0.995, found)
        same = compare(lambda: 2.0, lambda: 2.0, Given(), 0.0)
        self.assertEqual((same.low, same.ratio, same.high, same.is_faster), (1.0, 1.0, 1.0, False))
        self.assertGreaterEqual(same.runs, 10)

    def test_noise_widens(self):
        narrow, wide = (compare(self.run_of(0.98, noise, 1), self.run_of(1.0, noise, 2), Given(), 100.0, most=40) for noise in (0.01, 2.0))
        self.assertLess(narrow.high - narrow.low, wide.high - wide.low)
        self.assertEqual((narrow.is_faster, wide.is_faster), (True, False))


def verdict(ratio):
    """In the place of a comparison: runs both, and says that."""

    def compared(ours, xla, arguments, *_):
        for run in (ours, xla):
            arguments.time(run)
        return Comparison(ratio, 1.0, ratio, ratio - 0.01, ratio + 0.01, 10)

    return compared


def favours_ours(compiled, arguments, *_):
    """A profile in which kernels of a plan take a tenth."""
    jax.block_until_ready(compiled(*arguments()))
    names = re.findall(r"^\s+(?:ROOT )?%?([\w.\-]+) = ", compiled.as_text(), re.M)
    return {name: 1.0 if name.startswith("stowage") else 10.0 for name in names}


def two_parts(x):
    return scan_step(x)[0], jnp.tanh(x @ x) + jnp.sin(x)


class Tuning(Jax):
    def tune(self, fn, *args, ratio=0.5, seconds=1000.0, **options):
        with unittest.mock.patch.object(_tune, "profile_compiled", favours_ours):
            with unittest.mock.patch.object(_plan, "compare", verdict(ratio)):
                return stowage.jax.tune(fn, *args, seconds=seconds, **{"cache": False, **options})

    def test_regions_are_spliced(self):
        step, x = two_parts, some(8, 8)
        path = self.folder / "times.json"
        tuned = self.tune(step, x, cache=path)
        self.assertFalse(tuned.plan.keeps_xla)
        self.assertGreater(tuned.regions, 0)
        self.assertIsNotNone(tuned.plan.spliced)
        self.assertLess(tuned.kernels_us["chosen"], tuned.kernels_us["XLA"])
        self.assertEqual((tuned.ratio, tuned.comparison), (0.5, tuned.plan.comparison))
        self.assertRegex(str(tuned), r"^kept \d+ regions of other plans; ")
        self.assert_close(step(x), tuned(x))
        self.assertGreater(len(our_fusions(tuned.compiled)), 0)
        tuned.plan.save(self.folder / "plan.zip")
        again = stowage.jax.load(self.folder / "plan.zip")
        self.assertEqual((again.planned, again.spliced, again.keeps_xla), (tuned.plan.planned, tuned.plan.spliced, False))
        self.assert_close(step(x), compile_applied(jax.jit(step), (x,), again)[0](x))
        with open(path) as opened:
            self.assertGreater(len(json.load(opened)["us"]), 0)

    def test_another_constant_is_refused(self):
        x = some(8, 8)

        def step_of(k):
            def step(x):
                return jnp.tanh(x * k) + jnp.sin(x), jnp.sum(jnp.exp(x) * k)

            return step

        tuned = self.tune(step_of(2.0), x)
        self.assertGreater(tuned.regions, 0)
        with self.assertRaisesRegex(stowage.Error, "other constants"), stowage.jax.apply(tuned.plan):
            jax.jit(step_of(3.0)).lower(x).compile(tuned.plan.compiler_options)

    def test_xla_is_kept_where_it_is_faster(self):
        x = some(8, 8)
        tuned = self.tune(two_parts, x, ratio=1.5)
        self.assertEqual((tuned.plan.keeps_xla, tuned.regions, tuned.ratio, tuned.comparison.ratio), (True, 0, 1.0, 1.5))
        self.assertTrue(str(tuned).startswith("kept XLA's own module"))
        self.assert_close(two_parts(x), tuned(x))
        tuned.plan.save(self.folder / "plan.zip")
        again = stowage.jax.load(self.folder / "plan.zip")
        self.assertEqual((again.keeps_xla, again.planned), (True, tuned.plan.module))

    def test_more_memory_than_allowed(self):
        args = layer_arguments()
        tuned = self.tune(layer_step, *args, more_memory=-1.0)  # nothing fits
        self.assertEqual((tuned.plan.keeps_xla, tuned.comparison), (True, None))
        self.assertEqual(sum(line.startswith("temporary memory") for line in tuned.steps), 3)
        counts = []
        fits = _tune._Tuning._fits
        with unittest.mock.patch.object(_tune._Tuning, "_fits", lambda self, c: counts.append(c) or (len(counts) > 1 and fits(self, c))):
            fewer = self.tune(layer_step, *args, more_memory=1e9)
        self.assertEqual(len(counts), 2)
        self.assertLess(fewer.regions, self.tune(layer_step, *args, more_memory=1e9).regions)
        self.assert_close(layer_step(*args), fewer(*args))

    def test_donated_arguments_survive(self):
        p, x = layer_arguments()
        expected = layer_step(p, x)
        tuned = self.tune(jax.jit(layer_step, donate_argnums=0), p, x)
        self.assertTrue(all(not leaf.is_deleted() for leaf in jax.tree.leaves(p)))
        self.assert_close(expected, tuned(p, x))

    def test_no_time(self):
        x = some(8, 8)
        tuned = self.tune(scan_step, x, seconds=0.0)
        self.assertEqual((tuned.plan.keeps_xla, tuned.regions, tuned.comparison, tuned.ratio), (True, 0, None, 1.0))
        self.assertEqual(list(tuned.kernels_us)[0], "XLA")
        self.assert_close(scan_step(x), tuned(x))

    def test_a_function_that_draws(self):
        tuned = self.tune(draws, some(8, 8))
        self.assertTrue(tuned.plan.keeps_xla)


class Verified(Jax):
    def test_the_faster_one_is_kept(self):
        x = some(8, 8)
        for ratio, keeps_xla in ((0.5, False), (1.5, True)):
            with unittest.mock.patch.object(_plan, "compare", verdict(ratio)):
                plan = stowage.jax.plan(scan_step, x, evaluations=5, verify=True)
            self.assertEqual((plan.keeps_xla, plan.comparison.ratio, plan.fuse), (keeps_xla, ratio, not keeps_xla))
            compiled, _ = compile_applied(jax.jit(scan_step), (x,), plan)
            self.assertEqual(len(our_fusions(compiled)) == 0, keeps_xla)
            self.assert_close(scan_step(x), compiled(x))

    def test_both_are_run(self):
        x = some(8, 8)
        with unittest.mock.patch.object(_plan, "_VERIFY_SECONDS", 0.0):
            plan = stowage.jax.plan(jax.jit(scan_step, donate_argnums=0), x, evaluations=5, verify=True)
        self.assertGreaterEqual(plan.comparison.runs, 10)
        self.assertEqual(plan.keeps_xla, not plan.comparison.is_faster)
        self.assertFalse(x.is_deleted())
        self.assertIsNone(stowage.jax.plan(scan_step, x, evaluations=5).comparison)

    def test_what_cannot_be_run(self):
        x = some(8, 8)
        with self.assertRaisesRegex(stowage.Error, "a Capture has none; give the function"):
            stowage.jax.plan(stowage.jax.capture(scan_step, x), verify=True)
        with self.assertRaisesRegex(stowage.Error, "has no values; give arrays"):
            stowage.jax.plan(scan_step, jax.ShapeDtypeStruct((8, 8), jnp.float32), verify=True)


if __name__ == "__main__":
    print(f"library {_library.library._name}" + ("" if LACKS else f", jax {jax.__version__}"))
    sys.exit(run_tests())
