// The charts that stay in place: the split of the step, memory over time, the roofline and the losses.
"use strict";

// At most a few points for each pixel: of each range of x the first, the smallest, the largest and the last.
function thinned(points, pixels) {
  if (points.length <= 4 * pixels) return points;
  const size = points.length / pixels, kept = [];
  for (let begin = 0; begin < points.length; begin += size) {
    const range = d3.range(Math.floor(begin), Math.min(points.length, Math.floor(begin + size)));
    const least = d3.min(range, (i) => points[i][1]), most = d3.max(range, (i) => points[i][1]);
    const indices = [range[0], range.find((i) => points[i][1] === least), range.find((i) => points[i][1] === most), range[range.length - 1]];
    kept.push(...[...new Set(indices)].sort(d3.ascending).map((i) => points[i]));
  }
  return kept;
}

// The last point that is not behind x, else the first.
const pointAt = (points, x) => points[Math.max(0, d3.bisector((point) => point[0]).right(points, x) - 1)];

// Bars of the stages' seconds, predicted above measured, on an axis up to `longest` seconds.
function splitChart(container, run, stages, map, longest) {
  const bar = 14, sources = SOURCES.filter((source) => run[source]);
  const step = bar * sources.length + 10;
  const margin = {top: 4, right: 64, bottom: 40, left: container.clientWidth < 480 ? 74 : 134};
  const chart = frame(container, container.clientWidth, stages.length * step + margin.top + margin.bottom, margin, "split of the step's time");
  const unit = unitOf(longest, SECONDS);
  const x = d3.scale.linear().domain([0, longest / unit.size]).range([0, chart.width]);
  axis(chart, x, "x", unit.name, [Math.max(2, Math.min(8, Math.floor(chart.width / 70)))]);
  stages.forEach((number, row) => sources.forEach((source, i) => {
    const [stage] = stagesOf(run[source], number);
    if (!stage) return;
    const top = row * step + 5 + i * bar, middle = top + bar / 2;
    if (i === 0) chart.plot.append("text").attr({x: -margin.left, y: middle, dy: "0.35em"}).text(`stage ${number}`);
    if (margin.left > 100) chart.plot.append("text").attr({class: "quiet", x: -6, y: middle, dy: "0.35em", "text-anchor": "end"}).text(source);
    let begin = 0;
    for (const [name, seconds] of Object.entries(stage.seconds).filter(([, one]) => one > 0)) {
      chart.plot.append("rect").datum([`${name}: ${formatSeconds(seconds)}`, formatShare(seconds / sum(stage.seconds)),
                                       `stage ${number}, ${source}`])
        .attr({class: "part", x: x(begin / unit.size), y: top, width: x(seconds / unit.size), height: bar - 2, "data-stage": number,
               "data-source": source, "data-part": name, "data-value": seconds})
        .style("fill", fillOf(map.get(name)))
        .on("pointermove", (lines) => showTip(d3.event, lines)).on("pointerleave", hideTip);
      begin += seconds;
    }
    chart.plot.append("text").attr({x: x(begin / unit.size) + 5, y: middle, dy: "0.35em"}).text(formatSeconds(begin));
  }));
}

// Memory of one stage over the time of the step; `most` bytes and `longest` seconds are the ends of the axes.
function memoryChart(container, run, number, most, longest) {
  const margin = {top: 22, right: 14, bottom: 38, left: 44};
  const chart = frame(container, container.clientWidth, 178, margin, `memory of stage ${number} over time`);
  const bytes = unitOf(most, BYTES), seconds = unitOf(longest, SECONDS);
  const x = d3.scale.linear().domain([0, longest / seconds.size]).range([0, chart.width]);
  const y = d3.scale.linear().domain([0, most / bytes.size]).nice(4).range([chart.height, 0]);
  axis(chart, x, "x", seconds.name, [Math.max(2, Math.floor(chart.width / 60))]);
  axis(chart, y, "y", bytes.name, [4]);
  const path = d3.svg.line().interpolate("step-after").x((point) => x(point[0] / seconds.size)).y((point) => y(point[1] / bytes.size));
  const curves = SOURCES.filter((source) => run[source]).flatMap((source) =>
    stagesOf(run[source], number).filter((stage) => stage.memory.length).map((stage) => ({source, rank: stage.rank, points: stage.memory})));
  for (const {source, points} of curves) {
    chart.plot.append("path").attr({class: `curve ${source}`, "data-stage": number, "data-source": source,
                                    d: path(thinned(points, chart.width))});
  }
  followPointer(chart, x, (event, at) => {
    const time = at * seconds.size;
    showTip(event, [`stage ${number} at ${formatSeconds(time)}`, ...curves.map((curve) =>
      `${curve.source}, rank ${curve.rank}: ${formatBytes(pointAt(curve.points, time)[1])}`)]);
  });
}

