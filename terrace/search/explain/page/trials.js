// The charts and the table of all trials: convergence, parallel coordinates, best trials.
"use strict";

const doneRows = () => d3.range(data.trials).filter((row) => !data.failures[row]);

function convergenceChart(container) {
  const {trials, best_so_far: best, failures} = data, [{name, values}] = data.objectives;
  const chart = frame(container, container.clientWidth, 320, {top: 24, right: 14, bottom: 58, left: 56}, `best ${name} by trial`);
  const [least, most] = d3.extent(values.filter(isNumber)), unit = unitFor(name, Math.max(Math.abs(least), Math.abs(most)));
  const x = d3.scale.linear().domain([0, Math.max(1, trials - 1)]).range([0, chart.width]);
  const y = d3.scale.linear().domain([least / unit.size, most / unit.size]).nice(5).range([chart.height, 0]);
  axis(chart, x, "x", "", [Math.max(2, Math.floor(chart.width / 90)), ",d"]);
  chart.plot.append("text").attr({class: "quiet end", x: chart.width, y: chart.height + 50}).text("trial, in the order of their ends");
  axis(chart, y, "y", unit.name ? `${name}, ${unit.name}` : name, [5]);
  const failed = d3.range(trials).filter((row) => failures[row]), pixels = [...new Set(failed.map((row) => Math.round(x(row))))];
  chart.plot.append("path").attr({class: "failures", "data-failed": failed.length,
                                  d: pixels.map((at) => `M${at},${chart.height + 26}v10`).join("") || "M0,0"});
  const done = doneRows();
  for (const row of thinnedList(done, 3000)) {
    chart.plot.append("circle").attr({class: "point", cx: x(row), cy: y(values[row] / unit.size), r: 2.5, "data-row": row, "data-value": values[row]})
      .style("fill", "var(--mark)");
  }
  const known = d3.range(trials).filter((row) => best[row] !== null);
  // Only where it changes, and at the end.
  const steps = known.filter((row, i) => i === 0 || best[row] !== best[row - 1] || i === known.length - 1);
  chart.plot.append("path").attr({class: "best-so-far", "data-best": best[trials - 1],
                                  d: d3.svg.line().interpolate("step-after").x((row) => x(row)).y((row) => y(best[row] / unit.size))(steps)});
  followPointer(chart, x, (event, at) => {
    const row = Math.max(0, Math.min(trials - 1, Math.round(at)));
    showTip(event, [...describeTrial(row), `best so far: ${formatFigure(name, best[row])}`]);
  });
}

const convergenceLegend = () => legend([
  ["a trial", (svg) => svg.append("circle").attr({cx: 9, cy: 6, r: 3}).style("fill", "var(--mark)")],
  ["the best so far", (svg) => svg.append("line").attr({class: "best-so-far", x2: 18, y1: 6, y2: 6})],
  ...(data.failed ? [["a trial that failed", (svg) => svg.append("path").attr({class: "failures", d: "M9,1v10"})]] : [])]);

// Lines of all trials on a canvas, below axes whose brushes choose among them.
class ParallelCoordinates {
  constructor(place) {
    this.place = place;
    this.chosen = new Map();  // by axis: its range in pixels
  }

