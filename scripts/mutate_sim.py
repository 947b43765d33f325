#!/usr/bin/env python3
"""Puts deliberate faults into a copy of the simulator, one at a time, and checks that the tests find each of them.

    mutate_sim.py [--cases N] [--jobs N] [--only WORDS]

A fault is one or more exact replacements in a file; a text that is not there exactly once is an error, so that these lists are
kept up to date when the code changes. For each fault only the changed file is compiled (or what includes the changed header) and
a program is linked anew:

- `replay` for faults in the simulation. It answers the cases of tests/reference/test_against_reference.py, whose expected answers
  are computed once. A fault is caught if an answer differs, or if the program crashes or hangs.
- tests/sim/test_bounds.c for faults in the lower bounds, tests/sim/test_levels.c for those in heads and tails. A fault is caught if a
  test fails, or if the program crashes or hangs.

The last line is "N passed, M failed"; exits 1 if a fault survives or cannot be applied.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "reference"))
sys.dont_write_bytecode = True

import test_against_reference as agreement  # noqa: E402

COMPILER = os.environ.get("CC", "cc")
FLAGS = ["-std=c11", "-O1", "-ffp-contract=off", "-w"]
LIBRARIES = ["-lz", "-lzstd", "-lm", "-lpthread"]
TIMEOUT_S = 30

ENGINE = "src/sim/engine.c"
QUEUES = "src/sim/queues.h"
CHARGES = "src/sim/charges.c"
CHARGES_H = "src/sim/charges.h"
SIMULATOR = "src/sim/simulator.c"
TASKS = "src/plan/tasks.c"
MEMBERSHIP = "src/plan/membership.c"
MODEL = "src/cost/model.c"
WAITS = "src/graph/derive.c"
MACHINE = "src/machine/machine.c"
BOUNDS = "src/sim/bounds.c"
LEVELS = "src/sim/levels.c"

# (what is wrong, file, (text, replacement), ...)
FAULTS = [
    # time and queues
    ("tasks alike in priority and ready time: the larger id first", QUEUES,
     ("    return a->task < b->task;", "    return a->task > b->task;")),
    ("tasks: the later ready time first", QUEUES,
     ("    if (a->ready_ps != b->ready_ps) return a->ready_ps < b->ready_ps;\n    return a->task",
      "    if (a->ready_ps != b->ready_ps) return a->ready_ps > b->ready_ps;\n    return a->task")),
    ("transfers: producer id before ready time", QUEUES,
     ("    if (a->ready_ps != b->ready_ps) return a->ready_ps < b->ready_ps;\n    if (a->value != b->value)",
      "    if (a->value != b->value)")),
    ("transfers of one value: the larger destination first", QUEUES,
     ("    return a->to < b->to;", "    return a->to > b->to;")),
    ("at one instant, starts after the first finish already", ENGINE,
     ("        while (e->ending_count > 0 && e->ending[0].time_ps == e->now) {",
      "        if (e->ending_count > 0 && e->ending[0].time_ps == e->now) {")),
    ("a strict order is only a preference", ENGINE,
     ("            const int32_t next = e->order_next[d];\n"
      "            if (next == e->order_count[d] || e->state[e->order[d][next]].pending > 0) continue;\n"
      "            e->order_next[d]++;\n",
      "            int32_t next = 0;\n"
      "            while (next < e->order_count[d] && e->state[e->order[d][next]].pending != 0) next++;\n"
      "            if (next == e->order_count[d]) continue;\n"
      "            e->state[e->order[d][next]].pending = 1 << 30;\n"
      "            e->order_next[d]++;\n")),
    ("a link must go both ways", SIMULATOR,
     ("stw_machine_link(v->s->machine, from, to)->bandwidth > 0.0",
      "stw_machine_link(v->s->machine, from, to)->bandwidth * stw_machine_link(v->s->machine, to, from)->bandwidth > 0.0")),
    ("too long a step hides orders that cannot be kept", SIMULATOR,
     ("    if (result.unfinished > 0) {", "    if (result.unfinished > 0 && !result.overflow) {")),
    ("a parameter's priority is ignored", ENGINE,
     ("place_resident(e, value, plan->device[node], plan->priority[node]);", "place_resident(e, value, plan->device[node], 0.0);")),
    ("a bus is no more than its pairs of devices", MACHINE,
     ("            int32_t *shared = machine->queues && link->bus >= 0 ? &bus_channel[link->bus] : NULL;",
      "            int32_t *shared = NULL;")),
    ("contention none: channels are held all the same", ENGINE,
     ("    if (e->machine->queues) {\n", "    {\n"),
     ("    if (e->machine->queues) e->channel_running[channel] = t;", "    e->channel_running[channel] = t;"),
     ("        while (!e->machine->queues && e->channel_queue[channel] >= 0);", "        while (false);")),
    ("a transfer without bytes takes no time", MODEL,
     ("    return round_ps(link->latency_us * 1e6 + stw_link_bytes_s",
      "    return bytes == 0 ? 0 : round_ps(link->latency_us * 1e6 + stw_link_bytes_s")),
    ("up to the first point of a table, the last rate", MACHINE,
     ("    if (k == 0) return bytes / rates[0].rate;", "    if (k == 0) return bytes / link->bandwidth;")),
    ("beyond the last point of a table, the first rate", MACHINE,
     ("    if (k == link->rate_count) return bytes / link->bandwidth;",
      "    if (k == link->rate_count) return bytes / rates[0].rate;")),
    ("between two points of a table, the rate of the next", MACHINE,
     ("    return between < above ? between : above;", "    (void)between;\n    return bytes / rates[k].rate;")),
    ("halves are rounded down", MODEL, ("(ps - (double)whole >= 0.5)", "(ps - (double)whole > 0.5)")),
    ("a step of exactly 2^62 ps is too long", ENGINE,
     ("    if (duration > STW_MAX_STEP_PS - e->now) e->overflow = true;",
      "    if (duration >= STW_MAX_STEP_PS - e->now) e->overflow = true;")),
    # charges
    ("who sends pays nothing", CHARGES,
     ("    if (sender >= 0) c->charge[sender] = stw_add_ps(c->charge[sender], send);\n", "    (void)sender, (void)send;\n")),
    ("who receives pays nothing", CHARGES,
     ("    c->charge[receiver] = stw_add_ps(c->charge[receiver], receive);\n", "    (void)receiver, (void)receive;\n")),
    ("the two charges are exchanged", CHARGES,
     ("stw_cost_us_to_ps(link->send_us)", "stw_cost_us_to_ps(link->receive_us)"),
     ("receive = stw_scale_ps(c->options, stw_cost_us_to_ps(link->receive_us)",
      "receive = stw_scale_ps(c->options, stw_cost_us_to_ps(link->send_us)")),
    ("the largest id receives", CHARGES, ("|| task < receiver[d])", "|| task > receiver[d])")),
    ("the reader of the first view receives", CHARGES, (" || task < receiver[d])", ")")),
    ("a task pays for one of the transfers that it sends", CHARGES,
     ("c->charge[sender] = stw_add_ps(c->charge[sender], send);", "c->charge[sender] = send;")),
    ("a task pays for one of the transfers that it receives", CHARGES,
     ("c->charge[receiver] = stw_add_ps(c->charge[receiver], receive);", "c->charge[receiver] = receive;")),
    ("the link back charges", CHARGES,
     ("stw_machine_link(c->machine, from, to);", "stw_machine_link(c->machine, to, from);")),
    ("parameters charge nobody", CHARGES, ("value] & STW_VALUE_EVERYWHERE) continue;", "value] & (STW_VALUE_EVERYWHERE | STW_VALUE_RESIDENT)) continue;")),
    ("inputs and constants charge too", CHARGES, ("value] & STW_VALUE_EVERYWHERE) continue;", "value] & 0) continue;")),
    ("values without bytes charge nothing", CHARGES,
     ("value] & STW_VALUE_EVERYWHERE) continue;", "value] & STW_VALUE_EVERYWHERE || tasks->value_bytes[value] == 0) continue;")),
    ("a task without a duration pays nothing", ENGINE,
     ("    return e->charge == NULL ? own :", "    return e->charge == NULL || own == 0 ? own :")),
    ("charges are not busy time", ENGINE,
     ("    e->busy[device] += end - e->now;", "    e->busy[device] += end - e->now - (e->charge != NULL && !e->overflow ? e->charge[task] : 0);")),
    ("charges that last too long start over", CHARGES_H,
     ("return b > STW_MAX_STEP_PS - a ? INT64_MAX : a + b;", "return (int64_t)(((uint64_t)a + (uint64_t)b) & ((1ULL << 62) - 1));")),
    # views
    ("the bytes of views are not capped", ENGINE,
     ("    e->dest_bytes[device] = part >= whole - e->dest_bytes[device] ? whole : e->dest_bytes[device] + part;",
      "    e->dest_bytes[device] += part;")),
    ("a view that two ops read is sent twice", ENGINE,
     ("    if (e->dest_view[device] == use->view) return;\n", "")),
    # updates and control
    ("an update does not wait for the copies of its parameter", ENGINE,
     ("    if (updater >= 0) e->state[updater].pending += e->transfer_count - before;\n", ""),
     ("    if (tasks->value_updater[value] >= 0) fulfil(e, tasks->value_updater[value]);\n", "")),
    ("an update does not wait for the other readers", WAITS,
     ("            if (edges == NULL || stw_acyclic_add(edges, readers[r], i)) graph->wait",
      "            if (false) graph->wait")),
    ("an update does not wait for readers that come later in the file", WAITS,
     ("            if (edges == NULL || stw_acyclic_add(edges, readers[r], i)) graph->wait",
      "            if (readers[r] < i) graph->wait")),
    ("a control edge from a view is ignored", WAITS,
     ("        const int32_t before = graph->root[graph->control[k]];", "        const int32_t before = graph->control[k];")),
    # memory
    ("a copy takes memory only when it has arrived", ENGINE,
     ("    hold_memory(e, e->transfer[t].to, e->transfer[t].bytes);\n", ""),
     ("    const int32_t value = e->transfer_value[t], hold = e->transfer_hold[t];\n",
      "    const int32_t value = e->transfer_value[t], hold = e->transfer_hold[t];\n"
      "    hold_memory(e, transfer->to, transfer->bytes);\n")),
    ("an output is freed before its transfer has ended", ENGINE,
     ("        queue_transfer(e, value, home, __builtin_ctzll(left), priority);\n        users++;\n",
      "        queue_transfer(e, value, home, __builtin_ctzll(left), priority);\n"),
     ("    drop_user(e, value, transfer->from);\n", "")),
    ("a graph output is freed", ENGINE, ("tasks->value_flags[value] & STW_VALUE_KEPT ? 2 : 1", "1")),
    ("the output of an update takes memory", TASKS,
     ("tasks->value_flags[v] & STW_VALUE_IN_PLACE ? 0 : graph->bytes[node]", "graph->bytes[node]")),
    ("an input stays to the end of the step", ENGINE,
     ("            e->hold_users[e->dest_hold[d]] = 0;", "            e->hold_users[e->dest_hold[d]] = 1;")),
    ("the peak is taken within an instant", ENGINE,
     ("    e->grown |= 1ULL << device;\n",
      "    if (e->held[device] > e->peak[device]) e->peak[device] = e->held[device];\n")),
    ("a device that is exactly full is too full", SIMULATOR, ("    int64_t most = 0;", "    int64_t most = -1;")),
    # groups
    ("the priority of a group is the smallest of its members", SIMULATOR,
     ("if (t >= 0 && plan->priority[i] > v->priority[t])", "if (t >= 0 && plan->priority[i] < v->priority[t])")),
    ("the inputs of a recomputed op are not read", TASKS,
     ("            if (!inside) out[count++]", "            if (!inside && b->m->task_of[op] >= 0) out[count++]")),
    ("who waits for a recomputed op waits for the first group only", TASKS,
     ("                for (int32_t c = m->computer_start[before]; c < m->computer_start[before + 1]; c++) {",
      "                for (int32_t c = m->computer_start[before]; c < m->computer_start[before] + 1; c++) {")),
    ("every output of a group is written", TASKS,
     ("    if (b->graph->kept[op] || member_count(b->m, task) == 1) return true;", "    return true;")),
    ("a graph output may be recomputed", MEMBERSHIP,
     ('        if (graph->kept[i]) return illegal(arena, graph, i, "is a graph output and cannot be recomputed");\n', "")),
    ("a leader may read from its own group", MEMBERSHIP,
     ("            if (reads_inside(graph, m, t, op)) return", "            if (false) return")),
    ("64 written members are too many", MEMBERSHIP,
     ("    if (count > STW_MAX_GROUP_MEMBERS) return -1;", "    if (count >= STW_MAX_GROUP_MEMBERS) return -1;")),
]

# The same, for the lower bounds. Those that make a bound too low are found only where a test knows it exactly.
BOUND_FAULTS = [
    # with the groups free
    ("the ratio of time to modelled time is taken for 1", BOUNDS,
     ("    const double rho = smallest_ratio(costs, c, &p), ", "    const double rho = 1.0, ")),
    ("the largest ratio of time to modelled time", BOUNDS,
     ("    double least = DBL_MAX;\n    for (int32_t k = 0; k < graph->op_count", "    double least = 0.0;\n    for (int32_t k = 0; k < graph->op_count"),
     ("least = fmin(least,", "least = fmax(least,")),
    ("the worst efficiency", BOUNDS,
     ("    double best = 0.0;", "    double best = 1.0;"), ("best = fmax(best,", "best = fmin(best,")),
    ("the efficiency of leaders does not count", BOUNDS,
     ("        if (may_fuse(p, (uint8_t)c)) best", "        if (stw_op_class_fuses((stw_op_class)c)) best")),
    ("every output crosses the border", BOUNDS, ("    if (written) bytes +=", "    bytes +=")),
    ("what an update writes does not cross the border", BOUNDS,
     ("graph->kept[i] || graph->updates[i] >= 0;", "graph->kept[i];")),
    ("what is read by ops that never fuse does not cross the border", BOUNDS,
     ("i + 1] && !written; r++)", "i + 1] && false; r++)")),
    ("all that is read crosses the border", BOUNDS,
     ("        if (graph->kind[producer] != STW_NODE_OP ||", "        if (true ||")),
    ("each reader of a value reads it for itself", BOUNDS, (" / reader_ops[producer];", ";")),
    ("one who reads a value twice is two readers", BOUNDS,
     (" += e == graph->read_start[i] || graph->read[e].node != graph->read[e - 1].node;", " += 1;")),
    ("the sum of arithmetic and traffic", BOUNDS,
     ("((1.0 - mix) * costs->compute_us[c][i] + mix * traffic_us)", "(costs->compute_us[c][i] + traffic_us)")),
    ("the mean of arithmetic and traffic is not tried", BOUNDS,
     ("half <= 2; half++", "half <= 2; half += 2")),
    ("arithmetic is not tried", BOUNDS, ("    for (int half = 0; half", "    for (int half = 1; half")),
    ("traffic is not tried", BOUNDS, ("half <= 2; half++", "half <= 1; half++")),
    ("an op that never fuses counts as if it did", BOUNDS,
     ("        if (!may_fuse(&p, graph->op_class[i]) || graph->apart[i] != NULL) continue;\n", "")),
    # heads, tails, work
    ("prices are not divided by the number of devices", BOUNDS,
     ("share[c] / in->device_count[c]", "share[c]")),
    ("devices are priced alike", BOUNDS, ("round < ROUNDS;", "round < 1;")),
    ("work is divided by the devices of one kind only", BOUNDS,
     ("        if (weight != NULL) weight[t] = least;", "        if (weight != NULL) weight[t] = least / share[best];")),
    ("the work of an empty set counts", BOUNDS,
     ("        for (; last < leaf[task]; last++)", "        for (; last < T - 1; last++)")),
    ("work is added for one tail only", BOUNDS,
     ("    int32_t left = tree->leaves, right", "    int32_t left = tree->leaves + last, right")),
    ("tasks take what they take on the slowest device", BOUNDS, ("least[t] = fmin(least[t],", "least[t] = fmax(least[t],")),
]

# The same, for heads and tails.
LEVEL_FAULTS = [
    ("a head is that of the task before", LEVELS, ("{ return w->level[u] + w->least[u]; }", "{ return w->level[u]; }")),
    ("heads and tails ignore waits", LEVELS,
     ("            out->arc[count++] = (arc){tasks->waiter[w], 0.0};", "            (void)w;")),
    ("waits take as long as transfers", LEVELS,
     ("(arc){tasks->waiter[w], 0.0};", "(arc){tasks->waiter[w], least_transfer_ps(s->machine, &kinds, 9)};")),
    ("transfers do not count", LEVELS, ("    if (machine->device_count == 1) return 0.0;", "    if (true) return 0.0;")),
    ("the slowest link counts", LEVELS, ("    double least = NEVER;", "    double least = 0.0;"), ("least = fmin(least,", "least = fmax(least,")),
    ("sending is not charged", LEVELS, ("(double)stw_cost_us_to_ps(link->send_us) + ", "")),
    ("the whole value is sent for a view", LEVELS, ("    return view >= 0 && graph->bytes[view] < whole ?", "    return view >= INT32_MAX ?")),
    ("what is sent is sent by the last on the way", LEVELS, ("w->least[u] + fmin(sent, w->apart[u])", "w->least[u] + w->apart[u]")),
    ("of two ways to be apart the longer one counts", LEVELS, ("fmin(sent, w->apart[u])", "fmax(sent, w->apart[u])")),
    ("everything in the list is together", LEVELS, ("low > 0 ? fmin(serial, w->late[low - 1]) : serial;", "run_on_one_device(w, w->count);")),
    ("the list is cut behind only", LEVELS, ("low > 0 ? fmin(serial, w->late[low - 1]) : serial;", "serial;")),
    ("what is apart is not waited for", LEVELS,
     ("    const double serial = fmax(run_on_one_device(w, low), w->late[low]);", "    const double serial = run_on_one_device(w, low);"),
     ("low > 0 ? fmin(serial, w->late[low - 1]) : serial;", "fmin(serial, run_on_one_device(w, low > 0 ? low - 1 : 0));")),
    ("one device does not wait for heads", LEVELS, ("end = fmax(end, w->level[u]) + w->least[u];", "end += w->least[u];")),
    ("one device takes all of the list", LEVELS, ("        if (w->by_level[k] < count) end", "        end")),
    ("the list goes by rising heads", LEVELS,
     ("w->level[w->task[w->by_level[place - 1]]] < w->level[u]", "w->level[w->task[w->by_level[place - 1]]] > w->level[u]")),
    ("kin that is met on the way must be there first", LEVELS,
     ("w->count > 0 ? fmin(next.key, w->late[w->count - 1]) : next.key;", "next.key;")),
    ("a path goes through the task itself", LEVELS,
     ("meet(w, v, a->task, w->least[u] + w->path[u],", "meet(w, v, a->task, w->least[a->task] + w->least[u] + w->path[u],")),
    ("what must be together may be apart", LEVELS, ("    if (w->kin[u] == w->kin[v]) apart = NEVER;\n", "")),
    ("everything must be together", LEVELS, ("    if (w->kin[u] == w->kin[v]) apart = NEVER;", "    apart = NEVER;")),
    ("what is known of one task is taken for the next", LEVELS, ("    if (w->seen[u] != v) {", "    if (w->seen[u] < 0) {")),
    ("tails are not computed", LEVELS, ("    w.level = out->tail;\n    return walk_levels(", "    w.level = out->tail;\n    return STW_OK;\n    return walk_levels(")),
]

ALL_FAULTS = [*FAULTS, *BOUND_FAULTS, *LEVEL_FAULTS]


# ---------------------------------------------------------------------------------------------------------------------
# Building
# ---------------------------------------------------------------------------------------------------------------------


def compile_file(tree, overlay, source, target):
    """`overlay` holds changed files under their old names; it is looked at first."""
    paths = [f"-I{folder / name}" for folder in (overlay, tree) if folder for name in ("src", "include", "tests")]
    page = f'-DSTW_REPORT_PAGE="{tree / "src/report/page"}"'  # files that the report embeds
    command = [COMPILER, *FLAGS, page, *paths, "-c", str(source), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{source.name} does not compile: {done.stderr.strip()[:500]}")


def link(objects, target):
    command = [COMPILER, *map(str, objects), "-o", str(target), *LIBRARIES]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{target.name} does not link: {done.stderr.strip()[:500]}")


class Tree:
    """A copy of the sources with all objects, from which programs with one change each are linked."""

    # What each program needs besides the library.
    SUPPORT = ["tests/support/every_plan.c", "tests/support/random.c", "tests/support/small.c", "tests/test.c"]
    PROGRAMS = {
        "replay": ["tests/sim/replay.c"],
        "test_bounds": ["tests/sim/test_bounds.c", *SUPPORT],
        "test_levels": ["tests/sim/test_levels.c", *SUPPORT],
    }

    def __init__(self, folder, pool):
        self.folder = folder
        for name in ("src", "include", "tests/sim", "tests/support"):
            shutil.copytree(ROOT / name, folder / name)
        for name in ("test.c", "test.h"):
            shutil.copy(ROOT / "tests" / name, folder / "tests")
        (folder / "objects").mkdir()
        sources = [source.relative_to(folder) for source in sorted(folder.glob("src/**/*.c"))]
        sources += [pathlib.Path(source) for source in dict.fromkeys(source for own in self.PROGRAMS.values() for source in own)]
        self.objects = {source: folder / "objects" / f"{k}.o" for k, source in enumerate(sources)}
        list(pool.map(lambda item: compile_file(folder, None, folder / item[0], item[1]), self.objects.items()))

    def affected(self, changed):
        """The sources of the library to be compiled anew when a file changes."""
        if changed.suffix == ".c":
            return [changed]
        line = f'#include "{changed.relative_to("src")}"'
        return [source for source in self.objects if source.parts[0] == "src" and line in (self.folder / source).read_text()]

    def program(self, name, overlay, changed):
        """Links a program with the overlay's version of the changed file; without one, the program as it is."""
        own = [pathlib.Path(source) for source in self.PROGRAMS[name]]
        objects = {source: self.objects[source] for source in self.objects if source.parts[0] == "src" or source in own}
        for k, source in enumerate(self.affected(changed) if changed else []):
            path = overlay / source if changed == source else self.folder / source
            objects[source] = overlay / f"{k}.o"
            compile_file(self.folder, overlay, path, objects[source])
        link(objects.values(), overlay / name)
        return overlay / name


