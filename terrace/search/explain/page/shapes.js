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

const SUPERSCRIPTS = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";
const powerOfTen = (exponent) => `10\u207b${[...String(-exponent)].map((digit) => SUPERSCRIPTS[digit]).join("")}`;

// The unit of an axis or a matrix for values up to `most`; with a power of ten where they are small in their smallest unit.
function scaledUnit(name, most) {
  const unit = unitFor(name, most), of = most / unit.size;
  if (!(of > 0) || of >= 0.1) return unit;
  const exponent = Math.floor(Math.log10(of));
  return {name: `${powerOfTen(exponent)} ${unit.name}`.trim(), size: unit.size * 10 ** exponent};
}

const signed = (text, value) => (value > 0 ? `+${text}` : text.replace("-", "\u2212"));

// The text of a parameter's value, with three digits if it is a longer number.
function valueText({values, numeric}, index) {
  const text = values[index], number = Number(text);
  if (text === "") return "none";
  if (!numeric || text.length <= 6) return text;
  return numberText(number);
}

// Three digits, more before the point, and a power of ten for small and large numbers: "0.025", "4.07e-4", "1e-4".
function numberText(number) {
  const size = Math.abs(number), rounded = Number(number.toPrecision(size >= 1000 ? 6 : 3));
  return size !== 0 && (size < 1e-3 || size >= 1e6) ? Number(number.toPrecision(3)).toExponential().replace("e+", "e") : String(rounded);
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

// Whether the values are drawn from a range, and not chosen from a list.
function isContinuous({values, numeric, indices}) {
  return numeric && (values.length > 24 || (values.length > indices.length / 2 && values.some((text) => text.length > 6)));
}

// Where the values of a parameter stand on an axis of this length: {at(index), step, ticks}. Words and numbers of a list
// are at equal distances of `step`, and have no ticks. Other numbers are on a scale, which is that of their logarithms where
// they differ by more than a hundredfold; step is 0, and the ticks are round numbers. A missing value is before all others.
function placesOf(parameter, length) {
  const {values} = parameter;
  if (!isContinuous(parameter)) {
    const step = length / values.length;
    return {at: (index) => (index + 0.5) * step, step, ticks: []};
  }
  const missing = values[0] === "" ? 36 : 0, numbers = values.filter((text) => text !== "").map(Number);
  const ends = [numbers[0], numbers[numbers.length - 1]], isLog = ends[0] > 0 && ends[1] > 100 * ends[0];
  const scale = (isLog ? d3.scale.log() : d3.scale.linear()).domain(ends).range([4 + missing, length - 4]);
  const round = isLog ? scale.ticks().filter((one) => Math.abs(Math.log10(one) - Math.round(Math.log10(one))) < 1e-6) : scale.ticks(6);
  const ticks = [...(missing ? [{at: 4, text: "none"}] : []), ...round.map((one) => ({at: scale(one), text: numberText(one)}))];
  return {at: (index) => (values[index] === "" ? 4 : scale(Number(values[index]))), step: 0, ticks};
}

// The labels of an axis across: a text for every value, or for every second or third .. one, so that they fit side by side.
function labelledValues(parameter, places, room) {
  const extent = ({at, text}) => ({at, text, begin: at - (text.length * 6.5 + room) / 2, end: at + (text.length * 6.5 + room) / 2});
  if (places.step === 0) {
    return places.ticks.map(extent).reduce((kept, one) => (kept.length && one.begin < kept[kept.length - 1].end ? kept : [...kept, one]), []);
  }
  const all = parameter.values.map((_, index) => extent({at: places.at(index), text: shortened(valueText(parameter, index), 12)}));
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
