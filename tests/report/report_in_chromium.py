"""Does a report work in a real browser? Opens pages as a user would and compares what they hold and do with their data: what is
drawn, hovering, clicking, searching, zooming, both themes; no word on the console; no script from a name in a file.

    python3 tests/report/report_in_chromium.py [--measure] [--pictures FOLDER] [r.html]

Without a page, STOWAGE_BIN makes three: a graph whose names are all `</script><img ...>`, one with odd data (names of many levels, a
trace over decades, candidates that no program wrote), and rnnlm-2 on four devices with a measured trace. With --measure, prints how long the page takes to open and to redraw (docs/report.md has such figures). The exit status is
the verdict: 0 if all agrees, or if there is no Chromium here, which is said; else 1. CHROMIUM names the browser if it is not on the
path.
"""

import argparse
import json
import math
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
for folder in ("support", "cli"):
    sys.path.insert(0, os.path.join(ROOT, "tests", folder))
from chromium import in_browser  # noqa: E402
from program import SMALL  # noqa: E402
from report_data import EVIL, read, unpacked  # noqa: E402

DATA = os.environ.get("STOWAGE_DATA", os.path.join(ROOT, "data"))
PROGRAM = os.environ.get("STOWAGE_BIN", os.path.join(ROOT, "build", "release", "stowage"))
TIMEOUT_S = 180

# When the first picture is complete: the frame after the one in which it was drawn.
READY = "window.stowageReport ? new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))) : null"
# Zooms in on the last measured event, as far as the page lets one; a page that hangs does not answer.
CLOSEST = """(async () => { const page = stowageReport, {start, end} = page.model.measured.events, last = start.length - 1;
  for (let span = page.model.limit; span > 1e3; span /= 2) { // closer than one can zoom, too
    page.state.view = {t0: start[last], t1: start[last] + span};
    page.draw();
  }
  page.zoomTo(start[last], end[last]);
  for (let k = 0; k < 200; k++) page.zoom(0.5, start[last]);
  page.draw();
  const {t0, t1} = page.state.view;
  page.setView(0, page.model.end);
  return {shown: t0 <= start[last] && start[last] <= t1, share: (t1 - t0) / t1}; })()"""
FRAME = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
MODEL = """(() => { const {model} = stowageReport; return {
  names: model.names, title: document.title, images: document.images.length, scripts: document.scripts.length,
  starts: [...model.plan.tasks.start], ends: [...model.plan.tasks.end], devices: [...model.plan.tasks.device],
  sentences: [...document.querySelectorAll('#sentences li')].map(item => item.textContent),
  shown: [...document.querySelectorAll('#methods tbody tr')].length}; })()"""
# Where the middle of a task is on the screen, the widest of the plan.
WIDEST = """(() => { const {model, timeline} = stowageReport, {start, end, device, node} = model.plan.tasks;
  let task = 0; for (let t = 1; t < start.length; t++) if (end[t] - start[t] > end[task] - start[task]) task = t;
  document.getElementById('timeline').scrollIntoView({block: 'center'});
  const box = timeline.plot.over.getBoundingClientRect(), row = model.plan.rowOfDevice[device[task]];
  return {x: box.left + timeline.xOf((start[task] + end[task]) / 2), y: box.top + row.y + row.height / 2, name: model.names[node[task]],
          task, readers: model.readersOf(node[task]).length}; })()"""
# Colours in the row of a device that is at work; a page that draws nothing has one.
COLOURS = """(() => { const {timeline, model} = stowageReport, {plot} = timeline, row = model.plan.rowOfDevice.find(row => row && row.lane.count > 0);
  const data = plot.drawing.getImageData(128 * plot.ratio, (row.y + 3) * plot.ratio, (plot.width - 128) * plot.ratio, 1).data;
  return new Set(new Uint32Array(data.buffer)).size; })()"""
