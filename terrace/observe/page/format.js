// Numbers with their units, as tables and axes show them.
"use strict";

const MISSING = "\u2013";
// From the smallest to the largest; the one of size 1 is for zero.
const SECONDS = [["ns", 1e-9], ["\u00b5s", 1e-6], ["ms", 1e-3], ["s", 1]];
const BYTES = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"].map((name, i) => [name, 1024 ** i]);
const withPrefixes = (unit) => ["", "k", "M", "G", "T", "P", "E"].map((prefix, i) => [prefix + unit, 1000 ** i]);
const BYTES_PER_SECOND = withPrefixes("B/s");
const FLOPS_PER_SECOND = withPrefixes("FLOP/s");
const COUNT = [["", 1]];

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

// All digits before the point, and so many digits in all if the value has fewer before the point.
function digits(value, count = 3) {
  const size = Math.abs(value);
  return size === 0 || size >= 10 ** (count - 1) ? Math.round(value).toLocaleString("en-US") : value.toPrecision(count);
}

// The largest unit in which the value is at least 1, as {name, size}.
function unitOf(value, units) {
  const fitting = units.filter(([, size]) => Math.abs(value) >= size);
  const [name, size] = value === 0 ? units.find((unit) => unit[1] === 1) : fitting.length ? fitting[fitting.length - 1] : units[0];
  return {name, size};
}

function withUnit(value, units, count = 3) {
  if (!isNumber(value)) return MISSING;
  const unit = unitOf(value, units);
  return `${digits(value / unit.size, count)} ${unit.name}`.trim();
}

const formatCount = (value) => (isNumber(value) ? value.toLocaleString("en-US") : MISSING);
const formatSeconds = (value) => withUnit(value, SECONDS);
const formatBytes = (value) => withUnit(value, BYTES);
const formatShare = (value) => (isNumber(value) ? `${(100 * value).toFixed(1)}%` : MISSING);
const formatLoss = (value) => (isNumber(value) ? digits(value, 4) : MISSING);

// How much the measured value is above the predicted one.
function formatDifference(share) {
  if (!isNumber(share)) return MISSING;
  const percent = (100 * share).toFixed(1);
  return `${share > 0 ? "+" : ""}${percent.replace("-", "\u2212")}%`;
}
