// Drawing: colours, and spans at the level of detail that pixels have. What is narrower than two pixels is added up per column of
// pixels, so that a row takes the same time however many spans are in view; what is wider is a rectangle with its name.

// Okabe and Ito's colours, which people who see fewer colours can tell apart, without black and with a darker yellow; then, for
// machines with more devices, lighter ones.
const deviceColours = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7fd1", "#a89a00"];
const classColours = [
  ["products, convolutions, attention", "#0072b2", ["matmul", "convolution", "attention", "recurrent"]],
  ["element-wise", "#e69f00", ["elementwise", "broadcast"]],
  ["reductions, normalization, pooling", "#009e73", ["reduce", "normalization", "pooling"]],
  ["data movement", "#cc79a7", ["shape", "alias", "gather", "scatter", "sort", "random", "collective"]],
  ["others", "#8a8f98", ["control", "opaque"]],
];
const otherColour = "#8a8f98";
const boxColours = [["parameters and buffers", "#7b8794"], ["inputs and constants", "#b59f7b"], ["made here", "#0072b2"],
                    ["copies from other devices", "#e69f00"]];

function parseColour(text) {
  const value = parseInt(text.slice(1), 16);
  return [value >> 16, value >> 8 & 255, value & 255];
}
const mix = (a, b, share) => a.map((v, k) => Math.round(v + (b[k] - v) * share));
const cssColour = ([r, g, b]) => `rgb(${r},${g},${b})`;

function deviceColour(device) {
  const round = Math.floor(device / deviceColours.length), colour = parseColour(deviceColours[device % deviceColours.length]);
  return round === 0 ? colour : mix(colour, round % 2 ? [255, 255, 255] : [0, 0, 0], Math.min(0.7, 0.25 * round));
}

// The theme's own colours are in the style sheet.
function themeColours() {
  const style = getComputedStyle(document.documentElement), read = name => style.getPropertyValue(name).trim();
  return {page: read("--page"), lane: read("--lane"), text: read("--text"), faint: read("--faint"), line: read("--line"),
          accent: read("--accent"), path: read("--path"), dim: parseColour(read("--dim")), laneRgb: parseColour(read("--lane"))};
}

// Two canvases over each other: what changes with the view, and what follows the pointer.
class Plot {
  constructor(element) {
    this.element = element;
    [this.base, this.over] = element.querySelectorAll("canvas");
    this.drawing = this.base.getContext("2d", {alpha: false});
    this.overlay = this.over.getContext("2d");
    this.columns = document.createElement("canvas");
    this.columnDrawing = this.columns.getContext("2d");
  }

  resize(height) {
    const ratio = window.devicePixelRatio || 1, width = Math.max(200, this.element.clientWidth);
    this.width = width;
    this.height = height;
    this.ratio = ratio;
    for (const canvas of [this.base, this.over]) {
      const w = Math.round(width * ratio), h = Math.round(height * ratio);
      if (canvas.width !== w || canvas.height !== h) {
        canvas.width = w;
        canvas.height = h;
      }
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    this.drawing.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.overlay.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  clear(colour) {
    this.drawing.fillStyle = colour;
    this.drawing.fillRect(0, 0, this.width, this.height);
  }

  // Pixels of the columns, `rows` high.
  beginColumns(width, rows) {
    this.pixelWidth = Math.max(1, Math.round(width * this.ratio));
    if (this.columns.width < this.pixelWidth || this.columns.height < rows) {
      this.columns.width = Math.max(this.columns.width, this.pixelWidth);
      this.columns.height = Math.max(this.columns.height, rows);
    }
    if (!this.image || this.image.width !== this.pixelWidth || this.image.height !== rows) {
      this.image = this.columnDrawing.createImageData(this.pixelWidth, rows);
      this.pixels = new Uint32Array(this.image.data.buffer);
      this.sums = new Float64Array(4 * (this.pixelWidth + 1)); // red, green, blue, covered
    } else {
      this.pixels.fill(0);
    }
  }
}

// One row of spans in [t0, t1): narrow ones into row `row` of the plot's columns, wide ones into `wide`. `rgb[tone[item]]` is the
// colour of an item.
function rasterSpans(plot, lane, view, row, tone, rgb, back, wide) {
  const scale = plot.pixelWidth / (view.t1 - view.t0), sums = plot.sums, least = 2;
  sums.fill(0);
  let any = false;
  for (let k = firstAbove(lane.reach, view.t0); k < lane.count && lane.start[k] < view.t1; k++) {
    if (lane.end[k] <= view.t0) continue;
    const item = lane.item[k], x0 = (lane.start[k] - view.t0) * scale, x1 = (lane.end[k] - view.t0) * scale;
    if (x1 - x0 >= least) {
      wide.push(item, x0, x1);
      continue;
    }
    const colour = rgb[tone[item]], first = Math.max(0, Math.floor(x0)), last = Math.min(plot.pixelWidth - 1, Math.floor(x1));
    for (let x = first; x <= last; x++) {
      const part = Math.max(0.05, Math.min(x1, x + 1) - Math.max(x0, x)); // even the shortest leaves a trace
      sums[4 * x] += part * colour[0];
      sums[4 * x + 1] += part * colour[1];
      sums[4 * x + 2] += part * colour[2];
      sums[4 * x + 3] += part;
    }
    any = true;
  }
  if (!any) return;
  const base = row * plot.pixelWidth;
  for (let x = 0; x < plot.pixelWidth; x++) {
    const covered = sums[4 * x + 3];
    if (covered === 0) continue;
    const share = Math.min(1, covered), r = sums[4 * x] / covered, g = sums[4 * x + 1] / covered, b = sums[4 * x + 2] / covered;
    plot.pixels[base + x] = 0xff000000 | Math.round(back[2] + (b - back[2]) * share) << 16 |
      Math.round(back[1] + (g - back[1]) * share) << 8 | Math.round(back[0] + (r - back[0]) * share);
  }
}

// Times at the top, lines through the plot.
function drawAxis(plot, view, left, top, bottom, theme) {
  const c = plot.drawing, width = plot.width - left, step = roundStep(90 * (view.t1 - view.t0) / width);
  c.font = "11px system-ui, sans-serif";
  c.textBaseline = "middle";
  c.textAlign = "left";
  const first = Math.ceil(view.t0 / step), most = 200; // far from 0 neighbours may be one number: then no step passes the end
  for (let n = 0; n < most && (first + n) * step <= view.t1; n++) {
    const k = first + n;
    const x = Math.round(left + (k * step - view.t0) / (view.t1 - view.t0) * width) + 0.5;
    c.strokeStyle = theme.line;
    c.beginPath();
    c.moveTo(x, top - 6);
    c.lineTo(x, bottom);
    c.stroke();
    if (x + 8 > plot.width - 30) continue;
    c.fillStyle = theme.faint;
    c.fillText(k === 0 ? "0" : axisText(k * step, step), x + 4, top - 11);
  }
}

// As many digits as neighbours need to differ, in the unit that fits the number.
function axisText(ps, step) {
  const units = [["s", 1e12], ["ms", 1e9], ["us", 1e6], ["ns", 1e3], ["ps", 1]];
  const [name, size] = units.find(([, unit]) => ps >= unit) || units[4];
  return `${(ps / size).toFixed(Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9)))} ${name}`;
}
