"""The reference simulator against timelines worked out by hand from docs/simulator.md.

In the drawings a row is a device or a channel, `a[0,3)` is task a, `p>1[0,5)` the transfer of p to device 1. All tensors are
of bytes (u8) and, unless a test says otherwise, a link carries one byte per picosecond without latency.
"""

import unittest

import cases
import refsim


class Step:
    """Builds one case, node by node, and runs it."""

    def __init__(self, devices=1, **machine):
        names = range(devices)
        self.nodes, self.device, self.priority, self.group, self.duration = [], [], [], [], []
        self.outputs = []
        self.order = None
        self.machine = {
            "format": "machine", "version": 1, "name": "by hand", "contention": "queue",
            "devices": [{"name": f"d{i}", "kind": "k", "memory_bytes": 10 ** 9, "launch_us": 0, "flops_per_s": {"f32": 1e12},
                         "bandwidth_bytes_per_s": 1e12, "efficiency": {}} for i in names],
            "links": [{"from": f"d{i}", "to": f"d{j}", "bandwidth_bytes_per_s": 1e12, "latency_us": 0}
                      for i in names for j in names if i != j],
        }
        self.machine.update(machine)

    def node(self, op, inputs, size, device=0, duration=None, priority=0, group=None, **more):
        i = len(self.nodes)
        self.nodes.append({"id": i, "name": f"n{i}", "op": op, "inputs": inputs, "dtype": "u8", "shape": [size],
                           "bytes": 0 if more.get("view") else size, **more})
        self.device.append(device)
        self.priority.append(priority)
        self.group.append(i if group is None else group)
        self.duration.append(duration)
        return i

    def parameter(self, size, device=0, priority=0):
        return self.node("parameter", [], size, device, priority=priority)

    def input(self, size):
        return self.node("input", [], size)

    def view(self, of, size, *further):
        return self.node("view", [of, *further], size, self.device[of], view=True)

    def op(self, duration, inputs=(), size=0, device=0, name="relu", **more):
        return self.node(name, list(inputs), size, device, duration, **more)

    def run(self):
        graph = {"format": "opgraph", "version": 1, "name": "by hand", "family": "test", "outputs": self.outputs,
                 "nodes": self.nodes}
        plan = {"format": "plan", "version": 1, "device": self.device, "priority": self.priority, "group": self.group,
                "order": self.order or [None] * len(self.machine["devices"])}
        return refsim.simulate(graph, self.machine, plan, self.duration)


