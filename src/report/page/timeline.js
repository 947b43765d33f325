// The timelines: a row per device and per link, of each run, and of what was measured, on one axis of time.

const GUTTER = 128, AXIS = 30, DEVICE_ROW = 24, LINK_ROW = 11, MEASURED_ROW = 15, ROW_GAP = 3;

class Timeline {
  constructor(element, model, state) {
    this.plot = new Plot(element);
    this.model = model;
    this.state = state;
    this.modulePalette = topModules(model);
    this.recolour();
    this.layout();
  }

  // ---- rows ----

  layout() {
    const {model, state} = this;
    this.rows = [];
    this.y = AXIS;
    for (const run of model.runs) {
      this.addHead(run.title === "plan" ? "Plan" : "Default", `${timeText(run.step_ps)}${run.method ? `, by ${run.method}` : ""}`);
      run.rowOfDevice = [];
      model.devices.forEach((device, d) => {
        const lane = run.deviceLane[d];
        if (lane.count === 0 && run !== model.plan) return;
        run.rowOfDevice[d] = this.addLane("task", run, device.name, lane, DEVICE_ROW);
        if (run === model.plan) this.addMeasured(d);
      });
      this.addLinks(run, state.links);
      this.y += 8;
    }
    this.addOtherTracks();
    this.height = this.y + 4;
  }

  addHead(text, more) {
    this.rows.push({kind: "head", text, more, y: this.y, height: 22});
    this.y += 24;
  }

  addLane(kind, run, label, lane, height) {
    const row = {kind, run, label, lane, y: this.y, height};
    this.rows.push(row);
    this.y += height + ROW_GAP;
    return row;
  }

  addLinks(run, how) {
    const name = d => this.model.devices[d].name;
    if (how === "each") {
      for (const link of run.links) this.addLane("transfer", run, `${name(link.from)} > ${name(link.to)}`, link.lane, LINK_ROW);
    } else if (how === "sender") {
      run.senderLane.forEach((lane, d) => {
        if (lane.count > 0) this.addLane("transfer", run, `${name(d)} sends`, lane, LINK_ROW);
      });
    }
  }

  addMeasured(device) {
    for (const track of this.model.measured ? this.model.measured.tracks : []) {
      if (track.device === device && track.lane.count > 0) this.addLane("measured", null, "measured", track.lane, MEASURED_ROW);
    }
  }

  // Tracks that are called like no device: those with ops of the graph first, then the busiest.
  addOtherTracks() {
    const most = 24, {measured} = this.model;
    if (!measured) return;
    const others = measured.tracks.filter(track => track.device < 0 && track.lane.count > 0);
    if (others.length === 0) return;
    others.sort((a, b) => b.known - a.known || b.lane.busy - a.lane.busy);
    const left = others.length - most;
    this.addHead("Measured", `${measured.path}${left > 0 ? `; ${plural(left, "more track")} not shown` : ""}`);
    for (const track of others.slice(0, most)) {
      const alike = track.name && others.some(other => other !== track && other.name === track.name); // a process tells them apart
      this.addLane("measured", null, alike ? `${track.process} ${track.name}` : track.name || track.process, track.lane, MEASURED_ROW);
    }
  }

  // ---- colours ----