// Both coordinates in powers of ten; the limits are those of all runs, so that charts side by side compare.
function rooflineLimits(runs) {
  const points = runs.flatMap((run) => recordsOf(run).flatMap((record) => record.operations.map((one) => reached(one, record))))
    .filter((one) => one.intensity);
  const records = runs.flatMap(recordsOf).filter((record) => record.peak_flops > 0);
  const ridges = records.filter((record) => record.memory_bandwidth > 0).map((record) => record.peak_flops / record.memory_bandwidth);
  const decades = (values) => [10 ** (Math.floor(Math.log10(d3.min(values)) - 0.2)), 10 ** (Math.ceil(Math.log10(d3.max(values)) + 0.2))];
  if (!points.length) return null;
  return {x: decades([...points.map((one) => one.intensity), ...ridges]),
          y: decades([...points.map((one) => one.flopsPerSecond), ...records.map((record) => record.peak_flops)])};
}

// The roof of a record from the left end of the axes to the right, cut off at their lower end.
function roofPoints(record, {x: [low, high], y: [bottom]}) {
  const {peak_flops: peak, memory_bandwidth: bandwidth} = record;
  if (!(peak > 0)) return [];
  const roof = (intensity) => (bandwidth > 0 ? Math.min(peak, bandwidth * intensity) : peak);
  const ends = bandwidth > 0 ? [Math.max(low, bottom / bandwidth), peak / bandwidth, high] : [low, high];
  return ends.map((intensity) => [intensity, roof(intensity)]);
}

// Whether the operation has a point in the roofline.
function isDrawn(operation, record) {
  const {intensity, flopsPerSecond} = reached(operation, record);
  return Boolean(intensity && flopsPerSecond);
}

function rooflineChart(container, run, map, limits) {
  const margin = {top: 26, right: 22, bottom: 40, left: 48};
  const chart = frame(container, container.clientWidth, 330, margin, "roofline");
  const x = d3.scale.log().domain(limits.x).range([0, chart.width]), y = d3.scale.log().domain(limits.y).range([chart.height, 0]);
  const decade = (value) => {
    const unit = unitOf(value, withPrefixes(""));
    return Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-6 ? `${Number((value / unit.size).toPrecision(1))} ${unit.name}` : "";
  };
  axis(chart, x, "x", "FLOP/byte", [1, decade]);
  axis(chart, y, "y", "FLOP/s", [1, decade]);
  const path = d3.svg.line().x((point) => x(point[0])).y((point) => y(point[1]));
  // The dashes of the predicted roof lie above the measured one, which is often the same.
  for (const source of [...SOURCES].reverse().filter((one) => run[one])) {
    const record = run[source], points = roofPoints(record, limits);
    if (!points.length) continue;
    chart.plot.append("path").attr({class: `curve ${source}`, d: path(points), "data-roof": source});
    const bandwidth = record.memory_bandwidth > 0 ? ` and ${withUnit(record.memory_bandwidth, BYTES_PER_SECOND)}` : "";
    chart.plot.append("path").attr({d: path(points), fill: "none", stroke: "transparent", "stroke-width": 10})
      .on("pointermove", () => showTip(d3.event, [`${source}: at most ${withUnit(record.peak_flops, FLOPS_PER_SECOND)}${bandwidth}`]))
      .on("pointerleave", hideTip);
  }
  for (const source of SOURCES.filter((one) => run[one])) {
    for (const operation of run[source].operations) {
      if (!isDrawn(operation, run[source])) continue;
      const {intensity, flopsPerSecond, ofRoof} = reached(operation, run[source]);
      const colour = `var(--colour-${map.get(operation.name).colour})`;
      chart.plot.append("circle").attr({cx: x(intensity), cy: y(flopsPerSecond), r: 6, "data-operation": operation.name, "data-source": source,
                                        "data-intensity": intensity, "data-rate": flopsPerSecond})
        .style({fill: source === "measured" ? colour : "var(--panel)", stroke: colour, "stroke-width": 2.5})
        .on("pointermove", () => showTip(d3.event, [
          `${operation.name}, ${source}`, `${digits(intensity)} FLOP/byte, ${withUnit(flopsPerSecond, FLOPS_PER_SECOND)}`,
          `${formatShare(ofRoof)} of the roof, ${formatSeconds(operation.seconds)}`]))
        .on("pointerleave", hideTip);
    }
  }
}

