// Memory over time: a row per device, a box per tensor. Small boxes are pixels, large ones rectangles with names.

const SMALL_MEMORY = 54, LARGE_MEMORY = 260;

class Memory {
  constructor(element, model, state) {
    this.plot = new Plot(element);
    this.model = model;
    this.state = state;
    this.run = model.plan;
    this.large = this.fullest();
    this.recolour();
    this.layout();
  }

  fullest() {
    const peaks = this.run.devices.map(device => device.peak_bytes);
    return peaks.indexOf(Math.max(...peaks));
  }

  setRun(run) {
    this.run = run;
    if (run.memory[this.large].last === run.memory[this.large].first) this.large = this.fullest();
    this.layout();
  }

  recolour() {
    this.theme = themeColours();
    // Two shades of each, in turn by node, so that boxes without an edge can be told apart.
    this.rgb = boxColours.flatMap(([, colour]) => [parseColour(colour), mix(parseColour(colour), this.theme.laneRgb, 0.22)]);
    this.edge = this.rgb.map(rgb => cssColour(mix(rgb, this.theme.laneRgb, 0.55)));
    this.css = this.rgb.map(cssColour);
    this.pixel = this.rgb.map(([r, g, b]) => (0xff000000 | b << 16 | g << 8 | r) >>> 0);
    this.dimPixel = this.rgb.map(rgb => mix(rgb, this.theme.dim, 0.8)).map(([r, g, b]) => (0xff000000 | b << 16 | g << 8 | r) >>> 0);
    this.dimCss = this.rgb.map(rgb => cssColour(mix(rgb, this.theme.dim, 0.8)));
  }

  layout() {
    let y = AXIS;
    this.rows = [];
    this.top = Math.max(1, ...this.run.memory.map(memory => memory.top)); // of all, so that devices can be compared
    this.model.devices.forEach((device, d) => {
      const memory = this.run.memory[d];
      if (memory.first === memory.last) return;
      const height = d === this.large ? LARGE_MEMORY : SMALL_MEMORY;
      this.rows.push({device: d, memory, y, height});
      y += height + 6;
    });
    this.height = y + 4;
  }

  draw() {
    const {plot, theme, state} = this, view = state.view;
    plot.resize(this.height);
    const c = plot.drawing, width = plot.width - GUTTER;
    plot.clear(theme.page);
    plot.beginColumns(width, Math.max(1, Math.ceil(this.height * plot.ratio)));
    const wide = this.rows.map(row => this.rasterBoxes(row, view));
    plot.columnDrawing.putImageData(plot.image, 0, 0);
    c.fillStyle = theme.lane;
    for (const row of this.rows) c.fillRect(GUTTER, row.y, width, row.height);
    drawAxis(plot, view, GUTTER, AXIS, this.height, theme);
    c.imageSmoothingEnabled = false;
    c.drawImage(plot.columns, 0, 0, plot.pixelWidth, plot.image.height, GUTTER, 0, width, plot.image.height / plot.ratio);
    c.save();
    c.beginPath();
    c.rect(GUTTER, 0, width, this.height);
    c.clip();
    this.rows.forEach((row, k) => this.drawWide(c, row, wide[k]));
    for (const row of this.rows) this.drawHeld(c, row);
    c.restore();
    for (const row of this.rows) this.drawLabel(c, row);
  }

  // In pixels: small ones at once, large ones as [box, x0, x1, y0, y1].
  rasterBoxes(row, view) {
    const {plot, run, state} = this, {boxes} = run, wide = [], least = 4, width = plot.pixelWidth;
    const xScale = width / (view.t1 - view.t0), yScale = row.height * plot.ratio / this.top;
    const bottom = Math.round((row.y + row.height) * plot.ratio), highest = Math.round(row.y * plot.ratio);
    for (let k = row.memory.first; k < row.memory.last && boxes.from[k] < view.t1; k++) {
      if (boxes.to[k] <= view.t0) continue;
      const x0 = (boxes.from[k] - view.t0) * xScale, x1 = (boxes.to[k] - view.t0) * xScale;
      const y1 = bottom - boxes.base[k] * yScale, y0 = y1 - boxes.bytes[k] * yScale;
      if (x1 - x0 >= least && y1 - y0 >= least) {
        wide.push(k, x0, x1, y0, y1);
        continue;
      }
      const pixel = (state.matches && !state.matches[boxes.node[k]] ? this.dimPixel : this.pixel)[2 * boxes.kind[k] + (boxes.node[k] & 1)];
      const left = Math.max(0, Math.floor(x0)), right = Math.min(width, Math.max(Math.ceil(x1), Math.floor(x0) + 1));
      const from = Math.max(highest, Math.floor(y0)), to = Math.min(bottom, Math.max(Math.floor(y1), Math.floor(y0) + 1));
      for (let y = from; y < to; y++) plot.pixels.fill(pixel, y * width + left, y * width + right);
    }
    return wide;
  }