  // A tone per task, transfer and event: an index of `rgb`, whose second half is the first one dimmed.
  recolour() {
    const {model, state} = this, theme = this.theme = themeColours();
    const palette = this.palette(), own = palette.map(entry => entry.rgb);
    this.legend = palette.filter(entry => entry.name);
    this.rgb = [...own, ...own.map(rgb => mix(rgb, theme.dim, 0.86))];
    this.css = this.rgb.map(cssColour);
    this.ink = this.rgb.map(([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b > 150 ? "#10151c" : "#ffffff");
    for (const run of model.runs) {
      run.tone = Uint16Array.from(run.tasks.node, (node, task) =>
        this.toneOf(node) + (this.isDim(run, task) ? own.length : 0));
      run.transferTone = Uint16Array.from(run.transfers.node, (node, k) =>
        (state.colour === "device" ? run.transfers.from[k] : this.toneOf(node)) +
        (state.path || (state.matches && !state.matches[node]) ? own.length : 0));
    }
    if (model.measured) {
      model.measured.tone = Uint16Array.from(model.measured.events.node, node =>
        (node >= 0 ? this.toneOf(node) : own.length - 1) + (state.matches && !(node >= 0 && state.matches[node]) ? own.length : 0));
    }
  }

  isDim(run, task) {
    const {state} = this;
    return (state.path && !run.onPath[task]) || (state.matchedTasks && !state.matchedTasks[run.index][task]);
  }

  palette() {
    const {model, state} = this, other = {name: state.colour === "device" ? "" : "others", rgb: parseColour(otherColour)};
    if (state.colour === "class") return classColours.map(([name, colour]) => ({name, rgb: parseColour(colour)}));
    if (state.colour === "module")
      return [...this.modulePalette.names.map((name, k) => ({name, rgb: parseColour(deviceColours[k])})), other];
    return [...model.devices.map((device, d) => ({name: device.name, rgb: deviceColour(d)})), other];
  }

  toneOf(node) {
    const {model, state} = this, {columns, plan} = model;
    if (state.colour === "class") {
      const name = model.head.classes[columns.node_class[node]];
      const found = classColours.findIndex(([, , classes]) => classes.includes(name));
      return found >= 0 ? found : classColours.length - 1;
    }
    if (state.colour === "module") return this.modulePalette.toneOf[columns.node_module[node] + 1];
    const task = plan.taskOf[node];
    return task >= 0 ? plan.tasks.device[task] : model.devices.length;
  }

  tonesOf(row) {
    return row.kind === "task" ? row.run.tone : row.kind === "transfer" ? row.run.transferTone : this.model.measured.tone;
  }

  // ---- drawing ----

  draw() {
    const {plot, theme, state} = this, view = state.view;
    plot.resize(this.height);
    const c = plot.drawing, width = plot.width - GUTTER;
    plot.clear(theme.page);
    const lanes = this.rows.filter(row => row.lane), wide = lanes.map(() => []);
    plot.beginColumns(width, Math.max(1, lanes.length));
    lanes.forEach((row, k) => rasterSpans(plot, row.lane, view, k, this.tonesOf(row), this.rgb, theme.laneRgb, wide[k]));
    plot.columnDrawing.putImageData(plot.image, 0, 0);
    c.imageSmoothingEnabled = false;
    c.fillStyle = theme.lane;
    for (const row of lanes) c.fillRect(GUTTER, row.y, width, row.height);
    drawAxis(plot, view, GUTTER, AXIS, this.height, theme);
    this.drawLabels(c);
    lanes.forEach((row, k) => c.drawImage(plot.columns, 0, k, plot.pixelWidth, 1, GUTTER, row.y, width, row.height));
    c.save();
    c.beginPath();
    c.rect(GUTTER, 0, width, this.height);
    c.clip();
    lanes.forEach((row, k) => this.drawWide(c, row, wide[k]));
    if (state.path) for (const run of this.model.runs) this.drawPath(c, run);
    this.drawEnds(c);
    c.restore();
  }

  drawLabels(c) {
    const {theme} = this;
    c.textBaseline = "middle";
    for (const row of this.rows) {
      const y = row.y + row.height / 2 + 0.5;
      c.textAlign = "left";
      if (row.kind === "head") {
        c.font = "600 13px system-ui, sans-serif";
        const at = c.measureText(row.text).width + 8, more = fitText(plain(row.more), Math.floor((this.plot.width - at) / 7));
        c.font = "12px system-ui, sans-serif";
        c.fillStyle = theme.page; // the lines of the axis end at the words
        c.fillRect(0, row.y, at + c.measureText(more).width + 6, row.height);
        c.fillStyle = theme.faint;
        c.fillText(more, at, y);
        c.font = "600 13px system-ui, sans-serif";
        c.fillStyle = theme.text;
        c.fillText(row.text, 0, y);
        continue;
      }
      const size = row.kind === "task" ? 12 : 10, letter = size * 0.58;
      c.font = `${size}px system-ui, sans-serif`;
      c.fillStyle = row.kind === "task" ? theme.text : theme.faint;
      c.fillText(fitText(plain(row.label), Math.floor((GUTTER - 10) / letter)), row.kind === "task" ? 0 : 8, y);
    }
  }

  drawWide(c, row, wide) {
    const tone = this.tonesOf(row), ratio = this.plot.ratio, scale = this.plot.pixelWidth / (this.state.view.t1 - this.state.view.t0);
    const charges = row.kind === "task" ? row.run.tasks.charge : null, right = this.plot.width;
    const named = row.height >= 14;
    c.font = "10px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
    c.textBaseline = "middle";
    c.textAlign = "left";
    for (let k = 0; k < wide.length; k += 3) {
      const item = wide[k], x0 = GUTTER + Math.max(-2, wide[k + 1] / ratio), x1 = Math.min(right + 2, GUTTER + wide[k + 2] / ratio);
      const width = Math.max(0.75, x1 - x0 - (x1 - x0 > 3 ? 0.75 : 0));
      c.fillStyle = this.css[tone[item]];
      c.fillRect(x0, row.y, width, row.height);
      if (charges && charges[item] * scale >= ratio) {
        const part = Math.min(width, charges[item] * scale / ratio);
        c.fillStyle = "rgba(0,0,0,0.28)";
        c.fillRect(x0 + width - part, row.y + row.height - 5, part, 5);
      }
      const from = Math.max(x0, GUTTER), letters = Math.floor((x0 + width - from - 6) / 6.1);
      if (!named || letters < 4) continue;
      c.fillStyle = this.ink[tone[item]];
      c.fillText(fitText(plain(this.nameOf(row, item)), letters), from + 3, row.y + row.height / 2 + 0.5);
    }
  }

  nameOf(row, item) {
    const {model} = this;
    if (row.kind !== "measured") return model.names[(row.kind === "task" ? row.run.tasks : row.run.transfers).node[item]];
    const node = model.measured.events.node[item];
    return node >= 0 ? model.names[node] : model.measured.names[model.measured.events.name[item]];
  }

  // Where each run ends.
  drawEnds(c) {
    for (const run of this.model.runs) {
      const x = this.xOf(run.step_ps), rows = run.rowOfDevice.filter(Boolean);
      if (x > this.plot.width || rows.length === 0) continue;
      c.strokeStyle = this.theme.text;
      c.lineWidth = 1.5;
      c.beginPath();
      c.moveTo(x, rows[0].y - 2);
      c.lineTo(x, rows[rows.length - 1].y + rows[rows.length - 1].height + 2);
      c.stroke();
      c.lineWidth = 1;
    }
  }

  // Along the rows where something on the path runs, between them where a value is on its way; dotted where it waits.
  drawPath(c, run) {
    const {path} = run, {t0, t1} = this.state.view;
    const solid = new Path2D(), sent = new Path2D(), waits = new Path2D(), D = this.model.devices.length;
    const drawn = new Int32Array(3 * D * D).fill(-1); // the last column of pixels in which a line of that sort was begun
    for (let k = 0; k < path.kind.length; k++) {
      if (path.end[k] < t0 || path.start[k] > t1) continue;
      const from = run.rowOfDevice[path.from[k]], to = run.rowOfDevice[path.to[k]];
      if (!from || !to) continue;
      const x0 = this.xOf(path.start[k]), x1 = this.xOf(path.end[k]), sort = path.kind[k] <= 1 ? 0 : path.kind[k] === 2 ? 1 : 2;
      const line = [solid, sent, waits][sort], key = (sort * D + path.from[k]) * D + path.to[k], column = Math.floor(x0);
      if (x1 < column + 1 && drawn[key] === column) continue;
      drawn[key] = column;
      line.moveTo(x0, from.y + from.height + 0.5);
      line.lineTo(from === to ? Math.max(x1, x0 + 1) : x1, to.y + to.height + 0.5);
    }
    c.strokeStyle = this.theme.path;
    c.lineWidth = 3;
    c.stroke(solid);
    c.lineWidth = 1.25;
    c.globalAlpha = 0.6; // seen from afar, thousands of them stand side by side
    c.stroke(sent);
    c.setLineDash([2, 2]);
    c.stroke(waits);
    c.setLineDash([]);
    c.globalAlpha = 1;
    c.lineWidth = 1;
  }

  xOf(time) {
    const {t0, t1} = this.state.view;
    return GUTTER + (time - t0) / (t1 - t0) * (this.plot.width - GUTTER);
  }

  timeAt(x) {
    const {t0, t1} = this.state.view;
    return t0 + (x - GUTTER) / (this.plot.width - GUTTER) * (t1 - t0);
  }

  rowAt(y) {
    return this.rows.find(row => row.lane && y >= row.y - 1 && y < row.y + row.height + ROW_GAP - 1) || null;
  }

  // What is at a point: {row, item}, or null. Things that are too narrow to be met are met from two pixels away.
  hit(x, y) {
    const row = x >= GUTTER ? this.rowAt(y) : null;
    if (!row) return null;
    const {lane} = row, near = 2 * (this.state.view.t1 - this.state.view.t0) / (this.plot.width - GUTTER), time = this.timeAt(x);
    let best = -1, distance = near;
    for (let k = firstAbove(lane.reach, time - near); k < lane.count && lane.start[k] <= time + near; k++) {
      const away = Math.max(lane.start[k] - time, time - lane.end[k], 0);
      if (away <= distance) { // of several the last: what lies within another comes behind it
        best = lane.item[k];
        distance = away;
      }
    }
    return best >= 0 ? {row, item: best} : null;
  }
}

// The outermost modules that tell parts of the model apart, the dearest first, as many as there are colours.
function topModules(model) {
  const {modules, columns, plan} = model, most = deviceColours.length;
  const depth = modules.map(() => 0), time = new Float64Array(modules.length);
  modules.forEach(({parent}, k) => { depth[k] = parent < 0 ? 0 : depth[parent] + 1; });
  const ancestor = (k, level) => {
    while (k >= 0 && depth[k] > level) k = modules[k].parent;
    return k;
  };
  const level = modules.filter(({parent}) => parent < 0).length === 1 ? 1 : 0;
  for (let t = 0; t < plan.tasks.node.length; t++) {
    const k = ancestor(columns.node_module[plan.tasks.node[t]], level);
    if (k >= 0) time[k] += plan.tasks.end[t] - plan.tasks.start[t];
  }
  const shown = [...time.keys()].filter(k => time[k] > 0).sort((a, b) => time[b] - time[a]).slice(0, most);
  const toneOf = new Int32Array(modules.length + 1).fill(shown.length);
  modules.forEach((_, k) => {
    const at = shown.indexOf(ancestor(k, level));
    if (at >= 0) toneOf[k + 1] = at;
  });
  return {names: shown.map(k => modules[k].path), toneOf};
}
