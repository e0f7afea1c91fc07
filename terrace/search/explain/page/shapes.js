// Names, units, colours and positions that several charts share.
"use strict";

const PERCENT = [["%", 0.01]];

// The units of a figure, of which the search has names.
function unitsOf(name) {
  if (name.endsWith("_seconds")) return SECONDS;
  if (name.endsWith("_bytes")) return BYTES;
  if (name === "flops_per_device") return FLOPS_PER_SECOND;
  return ["mfu", "hfu", "failure"].includes(name) ? PERCENT : withPrefixes("");
}

function formatFigure(name, value) {
  if (!isNumber(value)) return MISSING;
  const {name: unit, size} = unitFor(name, value);
  return `${digits(value / size)}${unit === "%" ? "" : " "}${unit}`.trim();
}

// The unit for values up to `most`.
function unitFor(name, most) {
  const units = unitsOf(name);
  return units === PERCENT ? {name: "%", size: 0.01} : unitOf(most, units);
}

const signed = (text, value) => (value > 0 ? `+${text}` : text.replace("-", "\u2212"));

// The text of a parameter's value, with three digits if it is a longer number.
function valueText({values, numeric}, index) {
  const text = values[index], number = Number(text);
  if (text === "") return "none";
  if (!numeric || text.length <= 6) return text;
  const size = Math.abs(number);
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? number.toExponential(2) : String(Number(number.toPrecision(size >= 1000 ? 6 : 3)));
}

const valueOf = (parameter, row) => valueText(parameter, parameter.indices[row]);

// From 0, the lowest value, to 1.
function gradient() {
  const style = getComputedStyle(document.documentElement);
  return d3.interpolateLab(style.getPropertyValue("--low").trim(), style.getPropertyValue("--high").trim());
}

// A number from 0 to 1 for each row, the same every time, that moves points with equal values apart.
const jitter = (row) => ((row * 0.6180339887498949) % 1);

// At most so many of the list, at equal distances.
function thinnedList(list, most) {
  if (list.length <= most) return list;
  return d3.range(most).map((i) => list[Math.floor((i * list.length) / most)]);
}

// Where the values of a parameter stand on an axis of this length: equal distances for words and few numbers, otherwise
// those of the numbers, or of their logarithms where they differ by more than a hundredfold.
function placesOf(parameter, length) {
  const {values, numeric} = parameter, numbers = values.map(Number);
  if (!numeric || values.length <= 24 || values.includes("")) {
    const step = length / values.length;
    return {at: (index) => (index + 0.5) * step, step};
  }
  const ends = [numbers[0], numbers[numbers.length - 1]];
  const scale = (ends[0] > 0 && ends[1] > 100 * ends[0] ? d3.scale.log() : d3.scale.linear()).domain(ends).range([4, length - 4]);
  return {at: (index) => scale(numbers[index]), step: 0};
}

// The values that have a label: every one, or every second or third .. one, so that the texts fit side by side.
function labelledValues(parameter, places, room) {
  const all = parameter.values.map((_, index) => {
    const text = shortened(valueText(parameter, index), 12);
    return {index, text, begin: places.at(index) - (text.length * 6.5 + room) / 2, end: places.at(index) + (text.length * 6.5 + room) / 2};
  });
  if (places.step === 0) {
    return all.reduce((kept, one) => (kept.length && one.begin < kept[kept.length - 1].end ? kept : [...kept, one]), []);
  }
  for (let stride = 1;; ++stride) {
    const kept = all.filter((_, i) => i % stride === 0);
    if (kept.every((one, i) => i === 0 || one.begin >= kept[i - 1].end)) return kept;
  }
}

const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);

function describeTrial(row) {
  const {parameters, objectives, failures, job_ids: ids} = data;
  const results = failures[row] ? [failures[row]] : objectives.map((one) => `${one.name}: ${formatFigure(one.name, one.values[row])}`);
  return [`trial ${ids[row]}`, ...results, ...parameters.map((one) => `${one.name} = ${valueOf(one, row)}`)];
}

function hover(selection, linesOf) {
  return selection.on("pointermove", (one) => showTip(d3.event, linesOf(one))).on("pointerleave", hideTip);
}
