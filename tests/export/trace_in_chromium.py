"""Does a trace open in a real viewer? Loads one into the Performance panel of Chromium's developer tools, as a user would, and
compares what the panel's own model holds with the file: processes, tracks, slices, bounds, and what is drawn.

    python3 tests/export/trace_in_chromium.py [--screenshot t.png] [t.json]

Without a trace, STOWAGE_BIN makes one of rnnlm-2 on four devices. The exit status is the verdict: 0 if all agrees, or if there is
no Chromium here, which is said; else 1. CHROMIUM names the browser if it is not on the path.
"""

import argparse
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "support"))
from chromium import in_browser  # noqa: E402

DATA = os.environ.get("STOWAGE_DATA", os.path.join(ROOT, "data"))
PANEL = "devtools://devtools/bundled/devtools_app.html?panel=timeline"
TIMEOUT_S = 180  # for everything; the browser needs about ten seconds

FILE_INPUT = """(function find(root) {
  const inner = [...root.querySelectorAll('*')].map(element => element.shadowRoot).filter(Boolean);
  return root.querySelector('input[type=file]') ?? inner.map(find).find(Boolean) ?? null;
})(document)"""

# The first trace in a profile brings up a list of shortcuts, which covers the picture.
NO_WELCOME = """import('devtools://devtools/bundled/core/common/common.js').then(({Settings}) =>
  Settings.Settings.instance().createSetting('timeline.user-had-shortcuts-dialog-opened-once', false).set(true)).catch(() => {})"""

# The panel's model, or null while there is none; ids and times as in the file.
MODEL = """(async () => {
  const {TimelinePanel} = await import('devtools://devtools/bundled/panels/timeline/timeline.js');
  const panel = TimelinePanel.TimelinePanel.instance();
  let parsed;
  try { parsed = panel.getParsedTraceForLayoutTests(); } catch { return null; }
  const data = parsed && (parsed.data ?? parsed);
  const drawn = panel.getFlameChart().getMainFlameChart().timelineData();
  if (!data?.Renderer?.processes || !drawn?.groups?.length) return null;
  const tracks = [];
  for (const [pid, process] of data.Renderer.processes) {
    for (const [tid, thread] of process.threads) {
      tracks.push({pid, tid, name: thread.name, top: thread.tree ? thread.tree.roots.size : 0,
                   slices: thread.entries.map(entry => [entry.name, entry.ts, entry.dur])});
    }
  }
  return {tracks, processes: [...data.Meta.processNames].map(([pid, event]) => [pid, event.args.name]),
          start: data.Meta.traceBounds.min, end: data.Meta.traceBounds.max, bars: drawn.entryLevels.length};
})()"""

# Every track open and the whole step in view; done when it is drawn: the panel draws with the next frame, which has ended when the
# one behind it begins.
ARRANGE = """(async () => {
  const {TimelinePanel} = await import('devtools://devtools/bundled/panels/timeline/timeline.js');
  const chart = TimelinePanel.TimelinePanel.instance().getFlameChart().getMainFlameChart();
  chart.bulkExpandGroups(chart.timelineData().groups.map((group, index) => index));
  chart.setWindowTimes(%f, %f);
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
})()"""


def load(browser, trace):
    """Gives the file to the panel's own file chooser; returns the panel's model."""
    browser.open(PANEL)
    chooser = browser.wait_for(FILE_INPUT, "file chooser in the Performance panel")
    browser.evaluate(NO_WELCOME)
    browser.call("DOM.setFileInputFiles", files=[os.path.abspath(trace)], objectId=chooser["objectId"])
    return browser.wait_for(MODEL, "model of the trace", returnByValue=True)["value"]


def differences(model, trace):
    """What the panel holds and the file does not say, or the other way round."""
    with open(trace, encoding="utf-8") as file:
        events = json.load(file)["traceEvents"]
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    slices, within = {}, {}  # within: how many lie in another slice of their track, as charges do in their task's
    for event in events:
        if event["ph"] == "X":
            slices.setdefault((event["pid"], event["tid"]), []).append((event["name"], event["ts"], event["dur"]))
            within[event["pid"], event["tid"]] = within.get((event["pid"], event["tid"]), 0) + (event["cat"] == "charge")
    everything = [one for track in slices.values() for one in track]
    seen = {(track["pid"], track["tid"]): track for track in model["tracks"]}
    checks = [("process names", dict(map(tuple, model["processes"])), processes),
              ("tracks", sorted(seen), sorted(slices)),
              ("bars that are drawn", model["bars"], len(everything)),
              ("start", model["start"], min(ts for _, ts, _ in everything)),
              ("end", model["end"], max(ts + dur for _, ts, dur in everything))]
    for key in sorted(set(seen) & set(slices)):
        checks += [(f"name of track {key}", seen[key]["name"], named[key]),
                   (f"slices of track {key}", sorted(map(tuple, seen[key]["slices"])), sorted(slices[key])),
                   (f"slices of track {key} that are in no other", seen[key]["top"], len(slices[key]) - within[key])]
    return [f"{what}: the viewer has {str(has)[:200]}, the file {str(says)[:200]}" for what, has, says in checks if has != says]


def take_screenshot(browser, model, path):
    browser.evaluate(ARRANGE % (model["start"] / 1000, model["end"] / 1000))
    browser.screenshot(path)


def make_trace(folder):
    path = os.path.join(folder, "trace.json")
    subprocess.run([os.environ.get("STOWAGE_BIN", os.path.join(ROOT, "build", "release", "stowage")), "simulate",
                    os.path.join(DATA, "graphs", "rnnlm-2.json.gz"), "--machine", "h200x4", "--plan", "spread", "--trace", path],
                   check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)
    return path


def show(browser, trace, screenshot):
    model = load(browser, trace)
    if screenshot:
        take_screenshot(browser, model, screenshot)
    found = differences(model, trace)
    print(*found[:20], sep="\n", end="\n" * bool(found))
    print(f"the viewer holds {len(model['processes'])} processes, {len(model['tracks'])} tracks, {model['bars']} slices: "
          f"{'not ' if found else ''}as in the file")
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace", nargs="?")
    parser.add_argument("--screenshot")
    arguments = parser.parse_args()
    return in_browser(lambda folder: arguments.trace or make_trace(folder),
                      lambda browser, trace: show(browser, trace, arguments.screenshot), TIMEOUT_S)


if __name__ == "__main__":
    sys.exit(main())
