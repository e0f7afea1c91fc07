// Parallel coordinates: lines of all trials on a canvas, below axes whose brushes choose among them.
"use strict";

// Where the axes are upright they stand side by side, with low values below; where there is no room for that they lie below
// each other, with low values on the left.
const UPRIGHT = {least: 84, ends: 54, top: 52, length: 300, below: 34};
const LYING = {distance: 62, top: 32, left: 34, right: 22, below: 40};
const FAILED_ALONG = -18;  // pixels from the low end of an axis, where trials that failed end

class ParallelCoordinates {
  constructor(place) {
    this.place = place;
    this.chosen = new Map();  // by axis: the first and the last place on it, as shares of its length
  }

  layOut() {
    const order = data.attributions[0].ranking.map((one) => data.parameters[parameterNamed(one.parameter)]);
    const count = order.length + data.objectives.length;
    this.width = Math.max(this.place.clientWidth, 140);
    this.isUpright = this.width >= count * UPRIGHT.least + 40;
    this.length = this.isUpright ? UPRIGHT.length : this.width - LYING.left - LYING.right;
    this.height = this.isUpright ? UPRIGHT.top + UPRIGHT.length + UPRIGHT.below : LYING.top + (count - 1) * LYING.distance + LYING.below;
    const distance = this.isUpright ? (this.width - 2 * UPRIGHT.ends) / Math.max(1, count - 1) : LYING.distance;
    const across = (i) => (this.isUpright ? UPRIGHT.ends : LYING.top) + i * distance;
    this.axes = [...order.map((one) => this.parameterAxis(one)), ...data.objectives.map((one) => this.objectiveAxis(one))];
    this.axes.forEach((one, i) => Object.assign(one, {across: across(i)}));
    const box = element("div", {class: "parallel", style: `width: ${this.width}px; height: ${this.height}px`});
    this.canvas = element("canvas", {});
    const scale = window.devicePixelRatio || 1;
    Object.assign(this.canvas, {width: this.width * scale, height: this.height * scale});
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.context = this.canvas.getContext("2d");
    this.context.scale(scale, scale);
    box.append(this.canvas);
    this.place.replaceChildren(box);
    const svg = d3.select(box).append("svg").attr({width: this.width, height: this.height, role: "img", "aria-label": "parallel coordinates"});
    this.axes.forEach((one, i) => this.drawAxis(svg, one, i));
    this.draw();
  }

  // The point at so many pixels from the low end of an axis, [x, y], and the other way round.
  point(one, along) {
    return this.isUpright ? [one.across, UPRIGHT.top + this.length - along] : [LYING.left + along, one.across];
  }
  along(pixel) {
    return this.isUpright ? UPRIGHT.top + this.length - pixel : pixel - LYING.left;
  }

  parameterAxis(parameter) {
    const places = placesOf(parameter, this.length), spread = Math.min(14, 0.5 * places.step);
    const all = places.step > 0 ? parameter.values.map((_, i) => ({at: places.at(i), text: shortened(valueText(parameter, i), 10)})) : places.ticks;
    return {name: parameter.name, labels: this.isUpright ? sparse(all, 13) : labelledValues(parameter, places, 8),
            along: (row) => places.at(parameter.indices[row]) + (jitter(row) - 0.5) * spread};
  }

  objectiveAxis({name, values}) {
    const extent = d3.extent(values.filter(isNumber)), unit = scaledUnit(name, d3.max(extent, Math.abs));
    const scale = d3.scale.linear().domain(extent.map((one) => one / unit.size)).range([6, this.length - 6]);
    const ticks = this.isUpright ? 5 : Math.max(2, Math.floor(this.length / 70)), text = scale.tickFormat(ticks);
    return {name, unit: unit.name, labels: scale.ticks(ticks).map((value) => ({at: scale(value), text: text(value)})), isObjective: true,
            along: (row) => (isNumber(values[row]) ? scale(values[row] / unit.size) : FAILED_ALONG)};
  }

  drawAxis(svg, one, number) {
    const axis = svg.append("g"), [[x1, y1], [x2, y2]] = [this.point(one, 0), this.point(one, this.length)];
    axis.append("line").attr({class: "base", x1, y1, x2, y2}).style("stroke", "var(--quiet)");
    this.drawName(axis, one, number);
    for (const {at, text} of one.labels) {
      const [x, y] = this.point(one, at);
      this.drawLabel(axis, this.isUpright ? {x: x + 8, y, dy: "0.35em", class: "value"} : {x, y: y + 16, class: "value middle"}, text);
    }
    if (one.isObjective && data.failed) {
      const [x, y] = this.point(one, FAILED_ALONG);
      this.drawLabel(axis, this.isUpright ? {x, y: y + 14, class: "value middle"} : {x: x - 14, y: y + 32, class: "value"}, "failed");
    }
    this.addBrush(axis, one);
  }

