// Convergence, and the table of the best trials.
"use strict";

const doneRows = () => d3.range(data.trials).filter((row) => !data.failures[row]);

function convergenceChart(container) {
  const {trials, best_so_far: best, failures} = data, [{name, values}] = data.objectives;
  const chart = frame(container, container.clientWidth, 320, {top: 24, right: 14, bottom: 58, left: 56}, `best ${name} by trial`);
  const [least, most] = d3.extent(values.filter(isNumber)), unit = scaledUnit(name, Math.max(Math.abs(least), Math.abs(most)));
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

// Says how many trials are tied with the best one; "" if none is.
function tieSentence() {
  if (data.tied === 1) return "";
  const shown = Math.min(data.tied, data.best.length);
  return `The first ${data.tied} are a tie: their steps differ by less than the errors of published layouts of one model.${
    shown < data.tied ? ` ${shown} of them are shown.` : ""}`;
}

// A column for each parameter where they fit, and otherwise a row below each trial with all of its values.
function bestTable(container) {
  const {parameters, objectives, best, job_ids: ids} = data;
  const results = (row, i) => [
    cell(String(i + 1)), ...objectives.map((one) => cell(formatFigure(one.name, one.values[row]), one.values[row], {row, objective: one.name})),
    cell(ids[row])];
  const headings = ["", ...objectives.map((one) => one.name), "trial"];
  const wide = table([...headings, ...parameters.map((one) => one.name)],
                     best.map((row, i) => [...results(row, i), ...parameters.map((one) => cell(valueOf(one, row)))]));
  container.append(wide);
  if (wide.scrollWidth <= wide.clientWidth) return;
  const values = (row) => {
    const texts = parameters.map((one) => `${one.name} = ${valueOf(one, row)}`);
    return [element("td"), element("td", {class: "word wraps quiet", colspan: objectives.length + 1, "data-values": row}, texts.join(", "))];
  };
  const stacked = table(headings, best.flatMap((row, i) => [results(row, i), values(row)]));
  stacked.classList.add("stacked");
  wide.replaceWith(stacked);
}