class Timeline(unittest.TestCase):
    def check(self, step, ops, transfers=(), peaks=None, reason=None):
        result = step.run()
        self.assertEqual(result["reason"], reason)
        self.assertEqual(result["ops"], [list(op) for op in ops])
        self.assertEqual(result["transfers"], [list(transfer) for transfer in transfers])
        self.assertEqual(result["step_ps"], max([op[2] for op in ops], default=0))
        if peaks is not None:
            self.assertEqual(result["peak_bytes"], peaks)

    def check_invalid(self, step, reason):
        self.assertEqual(step.run(), {"valid": False, "reason": reason})

    def test_sequence_on_one_device(self):
        # d0: a[0,3) b[3,7)          a: 10 bytes over [0,7), b: 20 over [3,7)
        s = Step()
        a = s.op(3, size=10)
        b = s.op(4, [a, a], size=20)
        self.check(s, [(a, 0, 3), (b, 3, 7)], peaks=[30])

    def test_choice_by_priority_then_ready_time_then_id(self):
        # d0: long[0,5) urgent[5,6) early[6,7) late[7,8) later[8,9)
        # d1: s[0,1) t[1,2)          early is ready at 1, the other three at 2
        s = Step(2)
        first = s.op(1, device=1)
        second = s.op(1, device=1, control=[first])
        long = s.op(5)
        late = s.op(1, control=[second])
        later = s.op(1, control=[second])
        early = s.op(1, control=[first])
        urgent = s.op(1, control=[second], priority=0.5)
        self.check(s, [(first, 0, 1), (second, 1, 2), (long, 0, 5), (late, 7, 8), (later, 8, 9), (early, 6, 7),
                       (urgent, 5, 6)])

    def test_overlap_on_two_devices(self):
        # d0:   a[0,2)
        # 0>1:        a>1[2,12)
        # d1:   b[0,5)          c[12,13)
        # d0 holds a (10) over [0,12); d1 holds b (1) over [0,13), the copy (10) over [2,13), c (1) over [12,13)
        s = Step(2)
        a = s.op(2, size=10)
        b = s.op(5, size=1, device=1)
        c = s.op(1, [a, b], size=1, device=1)
        self.check(s, [(a, 0, 2), (b, 0, 5), (c, 12, 13)], [(a, 1, 10, 2, 12)], [10, 12])

    def test_queued_channel(self):
        # 0>1:  q>1[0,3) p>1[3,8)    q has the higher priority
        # d1:            t[3,4)  r[8,9)
        # d1 holds q's copy (3) over [0,4), p's (5) over [3,9)
        s = Step(2)
        p = s.parameter(5)
        q = s.parameter(3, priority=1)
        r = s.op(1, [p], device=1)
        t = s.op(1, [q], device=1)
        self.check(s, [(r, 8, 9), (t, 3, 4)], [(p, 1, 5, 3, 8), (q, 1, 3, 0, 3)], [8, 8])

    def test_waiting_transfers_by_ready_time(self):
        # d0:   a[0,1)  b[1,2)
        # 0>1:  p>1[0,10) b>1 is ready at 2, a>1 at 1: a>1[10,12) b>1[12,14)
        # d1:   r[10,11)  ra[12,13)  rb[14,15)
        s = Step(2)
        p = s.parameter(10)
        b = s.op(1, size=2, priority=0)
        a = s.op(1, size=2, priority=0)
        s.order = [[a, b], None]
        r = s.op(1, [p], device=1)
        rb = s.op(1, [b], device=1)
        ra = s.op(1, [a], device=1)
        self.check(s, [(b, 1, 2), (a, 0, 1), (r, 10, 11), (rb, 14, 15), (ra, 12, 13)],
                   [(p, 1, 10, 0, 10), (b, 1, 2, 12, 14), (a, 1, 2, 10, 12)])

    def two_way(self, **machine):
        s = Step(2, **machine)
        p = s.parameter(4, device=0)
        q = s.parameter(6, device=1)
        r = s.op(1, [p], device=1)
        t = s.op(1, [q], device=0)
        return s, p, q, r, t

    def test_each_direction_is_its_own_channel(self):
        # 0>1:  p>1[0,4)               1>0:  q>0[0,6)
        s, p, q, r, t = self.two_way()
        self.check(s, [(r, 4, 5), (t, 6, 7)], [(p, 1, 4, 0, 4), (q, 0, 6, 0, 6)])

    def test_bus(self):
        # bus:  p>1[0,4) q>0[4,10)     both directions share it; p goes first by id
        s, p, q, r, t = self.two_way()
        for link in s.machine["links"]:
            link["bus"] = "host"
        self.check(s, [(r, 4, 5), (t, 10, 11)], [(p, 1, 4, 0, 4), (q, 0, 6, 4, 10)])

    def test_contention_none(self):
        # p>1[0,4), q>0[0,6) although they share a bus, and a second value on the same pair: u>1[0,9)
        s, p, q, r, t = self.two_way(contention="none")
        for link in s.machine["links"]:
            link["bus"] = "host"
        u = s.parameter(9)
        v = s.op(1, [u], device=1)
        self.check(s, [(r, 4, 5), (t, 6, 7), (v, 9, 10)], [(p, 1, 4, 0, 4), (q, 0, 6, 0, 6), (u, 1, 9, 0, 9)])

    def test_bytes_of_views(self):
        # a has 100 bytes. d1 reads two slices (10 + 20, one of them twice); d2 a slice and a itself; d3 an expansion to 300.
        # d0:   a[0,1)
        # 0>1:  a>1[1,31)    0>2:  a>2[1,101)    0>3:  a>3[1,101)
        s = Step(4)
        a = s.op(1, size=100)
        whole = s.view(a, 100)
        ten, twenty, large = s.view(whole, 10), s.view(a, 20), s.view(a, 300)
        b = s.op(1, [ten, twenty, ten], device=1)
        c = s.op(1, [ten], device=1)
        d = s.op(1, [a, ten], device=2)
        e = s.op(1, [large], device=3)
        self.check(s, [(a, 0, 1), (b, 31, 32), (c, 32, 33), (d, 101, 102), (e, 101, 102)],
                   [(a, 1, 30, 1, 31), (a, 2, 100, 1, 101), (a, 3, 100, 1, 101)], [100, 30, 100, 100])

    def test_first_input_of_a_view_alone_counts(self):
        # v is a view of the input x; its index, the slow op i, is not read. w is a view of a and a graph output.
        # d0:  i[0,9)           d1: a[0,1) b[1,2)       a (7) is held to the end, 9, and b (2) over [1,2)
        s = Step(2)
        x = s.input(5)
        i = s.op(9)
        v = s.view(x, 5, i)
        a = s.op(1, [v], size=7, device=1)
        w = s.view(a, 3)
        b = s.op(1, control=[v, w], size=2, device=1)
        s.outputs = [w]
        self.check(s, [(i, 0, 9), (a, 0, 1), (b, 1, 2)], peaks=[0, 12])

    def test_parameter_is_sent_at_time_zero(self):
        # d0:   a[0,50)                 the device is busy; the channel does not care
        # 0>1:  p>1[0,5) z>1[5,7)       z has no bytes, but each transfer costs 2 ps of latency
        # d1:            r[7,8)
        s = Step(2)
        p = s.parameter(3)
        z = s.parameter(0)
        a = s.op(50)
        r = s.op(1, [z, p], device=1)
        for link in s.machine["links"]:
            link["latency_us"] = 2e-6
        self.check(s, [(a, 0, 50), (r, 7, 8)], [(p, 1, 3, 0, 5), (z, 1, 0, 5, 7)], [3, 3])

    def test_update_waits_for_readers(self):
        # d0:   late[0,2)              u[12,13) d[13,14)
        # 0>1:  p>1[0,5)
        # d1:            far[5,12)
        # u waits for late, though it comes later in the file, and for far; d, its descendant, waits for u.
        s = Step(2)
        p = s.parameter(5)
        u = s.op(1, [p], size=5, updates=p, name="sub", priority=9)
        far = s.op(7, [p], device=1)
        late = s.op(2, [s.view(p, 2)])
        d = s.op(1, [u, p])
        self.check(s, [(u, 12, 13), (far, 5, 12), (late, 0, 2), (d, 13, 14)], [(p, 1, 5, 0, 5)], [5, 5])

    def test_update_waits_for_copies(self):
        # The only other reader, d, is a descendant, so nothing but the copy of p holds u back.
        # 0>1:  p>1[0,5)            u>1[6,11)
        # d0:            u[5,6)
        # d1:                                d[11,12)
        # u's output takes no memory on d0, its copy does on d1: p's copy (5) over [0,12) and u's (5) over [6,12)
        s = Step(2)
        p = s.parameter(5)
        u = s.op(1, [p], size=5, updates=p, name="sub")
        d = s.op(1, [u, p], device=1)
        self.check(s, [(u, 5, 6), (d, 11, 12)], [(p, 1, 5, 0, 5), (u, 1, 5, 6, 11)], [5, 10])

    def test_wait_that_would_close_a_cycle(self):
        # u updates p and reads q, v updates q and reads p. Added by update id: u waits for v; v for u is left out.
        # d0:   v[0,1) u[1,2)
        s = Step()
        p, q = s.parameter(1), s.parameter(1)
        u = s.op(1, [p, q], updates=p, name="sub")
        v = s.op(1, [q, p], updates=q, name="sub")
        self.check(s, [(u, 1, 2), (v, 0, 1)], peaks=[2])

    def test_rounds_at_one_instant(self):
        # Round 1: d0 starts c, the only one ready, and d1 starts z, which lasts 0 ps. Round 2: z ends, b is ready, too late.
        # d0:   c[0,3) b[3,4)
        # d1:   z[0,0)
        s = Step(2)
        z = s.op(0, size=1000, device=1)
        b = s.op(1, control=[z], priority=5)
        c = s.op(3)
        self.check(s, [(z, 0, 0), (b, 3, 4), (c, 0, 3)], peaks=[0, 0])

    def test_zero_durations_in_a_row(self):
        # d0:   a[0,0) b[0,0) c[0,2)   b becomes ready at 0 and outranks c, which has been ready all along
        # 0>1:  a>1[0,0)               without bytes
        # d1:   x[0,1)
        s = Step(2)
        a = s.op(0, priority=1)
        b = s.op(0, [a], priority=1)
        c = s.op(2, size=3)
        x = s.op(1, [a], size=4, device=1)
        self.check(s, [(a, 0, 0), (b, 0, 0), (c, 0, 2), (x, 0, 1)], [(a, 1, 0, 0, 0)], [3, 4])

    def test_strict_order_waits(self):
        # d1:   slow[0,5)
        # d0:             b[5,6) a[6,7)     a could run at 0, but the order says b first
        s = Step(2)
        slow = s.op(5, device=1)
        a = s.op(1, priority=9)
        b = s.op(1, control=[slow])
        s.order = [[b, a], None]
        self.check(s, [(slow, 0, 5), (a, 6, 7), (b, 5, 6)])

    def test_orders_that_cannot_proceed_together(self):
        # b waits for a and d for c. d0 runs d before a: fine as long as d1 may choose.
        # d0:          d[1,2) a[2,3)
        # d1:   c[0,1)               b[3,4)
        # If d1 runs b before c, then d waits for c, c for b, b for a, a for d: nothing ever starts.
        s = Step(2)
        a = s.op(1)
        b = s.op(1, control=[a], device=1)
        c = s.op(1, device=1)
        d = s.op(1, control=[c])
        s.order = [[d, a], None]
        self.check(s, [(a, 2, 3), (b, 3, 4), (c, 0, 1), (d, 1, 2)])
        s.order = [[d, a], [b, c]]
        self.check_invalid(s, "order")

    def test_order_that_is_no_permutation(self):
        s = Step(2)
        a = s.op(1)
        b = s.op(1, device=1)
        v = s.view(a, 1)
        for wrong in ([], [a, a], [a, b], [b], [v], [a, v]):
            s.order = [wrong, None]
            self.check_invalid(s, "order")
        s.order = [[a], [b]]
        self.check(s, [(a, 0, 1), (b, 0, 1)])

    def test_output_is_kept_and_its_copy_is_not(self):
        # d0:   a[0,2) n[2,16) m[16,20)
        # 0>1:         a>1[2,12)
        # d1:                  r[12,13)    s[20,21)
        # d0: a (10) is a graph output, held to 21; m (100) over [16,20): 110. d1: copy (10) to 13, r (1), then s (50).
        s = Step(2)
        a = s.op(2, size=10)
        n = s.op(14, control=[a])
        m = s.op(4, size=100, control=[n])
        r = s.op(1, [a], size=1, device=1)
        last = s.op(1, size=50, device=1, control=[m])
        s.outputs = [a]
        ops = [(a, 0, 2), (n, 2, 16), (m, 16, 20), (r, 12, 13), (last, 20, 21)]
        self.check(s, ops, [(a, 1, 10, 2, 12)], [110, 50])
        s.outputs = []  # now a is free at 12, when its copy has arrived
        self.check(s, ops, [(a, 1, 10, 2, 12)], [100, 50])

    def test_input_is_freed_after_its_last_reader(self):
        # d0:   a[0,3) b[3,5) c[5,6)   x (40) over [0,3) on d0; a (5) over [0,5), b (42) over [3,6), c (1) over [5,6)
        # d1:   e[0,9)                 x (40) over [0,9) on d1
        s = Step(2)
        x = s.input(40)
        a = s.op(3, [s.view(x, 1)], size=5)
        b = s.op(2, [a], size=42)
        c = s.op(1, [b], size=1)
        e = s.op(9, [x], device=1)
        s.outputs = [x]  # changes nothing for an input
        self.check(s, [(a, 0, 3), (b, 3, 5), (c, 5, 6), (e, 0, 9)], peaks=[47, 40])

    def test_group_with_recomputation(self):
        # r is recomputed in the groups {b, r} and {c, d, r}; both read p, which is on d1.
        # 1>0:  p>0[0,6)
        # d0:            b[6,8) c+d[8,11)
        # d0: p's copy (6) over [0,11), b (20) over [6,11), d (30) over [8,11); r and c do not exist
        s = Step(2)
        p = s.parameter(6, device=1)
        r = s.op(None, [p], size=500, group=-1)
        b = s.op(2, [r], size=20)
        c = s.op(3, [r], size=1000, group=77, priority=-1)
        d = s.op(None, [c, s.view(r, 9)], size=30, group=77, priority=0)
        s.outputs = [b, d]
        self.check(s, [(b, 6, 8), (c, 8, 11)], [(p, 0, 6, 0, 6)], [56, 6])

    def test_unused_outputs(self):
        # An op alone holds its output while it runs; in a group it does not exist. d0: a[0,1) b+c[1,3) d[3,4)
        # a 8 over [0,1); b, c and their group nothing; d, which recomputes e, nothing either
        s = Step()
        a = s.op(1, size=8)
        b = s.op(2, control=[a], size=50, group=7)
        c = s.op(None, [b], size=60, group=7)
        e = s.op(None, control=[c], size=70, group=-1)
        d = s.op(1, [e], size=80)
        self.check(s, [(a, 0, 1), (b, 1, 3), (d, 3, 4)], peaks=[8])

    def test_output_of_a_group_is_sent_with_its_priority(self):
        # d0:   g[0,1)                 g = {a, b}, priority 5 from b; so both go before p, a too, whose own is 0
        # 0>1:  q>1[0,4) a>1[4,6) b>1[6,9) p>1[9,10)
        s = Step(2)
        q = s.parameter(4, priority=9)
        p = s.parameter(1, priority=3)
        a = s.op(1, size=2, group=3)
        b = s.op(None, size=3, group=3, priority=5)
        r = s.op(1, [q, a, b, p], device=1)
        self.check(s, [(a, 0, 1), (r, 10, 11)],
                   [(q, 1, 4, 0, 4), (p, 1, 1, 9, 10), (a, 1, 2, 4, 6), (b, 1, 3, 6, 9)], [10, 10])

    def test_whoever_waits_for_a_recomputed_op(self):
        # x waits for r, which runs inside b on d0 and inside c, also on d0. d0: b[0,2) c[2,5)   d1: x[5,6)
        s = Step(2)
        r = s.op(None, group=-1)
        b = s.op(2, [r])
        c = s.op(3, [r])
        x = s.op(1, device=1, control=[r])
        self.check(s, [(b, 0, 2), (c, 2, 5), (x, 5, 6)])

    def test_nothing_to_do(self):
        # No task: the step lasts 0 ps, and what is held for 0 ps does not count.
        s = Step()
        s.parameter(5)
        self.check(s, [], peaks=[0])

    def test_memory_is_a_limit(self):
        # d0: a[0,1) holds exactly 10 bytes
        s = Step()
        a = s.op(1, size=10)
        s.machine["devices"][0]["memory_bytes"] = 10
        self.check(s, [(a, 0, 1)], peaks=[10])
        s.machine["devices"][0]["memory_bytes"] = 9
        self.check(s, [(a, 0, 1)], peaks=[10], reason="memory")

    def test_overflow(self):
        # d0: a[0,2^61) b[2^61,2^62) is the longest step there is
        s = Step()
        a = s.op(2 ** 61)
        b = s.op(2 ** 61)
        self.check(s, [(a, 0, 2 ** 61), (b, 2 ** 61, 2 ** 62)])
        s.op(1)
        self.check_invalid(s, "overflow")

    def test_reasons_in_their_order(self):
        # Everything is wrong at once; one after the other is put right.
        s = Step(2, links=[])
        p = s.parameter(5, device=1)
        u = s.op(2 ** 62 + 1, [p], updates=p, name="mystery_op")
        a = s.op(1, [p], size=20, group=u)
        s.order = [[a], None]
        self.check_invalid(s, "colocation")
        s.device[u] = 1
        self.check_invalid(s, "groups")
        s.group[a] = a
        s.order = [[a, a], None]
        self.check_invalid(s, "links")
        s.machine["links"] = [{"from": "d1", "to": "d0", "bandwidth_bytes_per_s": 1e12, "latency_us": 0}]
        self.check_invalid(s, "order")
        s.order = [[a], None]
        self.check_invalid(s, "overflow")
        s.duration[u] = 1
        s.machine["devices"][0]["memory_bytes"] = 24
        # 1>0: p>0[0,5)   d0: a[5,6)   d1: u[6,7)
        self.check(s, [(u, 6, 7), (a, 5, 6)], [(p, 0, 5, 0, 5)], [25, 5], reason="memory")

    def test_colocation_of_any_node(self):
        s = Step(2)
        x = s.input(1)
        a = s.op(1)
        v = s.view(a, 1)
        b = s.op(1, device=1, colocate=x)
        self.check(s, [(a, 0, 1), (b, 0, 1)])
        s.nodes[b]["colocate"] = v
        self.check_invalid(s, "colocation")
        s.device[b] = 0
        s.device[v] = 1  # ignored: a view is where its root is
        self.check(s, [(a, 0, 1), (b, 1, 2)])


