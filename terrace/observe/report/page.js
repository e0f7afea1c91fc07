// Builds the sections of the report from its data.
"use strict";

data.runs.forEach((run, index) => Object.assign(run, {index}));

// A panel for each run, side by side.
function panels(runs, fill) {
  return element("div", {class: "runs"}, ...runs.map((run) => {
    const panel = element("section", {class: "panel"}, ...(runs.length > 1 ? [element("h3", {}, run.name)] : []));
    fill(panel, run);
    return panel;
  }));
}

function build({title, runs}) {
  const page = document.getElementById("page"), recorded = runs.filter(hasRecord);
  stripes();
  page.replaceChildren(element("h1", {}, title));
  stateLines(runs);
  for (const run of runs) {
    const sentence = run.plan ? run.plan.limit : limitSentence(run), name = runs.length > 1 ? [element("strong", {}, `${run.name}: `)] : [];
    if (run.plan) page.append(element("p", {class: run.plan.fits ? "" : "note", "data-verdict": run.plan.fits}, ...name, run.plan.verdict));
    if (sentence) page.append(element("p", {"data-limit": run.index}, ...name, sentence));
    for (const warning of run.plan ? run.plan.warnings : []) page.append(element("p", {class: "note", "data-warning": run.index}, `Warning: ${warning}.`));
    for (const note of run.notes) page.append(element("p", {class: "note", "data-note": run.index}, note));
  }
  if (runs.some((run) => run.figures)) section("figures", "Figures", "", element("div", {class: "panel"}, headlineTable(runs), ...planFacts(runs)));
  if (recorded.length) recordSections(recorded);
  // The tables of one run are narrow.
  const [figures, comparison] = ["figures", "comparison"].map((id) => document.getElementById(id));
  if (runs.length === 1 && figures && comparison) {
    const beside = element("div", {class: "beside"});
    figures.before(beside);
    beside.append(figures, comparison);
  }
  for (const {plan} of runs.filter((run) => run.plan && run.plan.changes.length)) {
    section("changes", plan.fits ? "What would help most" : "The nearest layouts that fit", "", element("div", {class: "panel"}, changesTable(plan)));
    document.getElementById("timeline").before(document.getElementById("changes"));
  }
  if (runs.some((run) => run.losses && run.losses.training.length)) {
    section("losses", "Loss", "", element("div", {class: "panel"}, lossLegend(runs), chart((place) => lossChart(place, runs))));
  }
  const curves = [...new Set(runs.flatMap((run) => run.curves.map((one) => one.key)))];
  if (curves.length) curvesSection(runs, curves);
  const noisy = runs.filter((run) => run.noise_scales.length);
  if (noisy.length) noiseSection(noisy);
  const slow = runs.filter((run) => run.figures && run.figures.slow), profiled = runs.filter((run) => run.figures && run.figures.profile);
  if (slow.length) slowSection(slow);
  if (profiled.length) ranksSection(profiled);
}

// The sections of the records of steps, each of the runs that have what it shows.
function recordSections(runs) {
  const records = runs.flatMap(recordsOf), both = runs.some((run) => run.predicted && run.measured);
  const found = SOURCES.filter((source) => runs.some((run) => run[source]));
  const having = (has) => runs.filter((run) => recordsOf(run).some(has));
  const anyStage = (key) => (record) => record.stages.some((stage) => stage[key].length);
  section("comparison", found.length > 1 ? "Predicted and measured" : `The ${found[0]} step`,
          both ? "The error is that of the prediction, as a share of what was measured." : "",
          panels(runs, (panel, run) => panel.append(element("p", {class: "quiet"}, originOf(run)), comparison(run))));
  if (records.some(anyStage("events"))) timelineSection(runs);
  const takesTime = (name) => records.some((record) => record.stages.some((stage) => stage.seconds[name] > 0));
  const parts = paints(namesOf(records, "seconds").filter(takesTime));
  const longest = d3.max(records, (record) => Math.max(record.step_seconds, d3.max(record.stages, (stage) => sum(stage.seconds)) || 0));
  section("split", "What the time went to",
          `Stripes are waits.${both ? " The upper bar of a stage is predicted, the lower one measured." : ""}`, paintLegend(parts),
          panels(having((record) => record.stages.length), (panel, run) =>
            panel.append(...chartOfStages(run, isNarrow() ? 16 : 32, (place, stages) => splitChart(place, run, stages, parts, longest)))));
  if (records.some(anyStage("memory"))) memorySection(having(anyStage("memory")));
  section("communication", "Communication",
          `Bytes that a rank sends in the step, the time of all these calls, and how much of it computation waited for.${
            records.some((record) => record.stages.length > 1)
              ? " The figures of a group are those of the stage that is named, whose calls take longest; waits for sends are among the waits for other stages." : ""}`,
          panels(runs, (panel, run) => panel.append(communicationTable(run))));
  const operating = having((record) => record.operations.length);
  if (operating.length) rooflineSection(operating);
}

