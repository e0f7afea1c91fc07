// The gradient noise scale of the runs that measured it.
"use strict";

// By step, on an axis that begins at 0; samples are the same on it for all runs.
function noiseChart(container, runs) {
  const margin = {top: 12, right: 16, bottom: 40, left: 60};
  const chart = frame(container, container.clientWidth, 240, margin, "gradient noise scale by step");
  const points = runs.flatMap((run) => run.noise_scales);
  const steps = d3.max(points, (point) => point[0]);
  const x = d3.scale.linear().domain([0, steps]).range([0, chart.width]);
  const y = d3.scale.linear().domain([0, d3.max(points, (point) => point[1])]).nice().range([chart.height, 0]);
  axis(chart, x, "x", "step", [Math.min(steps, Math.max(2, Math.floor(chart.width / 90))), ",d"]);
  axis(chart, y, "y", "samples", [5]);
  const path = d3.svg.line().x((point) => x(point[0])).y((point) => y(point[1]));
  for (const run of runs) {
    chart.plot.append("path").attr({class: "curve", d: path(thinned(run.noise_scales, chart.width)), "data-run": run.index,
                                    "data-points": run.noise_scales.length})
      .style({stroke: runColour(run), "stroke-width": run.noise_scales.length > 1 ? 1.2 : 6, "stroke-linecap": "round"});
  }
  followPointer(chart, x, (event, at) => showTip(event, runs.map((run) => {
    const [step, samples] = pointAt(run.noise_scales, at);
    return `${run.name}, step ${step.toLocaleString("en-US")}: ${samples.toPrecision(4)} samples`;
  })));
}

function noiseSection(runs) {
  const sentences = runs.map((run) => element("p", {"data-noise": run.index},
    ...(runs.length > 1 ? [element("strong", {}, `${run.name}: `)] : []), `${run.figures.noise_scale_text}.`));
  section("noise", "Gradient noise scale", "The batch at which a step takes twice the fewest samples and twice the fewest steps to a loss.",
          element("div", {class: "panel"}, ...sentences,
                  legend(runs.length > 1 ? runs.map((run) => [run.name, stroke("", runColour(run))]) : []),
                  chart((place) => noiseChart(place, runs))));
}