def with_fault(text, file, replacements):
    for old, new in replacements:
        count = text.count(old)
        if count != 1:
            raise RuntimeError(f"{file}: this text is there {count} times, not once: {old.strip()[:100]!r}")
        text = text.replace(old, new)
    return text


def apply_fault(tree, overlay, file, replacements):
    text = with_fault((tree / file).read_text(), file, replacements)
    target = overlay / file
    target.parent.mkdir(parents=True)
    target.write_text(text)


# ---------------------------------------------------------------------------------------------------------------------
# Running
# ---------------------------------------------------------------------------------------------------------------------


def prepare_cases(folder, count):
    """Writes the cases and returns the expected answers with their titles."""
    options = argparse.Namespace(cases=count, seed=1, graphs="")
    with open(folder / "cases.jsonl", "w+") as file:
        return agreement.prepare(options, file, None, agreement.Tally())


def find_difference(program, folder, expected):
    """Words that tell what gave `replay` away, or None."""
    with open(folder / "cases.jsonl") as file:
        try:
            done = subprocess.run([program], stdin=file, capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return "hangs"
    lines = done.stdout.splitlines()
    for number, (_, result) in enumerate(expected):
        answer = agreement.parse_answer(lines, number)
        if isinstance(answer, str) and done.returncode:  # a line that is cut off, or none
            return f"ends with status {done.returncode}"
        found = agreement.differences(result, answer)
        if found:
            return f"case {number}: {found[0]}"
    return f"ends with status {done.returncode}" if done.returncode else None


def find_failed_test(program):
    """Words that tell which tests failed, or None."""
    try:
        done = subprocess.run([program], capture_output=True, text=True, check=False, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return "hangs"
    if not done.returncode:
        return None
    failed = dict.fromkeys(re.findall(r"^\S+:\d+: (\w+\.\w+): ", done.stdout + done.stderr, re.MULTILINE))
    return ", ".join(failed) or f"ends with status {done.returncode}"


class Suite:
    """A list of faults and what looks for them: a program, and a function that says what gave it away, or None."""

    def __init__(self, faults, program, look):
        self.faults = faults
        self.program = program
        self.look = look

    def try_fault(self, tree, fault):
        """(caught, what was seen)"""
        _, file, *replacements = fault
        overlay = pathlib.Path(tempfile.mkdtemp(dir=tree.folder))
        try:
            apply_fault(tree.folder, overlay, file, replacements)
            seen = self.look(tree.program(self.program, overlay, pathlib.Path(file)))
        except RuntimeError as error:
            return False, str(error)
        return seen is not None, seen or "nothing differs"

    def check_original(self, tree):
        """Without a fault nothing must be found, else nothing can be said of the faults."""
        return self.look(tree.program(self.program, pathlib.Path(tempfile.mkdtemp(dir=tree.folder)), None))


def try_all(tree, suite, pool, width):
    """Tries every fault and returns how many survived."""
    survived = 0
    for fault, (caught, seen) in zip(suite.faults, pool.map(lambda fault: suite.try_fault(tree, fault), suite.faults)):
        print(f"{fault[0]:{width}}  {pathlib.Path(fault[1]).name:14}  {'caught' if caught else 'MISSED'}  {seen[:100]}", flush=True)
        survived += not caught
    return survived


def run(options):
    chosen, bound, level = ([fault for fault in faults if options.only in fault[0]] for faults in (FAULTS, BOUND_FAULTS, LEVEL_FAULTS))
    width = max(len(fault[0]) for fault in ALL_FAULTS)
    survived = 0
    with tempfile.TemporaryDirectory(prefix="stowage-mutate-") as name, ThreadPoolExecutor(options.jobs) as pool:
        tree = Tree(pathlib.Path(name), pool)
        expected = prepare_cases(tree.folder, options.cases) if chosen else []
        for suite in (Suite(chosen, "replay", lambda program: find_difference(program, tree.folder, expected)),
                      Suite(bound, "test_bounds", find_failed_test), Suite(level, "test_levels", find_failed_test)):
            difference = suite.check_original(tree) if suite.faults else None
            if difference:
                print(f"without any fault: {difference}\n0 passed, 1 failed")
                return 1
            survived += try_all(tree, suite, pool, width)
    tried = len(chosen) + len(bound) + len(level)
    print(f"{tried - survived} passed, {survived} failed")
    return 1 if survived or not tried else 0


def check_texts():
    """Whether every fault can still be put in: whoever moves code learns it at once, not when the faults are tried."""
    failed = 0
    for what, file, *replacements in ALL_FAULTS:
        try:
            with_fault((ROOT / file).read_text(), file, replacements)
        except (OSError, RuntimeError) as error:
            failed += 1
            print(f"{what}: {error}")
    print(f"{len(ALL_FAULTS)} faults: {'their texts are there' if not failed else f'{failed} cannot be put in'}")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only look whether the texts that faults replace are there")
    parser.add_argument("--cases", type=int, default=2400, help="random cases (2400, as the tests run)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="faults tried at once (one per core)")
    parser.add_argument("--only", default="", metavar="WORDS", help="only faults whose description contains this")
    options = parser.parse_args()
    return check_texts() if options.check else run(options)


if __name__ == "__main__":
    sys.exit(main())