# Redraws while zooming in from the whole step to a thousandth of it, each read back so that drawing is over.
REDRAWS = """(async () => { const page = stowageReport, times = []; let span = page.model.end;
  for (let k = 0; k < 60; k++, span *= 0.89) {
    const t0 = Math.max(0, 0.2 * page.model.end - 0.4 * span);
    page.state.view = {t0, t1: t0 + span};
    await new Promise(done => requestAnimationFrame(done));
    const begin = performance.now();
    page.draw();
    for (const view of [page.timeline, page.memory]) view.plot.drawing.getImageData(0, 0, 1, 1);
    times.push(performance.now() - begin);
  }
  times.sort((a, b) => a - b);
  return {median: times[30], ninth: times[54], worst: times[59], count: times.length}; })()"""


def stowage(*arguments):
    subprocess.run([PROGRAM, *arguments], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=TIMEOUT_S)


def write_json(folder, name, content):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(content, file)
    return path


# What a plan's file may say of candidates; the page shows those that are objects.
ODD_CANDIDATES = """[null, 7, [], {}, {"method": {}, "valid": 1, "step_s": "x", "peak_bytes": 7, "evaluations": null, "found": 3},
  {"method": "far", "valid": true, "step_s": 1e999, "value": 1e999, "peak_bytes": [null, 1e999, 5], "evaluations": 1e999,
   "found": [[0, 1, 2], [0, 1e999, 1]]},
  {"method": "wide", "valid": true, "step_s": 1, "value": 1, "peak_bytes": {}, "evaluations": 1e18, "found": [[0, 1, 1e18], [0, 5, 1e-12]]},
  {"method": "broken", "valid": true, "step_s": 1, "value": 1, "evaluations": 9, "found": [[0, 1, 2], null, [0, 3]]}]"""


def has_curve(candidate):
    found = candidate.get("found")
    return (candidate.get("valid") is True and isinstance(found, list) and len(found) > 1 and
            all(isinstance(point, list) and len(point) == 3 and all(map(math.isfinite, point)) for point in found))


def make_odd(folder, page):
    graph = json.loads(json.dumps(SMALL))
    del graph["nodes"][0]["label"]
    graph["nodes"][3]["name"] = "a/" * 20000 + "x"
    path, plan = write_json(folder, "odd.json", graph), os.path.join(folder, "odd-plan.json")
    trace = write_json(folder, "odd-trace.json", [{"ph": "X", "name": "n2", "ts": 0, "dur": 1},
                                                  {"ph": "X", "name": "b", "ts": 1763488800000000, "dur": 50},
                                                  {"ph": "X", "name": "c", "ts": 0, "dur": -1}])
    stowage("simulate", path, "-m", "h200x2", "-p", "spread", "-o", plan)
    with open(plan, encoding="utf-8") as file:
        content = json.load(file)
    content["candidates"] = "HERE"
    with open(plan, "w", encoding="utf-8") as file:
        file.write(json.dumps(content).replace('"HERE"', ODD_CANDIDATES))  # json has no 1e999
    stowage("report", path, "-p", plan, "-o", page, "--measured", trace)


def make_pages(folder):
    graph = json.loads(json.dumps(SMALL))
    graph["name"] += EVIL
    for node in graph["nodes"]:
        node["name"] += EVIL
    graph["nodes"][0]["label"] = EVIL + "." + EVIL
    trace = write_json(folder, "evil-trace.json", [{"ph": "X", "name": EVIL, "pid": EVIL, "tid": EVIL, "ts": 0, "dur": 1}])
    pages = [os.path.join(folder, name) for name in ("evil.html", "odd.html", "rnnlm.html")]
    stowage("report", write_json(folder, "evil.json", graph), "-m", "h200x2", "-p", "spread", "-o", pages[0], "--measured", trace)
    make_odd(folder, pages[1])
    rnnlm, trace = os.path.join(DATA, "graphs", "rnnlm-2.json.gz"), os.path.join(folder, "trace.json")
    stowage("simulate", rnnlm, "-m", "h200x4", "-p", "spread", "--trace", trace)
    stowage("report", rnnlm, "-m", "h200x4", "-p", "spread", "-o", pages[2], "--measured", trace)
    return pages


