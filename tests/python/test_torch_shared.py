#!/usr/bin/env python3
"""Memory that ranks of one host share: how it is found, that a slot is not written again too early, and who is blamed when nothing comes.

    STOWAGE_LIBRARY=build/release/libstowage.so build/venv/bin/python3 tests/python/test_torch_shared.py [names of tests]

Both sides are objects of this process; test_torch_ranks.py has steps that run in several. Calibration starts processes of its own.
"""
import os
import subprocess
import sys
import types
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import torch_lacks  # noqa: E402

LACKS = torch_lacks()
if not LACKS:
    import torch

    import stowage
    import stowage.torch
    from stowage.torch.calibrating import _process_bench
    from stowage.torch.running import _messages, _shared

    LACKS = _shared.lacks()


def message(tag, source, target, traced):
    node = types.SimpleNamespace(meta={"val": traced}, name=f"n{tag}")
    return _messages.Message(tag, node, source, target, None, (), False, False, _messages._axes(node))


def connected(messages, count=2, timeout=60.0):
    """Ranks with one device each that share memory."""
    made = [_shared.Shared(rank, list(range(count)), messages, lambda: "", lambda: timeout) for rank in range(count)]
    announced = [shared.announcement() for shared in made]
    opened = [shared.open(announced) for shared in made]
    for shared in made:
        assert shared.keep(opened), opened
    return made


@unittest.skipIf(LACKS, LACKS)
class Slots(unittest.TestCase):
    def test_values_arrive_as_they_were(self):
        image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
        values = [torch.randn(3, 4).t(), image, torch.randn(()), torch.empty(0, 3), torch.tensor([True, False]), torch.arange(5),
                  torch.randn(4, 6)[:, :3], torch.randn(2, 2, dtype=torch.complex64).conj(), torch.randn(3).to(torch.bfloat16)]  # fmt: skip
        messages = [message(k, 0, 1, value) for k, value in enumerate(values)]
        a, b = connected(messages)
        for _ in range(3):
            a.begin()
            b.begin()
            for m, value in zip(messages, values):
                a.sender(m)(value)
                arrived = b.taker(m)()
                self.assertTrue(torch.equal(arrived, value), m)
                if _messages._axes(m.node) != tuple(range(value.dim())):
                    self.assertEqual(arrived.stride(), value.stride())

    def test_a_slot_is_not_written_before_its_reader_has_begun_the_next_step(self):
        m = message(0, 0, 1, torch.zeros(4))
        a, b = connected([m], timeout=0.0)
        send, take = a.sender(m), b.taker(m)
        a.begin()
        send(torch.full((4,), 1.0))
        b.begin()
        first = take()
        a.begin()
        send(torch.full((4,), 2.0))  # into the other slot
        self.assertEqual(first.tolist(), [1.0] * 4)
        a.begin()
        with self.assertRaisesRegex(stowage.Error, "rank 1 is gone"):
            send(torch.full((4,), 3.0))
        self.assertEqual(first.tolist(), [1.0] * 4)
        b.begin()
        self.assertEqual(take().tolist(), [2.0] * 4)
        send(torch.full((4,), 3.0))  # where the first was
        self.assertEqual(first.tolist(), [3.0] * 4)

    def test_a_reader_may_write_in_place(self):
        m = message(0, 0, 1, torch.zeros(2))
        a, b = connected([m])
        a.begin()
        b.begin()
        sent = torch.ones(2)
        a.sender(m)(sent)
        b.taker(m)().add_(1)
        self.assertEqual(b.taker(m)().tolist(), [2.0, 2.0])
        self.assertEqual(sent.tolist(), [1.0, 1.0])

    def test_another_shape_is_refused(self):
        m = message(0, 0, 1, torch.zeros(2))
        a, _ = connected([m])
        a.begin()
        for wrong in (torch.zeros(3), torch.zeros(2, dtype=torch.float64)):
            with self.assertRaisesRegex(stowage.Error, "n0 is .*; the trace has"):
                a.sender(m)(wrong)

    def test_memory_outlives_its_rank(self):
        m = message(0, 0, 1, torch.zeros(2))
        a, b = connected([m])
        a.begin()
        b.begin()
        a.sender(m)(torch.ones(2))
        value = b.taker(m)()
        a.close()
        b.close()
        del a, b
        self.assertEqual(value.tolist(), [1.0, 1.0])


@unittest.skipIf(LACKS, LACKS)
class Waits(unittest.TestCase):
    def test_the_rank_at_the_end_of_the_row_is_blamed(self):
        """2 waits for 1, which waits for 0."""
        messages = [message(0, 0, 1, torch.zeros(1)), message(1, 1, 2, torch.zeros(1))]
        _, b, c = connected(messages, 3, timeout=0.0)
        b.begin()
        c.begin()
        for shared, m in ((b, messages[0]), (c, messages[1])):
            with self.assertRaisesRegex(stowage.Error, r"^rank 0 is gone \(it has sent nothing for 0 s\)$"):
                shared.taker(m)()

    def test_a_rank_that_has_failed_is_noticed(self):
        m = message(0, 0, 1, torch.zeros(1))
        a, b = connected([m])
        b.begin()
        a.fail()
        with self.assertRaisesRegex(stowage.Error, "rank 0 is gone"):
            b.taker(m)()

    def test_a_failure_of_ones_own_ends_the_wait(self):
        m = message(0, 0, 1, torch.zeros(1))
        a, b = connected([m])
        b.begin()
        b._failure = lambda: "rank 1: something else"
        with self.assertRaisesRegex(stowage.Error, "rank 1: something else"):
            b.taker(m)()
        self.assertEqual(a.step, 0)


