// Words and numbers, and the few ways in which the page is changed. Text is always set as text, never as HTML: names come from
// files.

const digits = (value, count) => {
  const places = value === 0 ? 0 : Math.max(0, count - 1 - Math.floor(Math.log10(Math.abs(value))));
  return value.toFixed(Math.min(places, 12));
};

function scaled(value, units, step, count) {
  let k = 0;
  while (k + 1 < units.length && Math.abs(value) >= step * 0.99995) {
    value /= step;
    k++;
  }
  return `${k === 0 && Number.isInteger(value) ? value : digits(value, count)} ${units[k]}`;
}

const timeText = (ps, count = 4) => ps === 0 ? "0 s" : scaled(ps, ["ps", "ns", "us", "ms", "s"], 1000, count);
const flopText = value => scaled(value, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"], 1000, 3);
const percent = share => `${(100 * share).toFixed(1)} %`;
const countText = value => value.toLocaleString("en");
const plural = (value, word) => `${countText(value)} ${word}${value === 1 ? "" : "s"}`;

// Graphs of some files count in units of their own.
let sizeScale = 1;
const byteText = (bytes, count = 3) => scaled(bytes / sizeScale, ["B", "kB", "MB", "GB", "TB", "PB"], 1000, count);

// What could turn the direction of writing or hide text is shown as its code.
const plain = text => String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g,
  c => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

const byId = id => document.getElementById(id);

// element("td", {className: "x"}, "text", child, ...)
function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  for (const child of children) made.append(typeof child === "string" ? plain(child) : child);
  return made;
}

function table(titles, rows) {
  const made = element("table", {});
  made.append(element("thead", {}, element("tr", {}, ...titles.map(([title, right]) =>
    element("th", {className: right ? "number" : ""}, title)))));
  const body = element("tbody", {});
  for (const row of rows) {
    body.append(element("tr", {}, ...row.map((cell, k) =>
      element("td", {className: titles[k] && titles[k][1] ? "number" : ""}, cell))));
  }
  made.append(body);
  return made;
}

// As much of a text as fits, cut in the middle: names differ at their ends. The letters have one width, so that no text needs to be
// measured.
function fitText(text, letters) {
  if (text.length <= letters) return text;
  if (letters < 4) return "";
  const tail = Math.floor((letters - 1) / 3);
  return `${text.slice(0, letters - 1 - tail)}\u2026${text.slice(text.length - tail)}`;
}

// Round steps of an axis: 1, 2 or 5 times a power of ten, at least `least`.
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  for (const factor of [1, 2, 5, 10]) if (factor * power >= least * 0.999999) return factor * power;
  return 10 * power;
}