class Visit:
    """A page in the browser, and what is wrong with it."""

    def __init__(self, browser, path):
        self.browser, self.faults, self.path = browser, [], path
        self.head, self.columns = unpacked(read(path))
        browser.call("Page.navigate", url="about:blank")
        browser.events.clear()
        browser.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.opened_ms = browser.wait_for(READY, "report that is drawn")["value"]
        self.opening_s = self.processor_s()

    def value(self, script):
        return self.browser.evaluate(script, returnByValue=True).get("value")

    def check(self, what, has, wants):
        if has != wants:
            self.faults.append(f"{what}: {str(has)[:200]}, not {str(wants)[:200]}")

    def mouse(self, kind, at, **more):
        self.browser.call("Input.dispatchMouseEvent", type=kind, x=at["x"], y=at["y"], **more)

    def key(self, key):
        self.browser.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
        self.browser.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def check_content(self):
        model = self.value(MODEL)
        last = len(self.head["runs"]) - 1
        self.check("names", model["names"], self.head["names"])
        for column in ("start", "end", "device"):
            self.check(column, model[column + "s"], list(self.columns[f"{last}.task_{column}"]))
        self.check("title", self.head["graph"]["name"] in model["title"], True)
        self.check("images and scripts", (model["images"], model["scripts"]), (0, 1))
        self.check("sentences", len(model["sentences"]) >= 4 and model["sentences"][0].startswith("A step takes "), True)
        if self.head["measured"]:
            told = any("Left out: " in sentence for sentence in model["sentences"])
            self.check("events left out", told, self.head["measured"]["left_out"] > 0)
        self.check("candidates", model["shown"], sum(isinstance(c, dict) for c in self.head["candidates"]))
        self.check("curves", self.value("document.querySelectorAll('#curves path').length"),
                   sum(has_curve(c) for c in self.head["candidates"] if isinstance(c, dict)))

    def check_hands(self):
        at = self.value(WIDEST)
        self.mouse("mouseMoved", at)
        self.check("hovering", self.value("document.querySelector('#tip:not([hidden]) strong')?.textContent"), at["name"])
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, at, button="left", clickCount=1)
        self.check("clicking", self.value("stowageReport.state.selected?.task"), at["task"])
        self.check("who is selected", self.value("document.querySelector('#details h3')?.textContent.startsWith(stowageReport.model.names["
                                                 "stowageReport.model.plan.tasks.node[stowageReport.state.selected.task]])"), True)
        self.value(FRAME)
        at = self.value(WIDEST)  # the panel has made the plot narrower
        before = self.value("stowageReport.state.view.t1 - stowageReport.state.view.t0")
        self.mouse("mouseWheel", at, deltaX=0, deltaY=-240)
        self.value(FRAME)
        self.check("zooming by the wheel", self.value("stowageReport.state.view.t1 - stowageReport.state.view.t0") < 0.8 * before, True)
        self.key("0")
        self.value(FRAME)
        self.check("the whole by a key", self.value("stowageReport.state.view.t1 >= stowageReport.model.end"), True)
        end = dict(at, x=at["x"] + 40, y=at["y"] + 8)
        self.mouse("mousePressed", at, button="left", clickCount=1)
        self.mouse("mouseMoved", dict(at, x=at["x"] + 20), button="left", buttons=1)
        self.mouse("mouseMoved", end, button="left", buttons=1)
        self.mouse("mouseReleased", end, button="left", clickCount=1)
        self.check("an area", self.value("document.querySelector('#details h3')?.textContent"), "Area")
        self.check("its table", self.value("document.querySelectorAll('#details tbody tr').length") >= 1, True)

    def check_search(self):
        wanted = self.head["names"][-1][:4].lower()
        self.value(f"stowageReport.search({json.dumps(wanted)})")
        last = len(self.head["runs"]) - 1
        tasks, ops = self.columns[f"{last}.task_of"], [name.lower() for name in self.head["op_names"]]
        found = [n for n, name in enumerate(self.head["names"]) if tasks[n] >= 0 and
                 (wanted in name.lower() or ops[self.columns["node_op"][n]] == wanted)]
        self.check("what is found", self.value("stowageReport.state.found.slice().sort((a, b) => a - b)"), found)
        self.key("Escape")
        self.check("nothing is sought", self.value("stowageReport.state.matches"), None)

    def check_far(self):
        """Where a trace is measured: numbers far from 0 have no neighbours a nanosecond away."""
        if not self.head["measured"]:
            return
        closest = self.value(CLOSEST)
        self.check("the last event in view", closest["shown"], True)
        self.check("what can be told apart in view", closest["share"] > 2**-41, True)

    def check_theme(self):
        colours = [self.value("getComputedStyle(document.body).backgroundColor")]
        self.value("document.getElementById('theme').click()")
        colours.append(self.value("getComputedStyle(document.body).backgroundColor"))
        self.check("two themes", len(set(colours)), 2)
        self.value("document.getElementById('path').click()")
        self.value(FRAME)
        self.check("critical path", self.value("stowageReport.state.path"), True)

    def check_silence(self):
        """Before anything is read back from a canvas, which the browser remarks upon."""
        loud = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening")
        self.check("words on the console", [json.dumps(e["params"])[:300] for e in self.browser.events if e["method"] in loud], [])

    def check_all(self):
        for part in (self.check_content, self.check_hands, self.check_search, self.check_far, self.check_theme, self.check_silence):
            part()
        self.check("colours in a row", self.value(COLOURS) > 1, True)
        return self.faults

    def processor_s(self):
        """Processor time of the page's thread, which says the same on a busy machine."""
        return {m["name"]: m["value"] for m in self.browser.call("Performance.getMetrics")["metrics"]}["TaskDuration"]

    def take_pictures(self, folder):
        self.value("stowageReport.chooseNothing()")
        for theme in ("light", "dark"):
            self.value(f"stowageReport.setTheme('{theme}'); window.scrollTo(0, 0)")
            self.value(FRAME)
            self.browser.screenshot(os.path.join(folder, f"{theme}.png"))


