// Maps of a field: a canvas with a pixel for each place, coastlines over it, and its scale of colours below.
"use strict";

// Of values that rise from dark to bright, and of values on both sides of zero.
const RISING = ["#440154", "#3b528b", "#21918c", "#5ec962", "#fde725"];
const AROUND_ZERO = ["#053061", "#4393c3", "#f7f7f7", "#d6604d", "#67001f"];
const NO_VALUE = "#808080";

function colourScale(colours, least, most) {
  return d3.scale.linear().domain(colours.map((_, i) => least + (most - least) * i / (colours.length - 1))).range(colours).clamp(true);
}

// The scale of a field: around zero where it has values on both sides, else from its least to its most.
function scaleOf(least, most) {
  const limit = Math.max(Math.abs(least), Math.abs(most));
  return least < 0 && most > 0 ? {colours: AROUND_ZERO, least: -limit, most: limit} : {colours: RISING, least, most};
}

const bytesOf = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
// The value of a byte on the scale on which it was written; undefined where there is none.
const valueOf = (byte, least, most) => (byte === 0 ? undefined : least + (most - least) * (byte - 1) / 254);

function paintMap(canvas, bytes, written, scale) {
  const {rows, columns} = data.maps, context = canvas.getContext("2d"), image = context.createImageData(columns, rows);
  const colour = colourScale(scale.colours, scale.least, scale.most);
  const table = d3.range(256).map((byte) => d3.rgb(byte === 0 ? NO_VALUE : colour(valueOf(byte, written.least, written.most))));
  for (let row = 0; row < rows; ++row) {
    for (let column = 0; column < columns; ++column) {
      const {r, g, b} = table[bytes[row * columns + column]];
      image.data.set([r, g, b, 255], 4 * ((rows - 1 - row) * columns + column));
    }
  }
  context.putImageData(image, 0, 0);
}

// Lines that begin on the other side of the map are drawn there too.
function coastPath() {
  const {west, east, south, north} = data.maps, parts = [];
  for (const line of data.coastlines) {
    for (const turn of [-360, 0, 360]) {
      const points = d3.range(0, line.length, 2).map((i) => [line[i] + turn, line[i + 1]]);
      if (!points.some(([x, y]) => x > west && x < east && y > south && y < north)) continue;
      parts.push(`M${points.map(([x, y]) => `${(x - west).toFixed(2)},${(north - y).toFixed(2)}`).join("L")}`);
    }
  }
  return parts.join("");
}

function drawScale(container, scale, units) {
  const margin = {top: 4, right: 18, bottom: 30, left: 18}, height = 46;
  const {plot, svg, width} = frame(container, container.clientWidth, height, margin, "scale of colours");
  const x = d3.scale.linear().domain([scale.least, scale.most]).range([0, width]);
  const colour = colourScale(scale.colours, scale.least, scale.most), steps = 60;
  svg.attr("class", "scale");
  for (const i of d3.range(steps)) {
    const value = scale.least + (scale.most - scale.least) * (i + 0.5) / steps;
    plot.append("rect").attr({x: width * i / steps, width: width / steps + 0.6, height: 10}).style("fill", colour(value));
  }
  const ticks = x.ticks(Math.max(2, Math.min(7, Math.floor(width / 60)))), text = x.tickFormat(ticks.length);
  for (const tick of ticks) {
    plot.append("text").attr({class: "quiet", x: x(tick), y: 23, "text-anchor": "middle"}).text(text(tick));
  }
  if (units) plot.append("text").attr({class: "quiet", x: width + margin.right, y: 38, "text-anchor": "end"}).text(units);
}

const degrees = (value, positive, negative) => `${Math.abs(value).toFixed(1)}\u00b0 ${value < 0 ? negative : positive}`;

function followMap(canvas, bytes, written, units) {
  const {rows, columns, west, east, south, north} = data.maps;
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.min(columns - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * columns)));
    const row = Math.min(rows - 1, Math.max(0, rows - 1 - Math.floor((event.clientY - box.top) / box.height * rows)));
    const value = valueOf(bytes[row * columns + column], written.least, written.most);
    const longitude = west + (east - west) * (column + 0.5) / columns, latitude = south + (north - south) * (row + 0.5) / rows;
    showTip(event, [value === undefined ? "no value" : `${digits(value, 3)} ${units}`.trim(),
                    `${degrees(latitude, "N", "S")}, ${longitude.toFixed(1)}\u00b0 E`]);
  });
  canvas.addEventListener("pointerleave", hideTip);
}

// One map with its heading.
function mapOf(name, one, written, scale) {
  const {rows, columns, west, east, south, north} = data.maps;
  const canvas = element("canvas", {width: columns, height: rows, role: "img", "aria-label": `map of ${name}`, "data-map": name});
  const place = element("div", {class: "map", style: `aspect-ratio: ${(east - west) / (north - south)}`}, canvas);
  const bytes = bytesOf(one[name]);
  paintMap(canvas, bytes, written, scale);
  followMap(canvas, bytes, written, one.units);
  const lines = d3.select(place).append("svg").attr({viewBox: `0 0 ${east - west} ${north - south}`, preserveAspectRatio: "none", "aria-hidden": true});
  lines.append("path").attr("d", coastPath());
  const below = element("div");
  return {panel: element("div", {}, element("h4", {}, name), place, below), draw: () => drawScale(below, scale, one.units)};
}

function drawMaps(container, one) {
  const own = {least: one.least, most: one.most}, errors = {least: -one.limit, most: one.limit};
  const scale = scaleOf(one.least, one.most);
  const maps = [mapOf("truth", one, own, scale), mapOf("forecast", one, own, scale),
                mapOf("error", one, errors, {colours: AROUND_ZERO, ...errors})];
  container.append(element("div", {class: "maps"}, ...maps.map((map) => map.panel)));
  for (const map of maps) map.draw();
}
