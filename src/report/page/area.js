// An area: a range of time over some rows. Sums, and the least, mean and largest, of what lies in it.

class Tally {
  constructor() {
    this.count = 0;
    this.sum = 0;
    this.least = Infinity;
    this.most = 0;
  }

  add(value) {
    this.count++;
    this.sum += value;
    this.least = Math.min(this.least, value);
    this.most = Math.max(this.most, value);
  }

  cells(text) {
    if (this.count === 0) return ["-", "-", "-"];
    return [text(this.least), text(this.sum / this.count), text(this.most)];
  }
}

// Of one row: the time that is covered within [t0, t1), and what begins, ends or lies there.
function tallyRow(row, t0, t1) {
  const {lane} = row, took = new Tally();
  let busy = 0, reach = t0;
  for (let k = firstAbove(lane.reach, t0); k < lane.count && lane.start[k] < t1; k++) {
    if (lane.end[k] <= t0) continue;
    took.add(lane.end[k] - lane.start[k]);
    const from = Math.max(lane.start[k], reach), to = Math.min(lane.end[k], t1);
    if (to > from) busy += to - from;
    reach = Math.max(reach, to);
  }
  return {busy, took};
}

// The held bytes of a device over [t0, t1): the mean by time.
function tallyMemory(memory, t0, t1) {
  const {time, held} = memory;
  let k = firstAbove(time, t0), now = k > 0 ? held[k - 1] : 0, at = t0, least = Infinity, most = 0, sum = 0;
  for (;;) {
    const next = Math.min(t1, k < time.length ? time[k] : t1);
    if (next > at) {
      least = Math.min(least, now);
      most = Math.max(most, now);
      sum += now * (next - at);
      at = next;
    }
    if (at >= t1 || k >= time.length) break;
    now = held[k++];
  }
  return {least: Number.isFinite(least) ? least : 0, mean: t1 > t0 ? sum / (t1 - t0) : 0, most};
}

const rowsIn = (rows, area) => rows.filter(row => (row.lane || row.memory) && row.y < area.y1 && row.y + row.height > area.y0);

function rowTitle(row) {
  return row.run && row.run.title === "default" ? `${row.label} (default)` : row.label;
}

function showTimelineArea(timeline, area, zoom) {
  const panel = byId("details"), {t0, t1} = area, span = t1 - t0, rows = rowsIn(timeline.rows, area);
  const all = new Tally();
  let busy = 0, bytes = 0, sent = 0, devices = 0;
  const lines = rows.map(row => {
    const found = tallyRow(row, t0, t1);
    if (row.kind === "task") {
      devices++;
      busy += found.busy;
      all.count += found.took.count;
    } else if (row.kind === "transfer") {
      const {transfers} = row.run;
      for (let k = firstAbove(row.lane.reach, t0); k < row.lane.count && row.lane.start[k] < t1; k++) {
        if (row.lane.end[k] <= t0) continue;
        bytes += transfers.bytes[row.lane.item[k]];
        sent++;
      }
    }
    return [rowTitle(row), countText(found.took.count), timeText(found.busy, 3), span > 0 ? percent(found.busy / span) : "-",
            ...found.took.cells(ps => timeText(ps, 3))];
  });
  const facts = [["from", timeText(t0, 6)], ["to", timeText(t1, 6)], ["length", timeText(span)]];
  if (devices > 0) facts.push(["tasks", countText(all.count)], ["at work", `${timeText(busy)}, ${percent(span > 0 ? busy / span / devices : 0)} of ${plural(devices, "device")}`]);
  if (sent > 0) facts.push(["transfers", `${countText(sent)}, ${byteText(bytes)}`]);
  const button = element("button", {type: "button"}, "Zoom to it");
  button.addEventListener("click", zoom);
  panel.className = "area";
  panel.replaceChildren(element("h3", {}, "Area"), factList(facts), button,
    table([["row", false], ["number", true], ["busy", true], ["share", true], ["least", true], ["mean", true], ["largest", true]], lines));
}

function showMemoryArea(memory, area, zoom) {
  const panel = byId("details"), {t0, t1} = area;
  const lines = rowsIn(memory.rows, area).map(row => {
    const found = tallyMemory(row.memory, t0, t1);
    return [deviceName(memory.model, row.device), byteText(found.least), byteText(found.mean), byteText(found.most)];
  });
  const button = element("button", {type: "button"}, "Zoom to it");
  button.addEventListener("click", zoom);
  panel.className = "area";
  panel.replaceChildren(element("h3", {}, `Memory of the ${memory.run.title}`),
    factList([["from", timeText(t0, 6)], ["to", timeText(t1, 6)], ["length", timeText(t1 - t0)]]), button,
    table([["device", false], ["least", true], ["mean", true], ["largest", true]], lines));
}