// Colours for thin lines on the page's ground.
const NUM_RUN_COLOURS = 7;
const runColour = (run) => `var(--run-${run.index % NUM_RUN_COLOURS})`;

// What a run trained on from a step on, each {from_step, changes}.
const phasesOf = (run) => (run.figures && run.figures.phases) || [];

// The losses of all runs by step, the losses of simple models as levels, and a line where a phase of a run begins.
function lossChart(container, runs) {
  const margin = {top: 24, right: 16, bottom: 40, left: 52};
  const chart = frame(container, container.clientWidth, 340, margin, "training and held-out loss by step");
  const shown = runs.map((run) => ({run, ...(run.losses || {training: [], validation: []})}));
  const levels = shown.flatMap(({run}) => (run.figures && run.figures.baselines) || []).filter((one) => isNumber(one.loss));
  const points = shown.flatMap(({training, validation}) => [...training, ...validation]);
  const steps = d3.max(points, (point) => point[0]);
  const x = d3.scale.linear().domain([0, steps]).range([0, chart.width]);
  const [least, most] = d3.extent([...points.map((point) => point[1]), ...levels.map((one) => one.loss)]);
  const y = d3.scale.linear().domain(least < most ? [least, most] : [least - 1, most + 1]).nice().range([chart.height, 0]);
  axis(chart, x, "x", "step", [Math.min(steps, Math.max(2, Math.floor(chart.width / 90))), ",d"]);
  const units = new Set(shown.map(({run}) => (run.figures && run.figures.loss_unit) || "loss"));
  axis(chart, y, "y", units.size === 1 ? [...units][0] : "loss", [6]);
  const path = d3.svg.line().x((point) => x(point[0])).y((point) => y(point[1]));
  for (const level of levels) {
    chart.plot.append("line").attr({class: "curve level", x2: chart.width, y1: y(level.loss), y2: y(level.loss)});
  }
  for (const {run} of shown) {
    for (const phase of phasesOf(run).filter((one) => one.from_step <= steps)) {
      const at = x(phase.from_step);
      chart.plot.append("line").attr({class: "curve level", x1: at, x2: at, y2: chart.height, "data-run": run.index, "data-phase": phase.from_step});
    }
  }
  for (const {run, training, validation} of shown) {
    const colour = runColour(run);
    chart.plot.append("path").attr({class: "curve", d: path(thinned(training, chart.width)), "data-run": run.index, "data-points": training.length})
      .style({stroke: colour, "stroke-width": training.length > 1 ? 1.2 : 6, "stroke-linecap": "round"});
    for (const [step, loss] of validation) {
      chart.plot.append("circle").attr({cx: x(step), cy: y(loss), r: 3.5, "data-run": run.index, "data-step": step, "data-value": loss})
        .style({fill: "var(--panel)", stroke: colour, "stroke-width": 2});
    }
  }
  followPointer(chart, x, (event, at) => showTip(event, shown.filter(({training}) => training.length).flatMap(({run, training, validation}) => {
    const [step, loss] = pointAt(training, at), held = validation.length ? pointAt(validation, at) : null;
    return [`${run.name}, step ${step.toLocaleString("en-US")}: ${formatLoss(loss)}`,
            ...(held && held[0] <= at ? [`held out at step ${held[0].toLocaleString("en-US")}: ${formatLoss(held[1])}`] : []),
            ...phasesOf(run).filter((phase) => phase.from_step <= at).slice(-1)
              .map((phase) => `from step ${phase.from_step.toLocaleString("en-US")}: ${phase.changes}`)];
  })));
}

function lossLegend(runs) {
  const ring = (colour) => (svg) => svg.append("circle").attr({cx: 9, cy: 6, r: 3.5})
    .style({fill: "none", stroke: colour, "stroke-width": 2});
  const ofRuns = runs.flatMap((run) => {
    if (!run.losses || !run.losses.training.length) return [];
    const colour = runColour(run), before = runs.length > 1 ? `${run.name}: ` : "";
    return [[`${before}training`, stroke("", colour)], ...(run.losses.validation.length ? [[`${before}held out`, ring(colour)]] : [])];
  });
  const baselines = runs.flatMap((run) => (run.figures && run.figures.baselines) || []).filter((one) => isNumber(one.loss));
  const levels = [...new Set(baselines.map((one) => one.name))].map((name) => [name, stroke("level")]);
  return legend([...ofRuns, ...levels]);
}