def visit(browser, path, arguments):
    page = Visit(browser, path)
    faults = page.check_all()
    print(*faults[:20], sep="\n", end="\n" * bool(faults))
    print(f"{os.path.basename(path)}: {len(page.head['names']):,} nodes, {os.path.getsize(path) / 1e6:.2f} MB: "
          f"{'not ' if faults else ''}as in its data")
    if arguments.measure:
        print(f"open and drawn after {page.opened_ms:.0f} ms, {1e3 * page.opening_s:.0f} ms of processor time")
        for path in (True, False):
            page.value(f"document.getElementById('path').checked === {str(path).lower()} || document.getElementById('path').click()")
            before = page.processor_s()
            redraws = page.value(REDRAWS)
            spent = 1e3 * (page.processor_s() - before) / redraws["count"]
            print(f"redraws while zooming, {'with' if path else 'without'} the critical path: {spent:.1f} ms of processor time in the "
                  f"mean; by the clock: median {redraws['median']:.1f} ms, nine of ten below {redraws['ninth']:.1f} ms, worst {redraws['worst']:.1f} ms")
    if arguments.pictures:
        page.take_pictures(arguments.pictures)
    return bool(faults)


def show(browser, pages, arguments):
    browser.open("about:blank")
    browser.call("Performance.enable", timeDomain="threadTicks")
    return max(int(visit(browser, page, arguments)) for page in pages)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("page", nargs="?")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("--pictures")
    arguments = parser.parse_args()
    return in_browser(lambda folder: [arguments.page] if arguments.page else make_pages(folder),
                      lambda browser, pages: show(browser, pages, arguments), TIMEOUT_S)


if __name__ == "__main__":
    sys.exit(main())
