// Numbers of the steps beside the loss, each in a chart of its own.
"use strict";

const MOST_RATIO = 50;  // of the largest value and the median, above which small values could not be distinguished

// By step, on an axis that begins at 0, or in powers of ten where a few values are far above the others. Curves are
// {run, points} with at least one point each.
function stepChart(container, curves, {height, name, unit, format}) {
  const margin = {top: 24, right: 16, bottom: 40, left: 60};
  const chart = frame(container, container.clientWidth, height, margin, `${name} by step`);
  const points = curves.flatMap((curve) => curve.points), values = points.map((point) => point[1]);
  const steps = d3.max(points, (point) => point[0]), most = d3.max(values), least = d3.min(values);
  const inPowers = least > 0 && most > MOST_RATIO * d3.median(values);
  const x = d3.scale.linear().domain([0, steps]).range([0, chart.width]);
  const ends = [Math.min(0, least), Math.max(0, most)];
  const y = inPowers ? d3.scale.log().domain([least, most]) : d3.scale.linear().domain(ends[0] < ends[1] ? ends : [0, 1]).nice();
  y.range([chart.height, 0]);
  axis(chart, x, "x", "step", [Math.min(steps, Math.max(2, Math.floor(chart.width / 90))), ",d"]);
  if (inPowers) powerAxis(chart, y, "y", unit, [5]);
  else axis(chart, y, "y", unit, [5, axisFormat(y)]);
  const path = d3.svg.line().x((point) => x(point[0])).y((point) => y(point[1]));
  for (const {run, points: own} of curves) {
    chart.plot.append("path").attr({class: "curve", d: path(thinned(own, chart.width)), "data-run": run.index, "data-points": own.length})
      .style({stroke: runColour(run), "stroke-width": own.length > 1 ? 1.2 : 6, "stroke-linecap": "round"});
  }
  followPointer(chart, x, (event, at) => showTip(event, curves.map(({run, points: own}) => {
    const [step, value] = pointAt(own, at);
    return `${run.name}, step ${step.toLocaleString("en-US")}: ${format(value)}`;
  })));
}

// Of ticks: as powers of ten where they are small, with SI prefixes where they are large.
function axisFormat(scale) {
  const most = d3.max(scale.domain(), Math.abs);
  return most < 1e-2 ? ".1e" : most >= 1e4 ? "s" : undefined;
}

const curveName = (key) => (key.endsWith("_per_second") ? `${words(key.replace("_per_second", ""))}/s` : words(key));

function curvesSection(runs, keys) {
  const shown = runs.filter((run) => run.curves.length);
  section("curves", "Learning rate, gradient norm and speed", "Of each step; the gradient norm is that before clipping.", element("div", {class: "panel"},
    legend(shown.length > 1 ? shown.map((run) => [run.name, stroke("", runColour(run))]) : []),
    chart((grid) => {
      const places = keys.map((key) => [key, element("div", {"data-curve": key})]);
      grid.append(...places.map(([key, place]) => element("div", {}, element("h4", {}, curveName(key)), place)));
      for (const [key, place] of places) {
        const curves = shown.flatMap((run) => run.curves.filter((one) => one.key === key).map(({points}) => ({run, points})));
        stepChart(place, curves, {height: 220, name: curveName(key), unit: "", format: (value) => digits(value, 4)});
      }
    }, "multiples")));
}