class Groups(unittest.TestCase):
    """Legal or not: `ok` runs, everything else is refused for its groups."""

    def verdict(self, step):
        return step.run()["reason"]

    def pair(self, first, then, linked=True, **device):
        s = Step()
        s.machine["devices"][0].update(device)
        a = s.op(1, name=first, group=5)
        s.op(1, [a] if linked else [], name=then, group=5)
        return self.verdict(s)

    def test_classes(self):
        self.assertIsNone(self.pair("new_zeros", "cat"))
        self.assertEqual(self.pair("mystery_op", "add"), "groups")
        self.assertEqual(self.pair("mm", "add"), "groups")
        self.assertEqual(self.pair("mm", "add", fuses_epilogue=["convolution"]), "groups")
        self.assertIsNone(self.pair("mm", "add", fuses_epilogue=["convolution", "matmul"]))
        self.assertEqual(self.pair("add", "mm", fuses_epilogue=["matmul"]), "groups")
        self.assertIsNone(self.pair("add", "mm", linked=False, fuses_epilogue=["matmul"]))
        self.assertEqual(self.pair("mm", "bmm", linked=False, fuses_epilogue=["matmul"]), "groups")

    def test_recomputed_ops(self):
        s = Step(2)
        r = s.op(None, group=-1)
        self.assertEqual(self.verdict(s), "groups")  # nobody reads it
        v = s.view(r, 1)
        self.assertEqual(self.verdict(s), "groups")  # a view is no reader
        b = s.op(1, [v])
        self.assertIsNone(self.verdict(s))
        s.outputs = [v]
        self.assertEqual(self.verdict(s), "groups")
        s.outputs = [b]
        s.op(1, [r], device=1)
        self.assertEqual(self.verdict(s), "groups")  # a reader elsewhere

    def test_update_is_not_recomputed(self):
        s = Step()
        p = s.parameter(1)
        u = s.op(None, [p], updates=p, group=-1)
        s.op(1, [u])
        self.assertEqual(self.verdict(s), "groups")

    def test_cycle(self):
        # a -> m -> b with a and b in one group, over data, over control, and over the wait of an update
        for inputs, control in (([0], []), ([], [0])):
            s = Step()
            s.op(1, group=9)
            m = s.op(1, inputs, control=control, name="mystery_op")
            s.op(1, [m], group=9)
            self.assertEqual(self.verdict(s), "groups")
        s = Step()
        p = s.parameter(1)
        a = s.op(1, [p], group=9)  # u waits for a, and b in a's group reads u
        u = s.op(1, [p], updates=p)
        b = s.op(1, [u], group=9)
        self.assertEqual(self.verdict(s), "groups")
        s.group[b] = b
        self.assertIsNone(self.verdict(s))

    def test_limits(self):
        for members, reason in ((64, None), (65, "groups")):
            s = Step()
            s.op(None, group=-1)
            for i in range(members - 1):
                s.op(1, [i], group=1)
            self.assertEqual(self.verdict(s), reason)
        for values, reason in ((94, None), (95, "groups")):  # with the two outputs: 96, 97
            s = Step()
            many = [s.input(1) for _ in range(values)]
            cat = s.op(1, many, name="cat", group=1)
            s.outputs = [cat, s.op(1, [cat], group=1)]
            self.assertEqual(self.verdict(s), reason)
            s.group[s.outputs[1]] = 2  # alone they may read what they like
            self.assertIsNone(self.verdict(s))