@unittest.skipIf(LACKS, LACKS)
class Segments(unittest.TestCase):
    def open_instead(self, change):
        """What rank 0 says of an announcement of rank 1 in which something is not as it should be."""
        m = message(0, 1, 0, torch.zeros(2))
        a, b = (_shared.Shared(rank, [0, 1], [m], lambda: "", lambda: 60.0) for rank in range(2))
        announced = [a.announcement(), b.announcement()]
        fields = list(_shared._ANNOUNCED.unpack(announced[1]))
        change(fields)
        opened = a.open([announced[0], _shared._ANNOUNCED.pack(*fields)])
        a.close()
        b.close()
        return opened[1]

    def test_what_is_announced_is_checked(self):
        self.assertEqual(self.open_instead(lambda fields: None), 1)
        other = _shared.new_file(4096)  # too small
        same = _shared.new_file(8192)  # the size is right
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        for k, value in ((0, False), (1, b"\1" * 32), (2, b"\1" * 16), (3, gone.pid), (4, 10**6), (4, other), (4, same), (5, -1), (6, -1)):
            with self.subTest(field=k):
                self.assertEqual(self.open_instead(lambda fields, k=k, value=value: fields.__setitem__(k, value)), 0)
        os.close(other)
        os.close(same)
        with self.assertRaisesRegex(stowage.Error, "rank 1 shares 4096 bytes for what it sends, and 8192 are expected"):
            self.open_instead(lambda fields: fields.__setitem__(7, 4096))

    def test_a_segment_keeps_its_size(self):
        file = _shared.new_file(8192)
        for size in (4096, 16384):
            with self.assertRaises(PermissionError):
                os.ftruncate(file, size)
        os.close(file)

    def test_without_memory_the_others_are_told(self):
        """A message that no machine can hold."""
        m = message(0, 0, 1, torch.empty(1 << 58, dtype=torch.uint8, device="meta"))
        a, b = (_shared.Shared(rank, [0, 1], [m], lambda: "", lambda: 60.0) for rank in range(2))
        announced = [a.announcement(), b.announcement()]
        self.assertIn("bytes of memory to share", a.why)
        opened = [a.open(announced), b.open(announced)]
        self.assertEqual([a.keep(opened), b.keep(opened)], [False, False])
        self.assertFalse(a.carries(m) or b.carries(m))

    def test_carriers_have_names(self):
        module, x = torch.nn.Linear(2, 2), torch.randn(1, 2)
        plan = stowage.Simulator(stowage.torch.trace(module, x), "h200x1").run("single")
        with self.assertRaisesRegex(ValueError, "carrier is 'pigeon'"):
            stowage.torch.place(module, x, plan=plan, devices=["cpu:0"], carrier="pigeon")


@unittest.skipIf(LACKS, LACKS)
class Calibrated(unittest.TestCase):
    def test_devices_in_processes_of_their_own(self):
        module, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 2)), torch.randn(4, 8)
        core = min(os.sched_getaffinity(0))
        found = stowage.torch.calibrate([f"cpu:{core}@0", f"cpu:{core}@1"], module, x)
        self.assertEqual([d["name"] for d in found.machine["devices"]], [f"0:cpu:{core}@0", f"1:cpu:{core}@1"])
        self.assertEqual(len(found.machine["links"]), 2)
        for link in found.machine["links"]:
            self.assertGreater(link["send_us"], 0)
            self.assertGreater(link["receive_us"], 0)
            self.assertGreater(len(link["bandwidth_bytes_per_s"]), 2)
        ops = {node["id"] for node in found.file["nodes"] if node["op"] not in ("parameter", "input", "constant") and not node.get("view")}
        alone, company = found.alone["cpu1"], found.company["cpu1"]
        self.assertEqual((list(found.alone), set(alone)), (["cpu1"], ops))
        self.assertTrue(all(0 < alone[k] <= company[k] for k in ops))
        single = stowage.Simulator(found.graph, found.machine).run("single")
        self.assertAlmostEqual(1e6 * found.predict(single).step, sum(alone.values()), delta=0.01)

    def test_processes_and_threads_together_are_refused(self):
        core = min(os.sched_getaffinity(0))
        for names in ([f"cpu:{core}@0", f"cpu:{core}@1", f"cpu:{core}@1"], [f"cpu:{core}", f"cpu:{core}@1"]):
            with self.assertRaisesRegex(stowage.Error, "give each a rank of its own, or none"):
                stowage.torch.calibrate(names)

    def test_a_step_that_another_process_cannot_have(self):
        """What the module defines itself is not known there."""
        with self.assertRaisesRegex(stowage.Error, "the step cannot be sent to another process"):
            _process_bench._pickled({"f1": lambda: 0})


if __name__ == "__main__":
    sys.exit(run_tests())
