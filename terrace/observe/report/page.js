// Builds the page's sections from its data, and draws the charts again when the width or the colours change.
"use strict";

function panels(runs, fill) {
  return element("div", {class: "runs"}, ...runs.map((run) => {
    const panel = element("section", {class: "panel"}, ...(runs.length > 1 ? [element("h3", {}, run.name)] : []));
    fill(panel, run);
    return panel;
  }));
}

function build(data) {
  const page = document.getElementById("page"), runs = data.runs, recorded = runs.filter(hasRecord), drawn = [];
  const section = (id, title, about, ...children) => {
    page.append(element("section", {id}, element("h2", {}, title), ...(about ? [element("p", {class: "quiet"}, about)] : []), ...children));
  };
  // A place for a chart, which `draw` fills again at each change of the width.
  const chart = (draw, style = "scroll") => {
    const place = element("div", {class: style});
    drawn.push(() => {
      place.replaceChildren();
      draw(place);
    });
    return place;
  };
  stripes();
  page.replaceChildren(element("h1", {}, data.title));
  for (const run of runs) {
    const sentence = limitSentence(run), name = runs.length > 1 ? [element("strong", {}, `${run.name}: `)] : [];
    if (sentence) page.append(element("p", {"data-limit": run.index}, ...name, sentence));
    for (const note of run.notes) page.append(element("p", {class: "note", "data-note": run.index}, note));
  }
  if (runs.some((run) => run.figures)) section("figures", "Figures", "", element("div", {class: "panel"}, headlineTable(runs)));
  if (recorded.length) recordSections(section, chart, recorded);
  // The tables of one run are narrow.
  const [figures, comparison] = ["figures", "comparison"].map((id) => document.getElementById(id));
  if (runs.length === 1 && figures && comparison) {
    const beside = element("div", {class: "beside"});
    figures.before(beside);
    beside.append(figures, comparison);
  }
  if (runs.some((run) => run.losses && run.losses.training.length)) {
    section("losses", "Loss", "", element("div", {class: "panel"}, lossLegend(runs), chart((place) => lossChart(place, runs))));
  }
  return drawn;
}

function recordSections(section, chart, runs) {
  const records = runs.flatMap(recordsOf), both = runs.some((run) => run.predicted && run.measured);
  const found = SOURCES.filter((source) => runs.some((run) => run[source]));
  const longest = d3.max(records, (record) => Math.max(record.step_seconds, d3.max(record.stages, (stage) => sum(stage.seconds)) || 0));
  const sources = legend(found.map((source) => [source, stroke(source)]));
  section("comparison", found.length > 1 ? "Predicted and measured" : `The ${found[0]} step`,
          both ? "The difference is that of the measured value, as a share of the predicted one." : "",
          panels(runs, (panel, run) => panel.append(element("p", {class: "quiet"}, originOf(run)), comparison(run))));
  if (records.some((record) => record.stages.some((stage) => stage.events.length))) {
    const place = element("div", {class: "panel"});
    section("timeline", "Timeline", "A row for each stage and for the links that it uses. Thin vertical lines are the ends of the steps.", place);
    const timeline = new Timeline(place, runs);
    chart(() => timeline.layOut());
  }
  const parts = paints(namesOf(records, "seconds"));
  section("split", "What the time went to", `Stripes are waits.${both ? " The upper bar of a stage is predicted, the lower one measured." : ""}`, paintLegend(parts), panels(runs.filter((run) => numbersOfStages(run).length), (panel, run) =>
    panel.append(chart((place) => splitChart(place, run, parts, longest), "scroll tall"))));
  const sampled = runs.filter((run) => recordsOf(run).some((record) => record.stages.some((stage) => stage.memory.length)));
  if (sampled.length) memorySection(section, chart, sampled, sources);
  section("communication", "Communication", "Bytes that a rank sends in the step, the time of these calls, and how much of it computation waited for.",
          panels(runs, (panel, run) => panel.append(communicationTable(run))));
  const operating = runs.filter((run) => recordsOf(run).some((record) => record.operations.length));
  if (operating.length) rooflineSection(section, chart, operating, sources, found);
}

function memorySection(section, chart, runs, sources) {
  const records = runs.flatMap(recordsOf);
  const samples = records.flatMap((record) => record.stages.flatMap((stage) => stage.memory));
  const most = d3.max(samples, (sample) => sample[1]), until = d3.max(samples, (sample) => sample[0]);
  section("memory", "Memory in the step", "In use by tensors.", sources.cloneNode(true), panels(runs, (panel, run) => {
    const multiples = numbersOfStages(run).map((number) =>
      element("div", {}, element("h4", {}, `stage ${number}`), chart((place) => memoryChart(place, run, number, most, until), "")));
    panel.append(element("div", {class: "multiples tall"}, ...multiples));
  }));
}

function rooflineSection(section, chart, runs, sources, found) {
  const names = [...new Set(runs.flatMap((run) => recordsOf(run).flatMap((record) => record.operations.map((one) => one.name))))];
  const map = paints(names), limits = rooflineLimits(runs);
  const ring = (filled) => (svg) => svg.append("circle").attr({cx: 9, cy: 6, r: 4.5})
    .style({fill: filled ? "var(--quiet)" : "none", stroke: "var(--quiet)", "stroke-width": 2});
  const signs = legend([...names.map((name) => [name, swatch(`var(--colour-${map.get(name).colour})`)]),
                        ...found.map((source) => [`${source} operation`, ring(source === "measured")])]);
  section("roofline", "Roofline", "The lines are what the peak rate and the memory of a rank allow. Operations without FLOPs are in the table alone.",
          sources.cloneNode(true), signs, panels(runs, (panel, run) => {
            const place = limits ? [chart((one) => rooflineChart(one, run, map, limits), "chart scroll")] : [];
            panel.append(element("div", {class: "beside"}, ...place, operationTable(run)));
          }));
}

const data = JSON.parse(document.getElementById("data").textContent);
data.runs.forEach((run, index) => Object.assign(run, {index}));
const redraws = build(data);
let width = 0;
function drawAll() {
  width = document.body.clientWidth;
  for (const draw of redraws) draw();
}
drawAll();
window.addEventListener("resize", () => {
  if (document.body.clientWidth !== width) drawAll();
});
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