class Rounding(unittest.TestCase):
    def test_halves_go_away_from_zero(self):
        for x, rounded in ((0.5, 1), (1.5, 2), (2.5, 3), (2.4999999999999996, 2), (-0.5, -1), (-2.5, -3), (0.0, 0)):
            self.assertEqual(refsim.llround(x), rounded)

    def test_where_adding_a_half_fails(self):
        self.assertEqual(refsim.llround(0.49999999999999994), 0)
        self.assertEqual(refsim.llround(2.0 ** 52 + 1), 2 ** 52 + 1)
        self.assertEqual(refsim.llround(1e24), int(1e24))

    def test_transfer(self):
        link = {"latency_us": 2.5e-6, "bandwidth_bytes_per_s": 2e12}
        self.assertEqual(refsim.transfer_ps(link, 0), 3)  # 2.5
        self.assertEqual(refsim.transfer_ps(link, 4), 5)  # 4.5
        self.assertEqual(refsim.transfer_ps(link, 5), 5)  # 5.0


class RandomCases(unittest.TestCase):
    """What must hold on every timeline, whatever the numbers."""

    def test_laws(self):
        for number in range(300):
            case = cases.make_case("laws", number)
            evaluation = cases.run(case)
            if evaluation.tasks is not None:
                with self.subTest(case=number):
                    self.check_laws(case, evaluation)

    def check_laws(self, case, evaluation):
        tasks = list(evaluation.tasks.by_id.values())
        transfers = list(evaluation.transfers.values())
        order = case["plan"].get("order") or [None] * len(case["machine"]["devices"])
        for device in range(len(case["machine"]["devices"])):
            own = [task for task in tasks if task.device == device]
            self.check_one_at_a_time(own)
            if order[device] is None:
                self.check_never_idle(own)
            else:
                starts = {task.id: task.start for task in own}
                self.assertEqual([starts[i] for i in order[device]], sorted(starts.values()))
        for channel in {t.channel for t in transfers if t.channel is not None}:
            own = [t for t in transfers if t.channel == channel]
            self.check_one_at_a_time(own)
            self.check_never_idle(own)
        for t in transfers:
            if t.channel is None:
                self.assertEqual(t.start, t.ready)
        self.check_causes(evaluation.tasks, evaluation.transfers)

    def check_one_at_a_time(self, things):
        things = sorted(things, key=lambda thing: (thing.start, thing.end))
        for first, then in zip(things, things[1:]):
            self.assertLessEqual(first.end, then.start)

    def check_never_idle(self, things):
        """While something waits, its device or channel is busy."""
        for waiting in things:
            covered = sum(max(0, min(other.end, waiting.start) - max(other.start, waiting.ready)) for other in things)
            self.assertEqual(covered, waiting.start - waiting.ready)

    def check_causes(self, tasks, transfers):
        """Nothing is ready before its last cause, nor later."""
        for t in transfers.values():
            writer = tasks.writer(t.value)
            self.assertEqual(t.ready, writer.end if writer else 0)
        for task in tasks.by_id.values():
            causes = [0] + [tasks.by_id[i].end for i in task.waits]
            for value in task.reads:
                copy, writer = transfers.get((value, task.device)), tasks.writer(value)
                causes.append(copy.end if copy else writer.end if writer else 0)
            updated = {tasks.graph.updates.get(op) for op in task.members}
            causes += [t.end for t in transfers.values() if t.value in updated]
            self.assertEqual(task.ready, max(causes))


if __name__ == "__main__":
    unittest.main()