  drawWide(c, row, wide) {
    const {run, model, state, plot} = this, ratio = plot.ratio;
    c.font = "10px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
    c.textBaseline = "middle";
    c.textAlign = "left";
    for (let k = 0; k < wide.length; k += 5) {
      const box = wide[k], kind = run.boxes.kind[box], shade = 2 * kind + (run.boxes.node[box] & 1), dim = state.matches && !state.matches[run.boxes.node[box]];
      const x0 = GUTTER + Math.max(-2, wide[k + 1] / ratio), x1 = Math.min(plot.width + 2, GUTTER + wide[k + 2] / ratio);
      const y0 = wide[k + 3] / ratio, height = (wide[k + 4] - wide[k + 3]) / ratio;
      c.fillStyle = (dim ? this.dimCss : this.css)[shade];
      c.fillRect(x0, y0, x1 - x0, height);
      c.strokeStyle = this.edge[shade];
      c.lineWidth = 0.75;
      c.strokeRect(x0 + 0.4, y0 + 0.4, x1 - x0 - 0.8, height - 0.8);
      const from = Math.max(x0, GUTTER), letters = Math.floor((x1 - from - 6) / 6.1);
      if (height < 11 || letters < 4) continue;
      const node = run.boxes.node[box];
      c.fillStyle = kind === 3 || kind === 1 ? "#10151c" : "#ffffff";
      c.fillText(fitText(plain(model.labels.get(node) || model.names[node]), letters), from + 3, y0 + height / 2 + 0.5);
    }
  }

  // The largest of each column of pixels.
  drawHeld(c, row) {
    const {time, held} = row.memory, {t0, t1} = this.state.view, width = this.plot.width - GUTTER;
    const scale = width / (t1 - t0), yOf = bytes => row.y + row.height - bytes / this.top * row.height;
    let k = firstAbove(time, t0), now = k > 0 ? held[k - 1] : 0;
    c.strokeStyle = this.theme.text;
    c.lineWidth = 1;
    c.beginPath();
    c.moveTo(GUTTER, yOf(now));
    while (k < time.length && time[k] < t1) {
      const x = Math.floor((time[k] - t0) * scale), next = t0 + (x + 1) / scale;
      let most = now;
      for (; k < time.length && time[k] < next; k++) {
        now = held[k];
        if (k + 1 === time.length || time[k + 1] > time[k]) most = Math.max(most, now); // only what is held for some time
      }
      c.lineTo(GUTTER + x, yOf(most));
      c.lineTo(GUTTER + x + 1, yOf(now));
    }
    c.lineTo(GUTTER + Math.min(width, Math.max(0, (this.run.step_ps - t0) * scale)), yOf(now));
    c.stroke();
  }

  drawLabel(c, row) {
    const device = this.model.devices[row.device], peak = this.run.devices[row.device].peak_bytes, {theme} = this;
    const limit = device.memory_bytes;
    c.textAlign = "left";
    c.textBaseline = "alphabetic";
    c.fillStyle = theme.text;
    c.font = "12px system-ui, sans-serif";
    c.fillText(fitText(plain(device.name), 18), 0, row.y + 14);
    c.fillStyle = limit !== null && peak > limit ? theme.path : theme.faint;
    c.font = "10.5px system-ui, sans-serif";
    c.fillText(`peak ${byteText(peak)}`, 0, row.y + 29);
    if (limit !== null) c.fillText(`of ${byteText(limit)}`, 0, row.y + 42);
  }

  rowAt(y) {
    return this.rows.find(row => y >= row.y && y < row.y + row.height) || null;
  }

  hit(x, y) {
    const row = x >= GUTTER ? this.rowAt(y) : null, {t0, t1} = this.state.view;
    if (!row) return null;
    const {boxes} = this.run, time = t0 + (x - GUTTER) / (this.plot.width - GUTTER) * (t1 - t0);
    const bytes = (row.y + row.height - y) / row.height * this.top, near = this.top / row.height;
    let best = -1;
    for (let k = row.memory.first; k < row.memory.last && boxes.from[k] <= time; k++) {
      if (boxes.to[k] <= time || bytes < boxes.base[k] - near || bytes > boxes.base[k] + boxes.bytes[k] + near) continue;
      const inside = bytes >= boxes.base[k] && bytes < boxes.base[k] + boxes.bytes[k];
      if (best < 0 || inside) best = k;
    }
    return best >= 0 ? {row, item: best} : {row, item: -1, time};
  }

  // What a device holds at a moment.
  heldAt(device, time) {
    const {time: times, held} = this.run.memory[device], k = firstAbove(times, time);
    return k > 0 ? held[k - 1] : 0;
  }
}