  drawName(axis, one, number) {
    const isLast = number === this.axes.length - 1, [x] = this.point(one, 0);
    const text = shortened(one.name, 24) + (one.unit ? `, ${one.unit}` : "");
    const anchor = !this.isUpright ? {x: 2, y: one.across - 12} : number === 0 ? {x: x - 46} : isLast ? {x: x + 46} : {x};
    const side = !this.isUpright || number === 0 ? "" : isLast ? "end" : "middle";
    this.drawLabel(axis, {y: number % 2 ? 34 : 14, ...anchor, class: `name ${side}`}, text);
  }

  // A text, and behind it a ground that keeps the lines of the trials from it.
  drawLabel(axis, attributes, text) {
    const group = axis.append("g"), box = group.append("text").attr(attributes).text(text).node().getBBox();
    group.insert("rect", "text").attr({class: "ground", x: box.x - 2, y: box.y, width: box.width + 4, height: box.height, rx: 3});
  }

  addBrush(axis, one) {
    const pixels = d3.scale.linear().domain([0, this.isUpright ? this.height : this.width]).range([0, this.isUpright ? this.height : this.width]);
    const brush = this.isUpright ? d3.svg.brush().y(pixels) : d3.svg.brush().x(pixels);
    brush.on("brush", () => {
      if (brush.empty()) this.chosen.delete(one.name);
      else this.chosen.set(one.name, brush.extent().map((pixel) => this.along(pixel) / this.length).sort(d3.ascending));
      this.draw();
    });
    const range = this.chosen.get(one.name), side = this.isUpright ? 0 : 1;
    if (range) brush.extent(range.map((share) => this.point(one, share * this.length)[1 - side]).sort(d3.ascending));
    const drawn = axis.append("g").attr({class: "brush", "data-axis": one.name}).call(brush), [low] = [this.point(one, 0)];
    drawn.selectAll("rect").attr(this.isUpright ? {x: low[0] - 14, width: 28} : {y: low[1] - 14, height: 28});
    drawn.select(".background").attr(this.isUpright ? {y: UPRIGHT.top - 8, height: this.length + 36} : {x: low[0] - 28, width: this.length + 36});
  }

  isChosen(row) {
    return this.axes.every((one) => {
      const range = this.chosen.get(one.name), share = one.along(row) / this.length;
      return !range || (share >= range[0] && share <= range[1]);
    });
  }

  draw() {
    const {context} = this, [{values, smaller_is_better: smaller}] = data.objectives, [least, most] = d3.extent(values.filter(isNumber));
    const colour = gradient(), style = getComputedStyle(document.documentElement), grey = style.getPropertyValue("--failed").trim();
    context.clearRect(0, 0, this.width, this.height);
    const rows = d3.range(data.trials).filter((row) => this.isChosen(row)), done = rows.filter((row) => isNumber(values[row]));
    const stroke = (row, of, alpha, size) => {
      Object.assign(context, {strokeStyle: of, globalAlpha: alpha, lineWidth: size});
      context.beginPath();
      for (const one of this.axes) context.lineTo(...this.point(one, one.along(row)));
      context.stroke();
    };
    const failed = rows.filter((row) => !isNumber(values[row]));
    for (const row of failed) stroke(row, grey, Math.max(0.04, Math.min(0.5, 60 / failed.length)), 1);
    // The best ones lie on top.
    done.sort((a, b) => (smaller ? values[b] - values[a] : values[a] - values[b]));
    const shareOf = (row) => (most > least ? (values[row] - least) / (most - least) : 0.5);
    for (const row of done) stroke(row, colour(shareOf(row)), Math.max(0.35, Math.min(0.9, 200 / done.length)), 1.4);
    Object.assign(this.canvas.dataset, {done: done.length, failed: failed.length});
  }
}

// Labels that are so many pixels from each other.
function sparse(labels, distance) {
  const kept = [];
  for (const one of labels) {
    if (kept.every((other) => Math.abs(other.at - one.at) >= distance)) kept.push(one);
  }
  return kept;
}

function objectiveLegend() {
  const [{name, values}] = data.objectives, [least, most] = d3.extent(values.filter(isNumber));
  return element("p", {class: "quiet"}, `${name}: ${formatFigure(name, least)} `, element("span", {class: "scale"}), ` ${formatFigure(name, most)}`,
                 ...(data.failed ? ["; grey: failed"] : []));
}