// A place for a chart of the first stages, and a button that shows all of them.
function chartOfStages(run, most, draw, style = "scroll") {
  const all = numbersOfStages(run);
  let shown = all.slice(0, most);
  const place = chart((container) => draw(container, shown), style);
  if (all.length <= most) return [place];
  const button = element("button", {type: "button", "data-all": ""}, `all ${all.length} stages`);
  button.addEventListener("click", () => {
    shown = all;
    button.remove();
    drawAll();
  });
  return [place, button];
}

function timelineSection(runs) {
  const place = element("div", {class: "panel"});
  section("timeline", "Timeline", "A row for each stage and for the links that it uses. Thin vertical lines are the ends of the steps.", place);
  const timeline = new Timeline(place, runs);
  redraws.push(() => timeline.layOut());
}

// The sources of which a record of the runs has what is drawn.
const sourcesOf = (runs, has) => SOURCES.filter((source) => runs.some((run) => run[source] && has(run[source])));
const sourceLegend = (sources) => legend(sources.map((source) => [source, stroke(source)]));

function memorySection(runs) {
  const sources = sourcesOf(runs, (record) => record.stages.some((stage) => stage.memory.length));
  const samples = runs.flatMap(recordsOf).flatMap((record) => record.stages.flatMap((stage) => stage.memory));
  const most = d3.max(samples, (sample) => sample[1]), until = d3.max(samples, (sample) => sample[0]);
  const draw = (grid, run, stages) => {
    const places = stages.map((number) => [number, element("div")]);
    grid.append(...places.map(([number, place]) => element("div", {}, element("h4", {}, `stage ${number}`), place)));
    for (const [number, place] of places) memoryChart(place, run, number, most, until);
  };
  section("memory", "Memory in the step", "In use by tensors.", sourceLegend(sources), panels(runs, (panel, run) =>
    panel.append(...chartOfStages(run, isNarrow() ? 4 : 16, (grid, stages) => draw(grid, run, stages), "multiples"))));
}

function rooflineSection(runs) {
  const names = [...new Set(runs.flatMap((run) => namesIn(run, "operations")))];
  const map = paints(names), limits = rooflineLimits(runs);
  const drawn = (record) => record.operations.filter((one) => isDrawn(one, record));
  const inChart = new Set(runs.flatMap(recordsOf).flatMap(drawn).map((one) => one.name));
  const ring = (filled) => (svg) => svg.append("circle").attr({cx: 9, cy: 6, r: 4.5})
    .style({fill: filled ? "var(--quiet)" : "none", stroke: "var(--quiet)", "stroke-width": 2});
  const signs = legend([...names.filter((name) => inChart.has(name)).map((name) => [name, swatch(`var(--colour-${map.get(name).colour})`)]),
                        ...sourcesOf(runs, (record) => drawn(record).length).map((source) => [`${source} operation`, ring(source === "measured")])]);
  const legends = limits ? [sourceLegend(sourcesOf(runs, (record) => roofPoints(record, limits).length)), signs] : [];
  section("roofline", "Roofline",
          "The lines are what the peak rate and the memory of a rank allow. Operations without FLOPs are in the table alone.",
          ...legends, panels(runs, (panel, run) => {
            const place = limits ? [chart((one) => rooflineChart(one, run, map, limits), "chart scroll")] : [];
            panel.append(element("div", {class: "beside"}, ...place, operationTable(run)));
          }));
}

showPage(build);
