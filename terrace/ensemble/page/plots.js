// Predictions over labels, the calibration curve, and errors over spreads.
"use strict";

const unitsOf = ({units, is_per_atom: perAtom}) => (units ? `${units}${perAtom ? " / atom" : ""}` : `units of the data${perAtom ? ", per atom" : ""}`);
const figure = (value) => (isNumber(value) ? value.toPrecision(4) : MISSING);

// The spread as it was predicted and, where there is a scale, times it: [key, words, figures].
function spreadsOf({figures}) {
  const list = [["before", "as predicted", figures]];
  if (isNumber(figures.scale)) list.push(["after", `times ${figures.scale.toPrecision(3)}`, figures.scaled]);
  return list;
}

// A square chart whose two axes have the same domain, with the line on which both are equal: {plot, x, y}.
function squareChart(container, [least, most], across, up, label) {
  const margin = {top: 24, right: 14, bottom: 40, left: 60}, margins = margin.left + margin.right;
  const size = Math.max(margins + LEAST_PLOT, Math.min(container.clientWidth, 460));
  const chart = frame(container, size, size - margins + margin.top + margin.bottom, margin, label);
  const x = d3.scale.linear().domain([least, most]).nice(5), [first, last] = x.domain();
  const y = d3.scale.linear().domain([first, last]).range([chart.height, 0]);
  x.range([0, chart.width]);
  axis(chart, x, "x", across, [Math.max(2, Math.min(6, Math.floor(chart.width / 70)))]);
  axis(chart, y, "y", up, [6]);
  chart.plot.append("line").attr({class: "ideal", x1: x(first), y1: y(first), x2: x(last), y2: y(last)});
  return {plot: chart.plot, x, y};
}

function withTip(selection, linesOf) {
  selection.on("pointermove", (one) => showTip(d3.event, linesOf(one))).on("pointerleave", hideTip);
}

function drawPoints({plot, x, y}, {points}, units) {
  withTip(plot.selectAll("circle").data(points).enter().append("circle")
    .attr({class: "value", r: 2.5, cx: ([label]) => x(label), cy: ([, predicted]) => y(predicted), "data-structure": ([, , , structure]) => structure}),
  ([label, predicted, spread, structure]) => [`structure ${structure}`, `label ${figure(label)} ${units}`, `prediction ${figure(predicted)}`,
                                              ...(spread > 0 ? [`spread ${figure(spread)}`] : [])]);
}

// Squares are as dark as the logarithm of their counts.
function drawSquares({plot, x, y}, {least, most, side, cells}) {
  const at = (place) => least + (most - least) * place / side, largest = d3.max(cells, ([, , count]) => count);
  withTip(plot.selectAll("rect").data(cells).enter().append("rect")
    .attr({class: "square", x: ([column]) => x(at(column)), y: ([, row]) => y(at(row + 1)), width: x(at(1)) - x(at(0)), height: y(at(0)) - y(at(1)),
           "data-count": ([, , count]) => count})
    .style("fill-opacity", ([, , count]) => 0.15 + 0.85 * Math.log(count) / Math.max(1, Math.log(largest))),
  ([column, row, count]) => [`${formatCount(count)} ${count === 1 ? "value" : "values"}`, `labels from ${figure(at(column))} to ${figure(at(column + 1))}`,
                             `predictions from ${figure(at(row))} to ${figure(at(row + 1))}`]);
}

function parityChart(container, output) {
  const {parity, name} = output, units = unitsOf(output);
  const values = parity.points ? parity.points.flatMap(([label, predicted]) => [label, predicted]) : [parity.least, parity.most];
  const [least, most] = values.length ? d3.extent(values) : [0, 1];
  const chart = squareChart(container, least < most ? [least, most] : [least, least + 1], `label (${units})`, `predicted ${name} (${units})`, `predicted ${name} over labels`);
  if (parity.points) drawPoints(chart, parity, units);
  else drawSquares(chart, parity);
}

function paritySentence({parity, figures}) {
  const drawn = parity.points ? "Each point is a value." : `Each square is as dark as the logarithm of the number of values in it; all ${formatCount(figures.count)} are counted.`;
  return `${drawn}${parity.left_out ? ` ${formatCount(parity.left_out)} that are not finite are not drawn.` : ""}`;
}

function coverageChart(container, {coverage, name}) {
  const chart = squareChart(container, [0, 1], "expected share of labels", "observed share of labels in central intervals", `calibration of ${name}`);
  for (const key of ["before", "after"]) {
    if (!coverage[key]) continue;
    const path = d3.svg.line().x((i) => chart.x(coverage.expected[i])).y((i) => chart.y(coverage[key][i]));
    chart.plot.append("path").attr({class: `curve ${key}`, d: path(d3.range(coverage.expected.length)), "data-curve": key, "data-points": coverage[key].length});
  }
}

function spreadChart(container, output) {
  const {bins, name} = output, units = unitsOf(output), lists = Object.entries(bins);
  const most = d3.max(lists.flatMap(([, list]) => list.flatMap(([spread, error]) => [spread, error])).filter(isNumber)) || 1;
  const chart = squareChart(container, [0, most], `spread (${units})`, `root mean square error (${units})`, `error of ${name} over spread`);
  for (const [key, list] of lists) {
    const known = list.filter(([spread, error]) => isNumber(spread) && isNumber(error));
    const path = d3.svg.line().x(([spread]) => chart.x(spread)).y(([, error]) => chart.y(error));
    chart.plot.append("path").attr({class: `curve ${key}`, d: known.length ? path(known) : "M0,0"});
    withTip(chart.plot.selectAll(`circle.${key}`).data(known).enter().append("circle")
      .attr({class: key, r: 4, cx: ([spread]) => chart.x(spread), cy: ([, error]) => chart.y(error), "data-bin": key, "data-spread": ([spread]) => spread,
             "data-error": ([, error]) => error}),
    ([spread, error, count]) => [`${formatCount(count)} values`, `spread ${figure(spread)} ${units}`, `error ${figure(error)} ${units}`]);
  }
}

// With a figure of each spread.
function spreadLegend(output, words, key) {
  return legend(spreadsOf(output).map(([style, name, figures]) => [`${name}: ${words} ${figure(figures[key])}`, stroke(style)]));
}