  layOut() {
    const order = data.attributions[0].ranking.map((one) => data.parameters[parameterNamed(one.parameter)]);
    const axes = order.length + data.objectives.length;
    this.top = 52;
    this.height = 300;
    const width = Math.max(this.place.clientWidth, axes * 84 + 40), margin = 54;
    const xOf = (i) => margin + (i * (width - 2 * margin)) / Math.max(1, axes - 1);
    this.axes = [...order.map((one, i) => this.parameterAxis(one, xOf(i))), ...data.objectives.map((one, i) => this.objectiveAxis(one, xOf(order.length + i)))];
    const box = element("div", {class: "parallel", style: `width: ${width}px; height: ${this.top + this.height + 34}px`});
    this.canvas = element("canvas", {});
    this.width = width;
    this.full = this.top + this.height + 34;
    const scale = window.devicePixelRatio || 1;
    Object.assign(this.canvas, {width: width * scale, height: this.full * scale});
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${this.full}px`;
    this.context = this.canvas.getContext("2d");
    this.context.scale(scale, scale);
    box.append(this.canvas);
    this.place.replaceChildren(box);
    this.drawAxes(d3.select(box).append("svg").attr({width, height: this.full, role: "img", "aria-label": "parallel coordinates"}));
    this.draw();
  }

  parameterAxis(parameter, x) {
    const places = placesOf(parameter, this.height);
    const y = (index) => this.top + this.height - places.at(index);
    const spread = Math.min(14, 0.5 * places.step);
    return {name: parameter.name, x, labels: sparse(parameter.values.map((_, i) => ({y: y(i), text: valueText(parameter, i)})), places.step > 0 ? 13 : 40),
            y: (row) => y(parameter.indices[row]) + (jitter(row) - 0.5) * spread};
  }

  // A trial that failed ends below the axis.
  objectiveAxis({name, values}, x) {
    const extent = d3.extent(values.filter(isNumber)), scale = d3.scale.linear().domain(extent).range([this.top + this.height - 6, this.top + 6]);
    const unit = unitFor(name, d3.max(extent, Math.abs)), inUnit = scale.copy().domain(extent.map((one) => one / unit.size));
    const labels = inUnit.ticks(5).map((value) => ({y: inUnit(value), text: inUnit.tickFormat(5)(value)}));
    return {name, x, labels, unit: unit.name, y: (row) => (isNumber(values[row]) ? scale(values[row]) : this.top + this.height + 18)};
  }

  drawAxes(svg) {
    const names = svg.append("g");
    this.axes.forEach((one, i) => {
      const line = svg.append("g").attr("transform", `translate(${one.x},0)`);
      line.append("line").attr({class: "base", y1: this.top, y2: this.top + this.height}).style("stroke", "var(--quiet)");
      const anchor = i === 0 ? {x: one.x - 46, class: ""} : i === this.axes.length - 1 ? {x: one.x + 46, class: "end"} : {x: one.x, class: "middle"};
      names.append("text").attr({...anchor, y: i % 2 ? 34 : 14}).style("font-weight", 600)
        .text(shortened(one.name, 24) + (one.unit ? `, ${one.unit}` : ""));
      for (const {y, text} of one.labels) {
        line.append("text").attr({class: "quiet", x: 8, y, dy: "0.35em"}).style({stroke: "var(--panel)", "stroke-width": 3, "paint-order": "stroke"}).text(shortened(text, 10));
      }
      const brush = d3.svg.brush().y(d3.scale.linear().domain([0, this.full]).range([0, this.full]))
        .on("brush", () => {
          if (brush.empty()) this.chosen.delete(one.name);
          else this.chosen.set(one.name, brush.extent());
          this.draw();
        });
      if (this.chosen.has(one.name)) brush.extent(this.chosen.get(one.name));
      const drawn = line.append("g").attr({class: "brush", "data-axis": one.name}).call(brush);
      drawn.selectAll("rect").attr({x: -14, width: 28});
      drawn.select(".background").attr({y: this.top - 8, height: this.height + 36});
    });
    if (data.failed) svg.append("text").attr({class: "quiet end", x: this.width - 2, y: this.top + this.height + 32}).text("failed");
  }

  isChosen(row) {
    return this.axes.every((one) => {
      const range = this.chosen.get(one.name);
      return !range || (one.y(row) >= range[0] && one.y(row) <= range[1]);
    });
  }

  draw() {
    const {context} = this, [{values, smaller_is_better: smaller}] = data.objectives, [least, most] = d3.extent(values.filter(isNumber));
    const colour = gradient(), style = getComputedStyle(document.documentElement), grey = style.getPropertyValue("--failed").trim();
    context.clearRect(0, 0, this.width, this.full);
    const rows = d3.range(data.trials).filter((row) => this.isChosen(row)), done = rows.filter((row) => isNumber(values[row]));
    const stroke = (row, of, alpha, size) => {
      Object.assign(context, {strokeStyle: of, globalAlpha: alpha, lineWidth: size});
      context.beginPath();
      for (const one of this.axes) context.lineTo(one.x, one.y(row));
      context.stroke();
    };
    const failed = rows.filter((row) => !isNumber(values[row]));
    for (const row of failed) stroke(row, grey, Math.max(0.04, Math.min(0.5, 60 / failed.length)), 1);
    // The best ones lie on top.
    done.sort((a, b) => (smaller ? values[b] - values[a] : values[a] - values[b]));
    for (const row of done) stroke(row, colour(most > least ? (values[row] - least) / (most - least) : 0.5), Math.max(0.35, Math.min(0.9, 200 / done.length)), 1.4);
    Object.assign(this.canvas.dataset, {done: done.length, failed: failed.length});
  }
}

// Labels that are so many pixels from each other.
function sparse(labels, distance) {
  const kept = [];
  for (const one of labels) {
    if (kept.every((other) => Math.abs(other.y - one.y) >= distance)) kept.push(one);
  }
  return kept;
}

function objectiveLegend() {
  const [{name, values}] = data.objectives, [least, most] = d3.extent(values.filter(isNumber));
  return element("p", {class: "quiet"}, `${name}: ${formatFigure(name, least)} `, element("span", {class: "scale"}), ` ${formatFigure(name, most)}`,
                 ...(data.failed ? ["; grey: failed"] : []));
}

function bestTable() {
  const {parameters, objectives, best, job_ids: ids} = data;
  const rows = best.map((row, i) => [
    cell(String(i + 1)), ...objectives.map((one) => cell(formatFigure(one.name, one.values[row]), one.values[row], {row, objective: one.name})),
    cell(ids[row]), ...parameters.map((one) => cell(valueOf(one, row)))]);
  return table(["", ...objectives.map((one) => one.name), "trial", ...parameters.map((one) => one.name)], rows);
}
