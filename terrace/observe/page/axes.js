// The frames of charts, their axes, and the pointer over them.
"use strict";

const LEAST_PLOT = 40;  // pixels, of a page in a narrow window or in one that is not shown

// An SVG of this size in the container, and in it a group within the margins: {svg, plot, width, height}.
function frame(container, wide, height, margin, label) {
  const width = Math.max(wide, margin.left + margin.right + LEAST_PLOT);
  const svg = d3.select(container).append("svg").attr({width, height, role: "img", "aria-label": label});
  const plot = svg.append("g").attr("transform", `translate(${margin.left},${margin.top})`);
  return {svg, plot, width: width - margin.left - margin.right, height: height - margin.top - margin.bottom};
}

// Lines of the grid with their numbers below ("x") or on the left ("y"), and the name of the axis. `values`: where the
// lines are, if not at the ticks of the scale.
function axis({plot, width, height}, scale, side, label, ticks, values = null) {
  const across = side === "x";
  const drawn = d3.svg.axis().scale(scale).orient(across ? "bottom" : "left").ticks(...ticks).tickPadding(5)
    .innerTickSize(across ? -height : -width).outerTickSize(0);
  if (values) drawn.tickValues(values).tickFormat(d3.format("g"));
  plot.append("g").attr({class: "axis", transform: `translate(0,${across ? height : 0})`}).call(drawn);
  plot.append("text").attr(across ? {class: "quiet", x: width, y: height + 32, "text-anchor": "end"}
                                  : {class: "quiet", x: 0, y: -8, "text-anchor": "start"}).text(label);
}

// Calls show(event, x of the scale) and draws a vertical line there while the pointer is over the chart.
function followPointer({plot, width, height}, scale, show) {
  const line = plot.append("line").attr({class: "cursor", y2: height}).style("display", "none");
  const area = plot.append("rect").attr({class: "hoverable", width, height});
  area.on("pointermove", () => {
    const [x] = d3.mouse(area.node());
    line.attr({x1: x, x2: x}).style("display", null);
    show(d3.event, scale.invert(x));
  }).on("pointerleave", () => {
    line.style("display", "none");
    hideTip();
  });
}

// Ticks of an axis in powers of ten: as many as there is room for, as plain numbers.
function powerTicks(scale, room) {
  const [least, most] = d3.extent(scale.domain()), all = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.ceil(Math.log10(most)); ++power) {
    for (const digit of [1, 2, 5]) all.push({digit, value: Number(`${digit}e${power}`)});
  }
  const inside = all.filter(({value}) => value >= least && value <= most), powers = inside.filter(({digit}) => digit === 1);
  const ticks = (inside.length <= room ? inside : powers).map(({value}) => value), every = Math.ceil(ticks.length / room);
  return ticks.filter((_, i) => i % every === 0);
}

// The axis of a logarithmic scale, with at most so many numbers.
function powerAxis(chart, scale, side, label, [room]) {
  axis(chart, scale, side, label ? `${label}, logarithmic` : "logarithmic", [room], powerTicks(scale, room));
}
