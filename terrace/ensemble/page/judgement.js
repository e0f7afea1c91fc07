// Builds the sections of a page of judged predictions from its data.
"use strict";

const FIGURES = [["MAE", "mae"], ["RMSE", "rmse"], ["area", "miscalibration_area"], ["sharpness", "sharpness"], ["ENCE", "ence"], ["NLL", "nll"],
                 ["Spearman", "spearman"]];
const judged = data.outputs.filter((output) => output.figures.count > 0);
const unlabelled = data.outputs.filter((output) => output.figures.count === 0);

function summary() {
  const models = data.checkpoints.length === 1 ? data.checkpoints[0] : `the mean of ${data.checkpoints.length} models`;
  const part = data.part && data.part !== "all" ? `the ${data.part} part of ` : "";
  return `${formatCount(data.structures)} ${data.structures === 1 ? "structure" : "structures"} of ${part}${data.data}, predicted by ${models}. Structures are counted from 0 in the order of the input.`;
}

function figuresTable() {
  const rows = judged.flatMap((output) => spreadsOf(output).map(([key, words, figures], i) => [
    element("td", {}, i === 0 ? `${output.name} (${unitsOf(output)})` : ""),
    element("td", {class: "word"}, output.coverage ? words : "no spread"),
    cell(formatCount(figures.count), figures.count, {output: output.name, spread: key, figure: "count"}),
    ...FIGURES.map(([, name]) => cell(figure(figures[name]), figures[name], {output: output.name, spread: key, figure: name}))]));
  return table(["output", "spread", "values", ...FIGURES.map(([heading]) => heading)], rows);
}

function figuresSection() {
  const notes = [];
  if (judged.some((output) => !output.coverage)) {
    notes.push(element("p", {class: "note", "data-note": "spread"},
                       "One model without a variance of its own has no spread, so nothing is said of calibration: give several checkpoints or an ensemble, or train outputs with uncertain = true."));
  } else if (data.scale_note) {
    notes.push(element("p", {class: "note", "data-note": "scale"}, data.scale_note));
  }
  section("figures", "Figures",
          "MAE and RMSE are the mean absolute and the root mean square error. Area is the area between the calibration curve and the diagonal, sharpness the root of the mean variance, ENCE the mean difference of error and spread as a share of the spread, NLL the mean negative log likelihood of the labels, and Spearman the rank correlation of error and spread.",
          ...notes, element("div", {class: "panel"}, figuresTable()));
}

// A heading, what is to be read from the chart, and the chart.
const judgement = (title, about, ...parts) => element("div", {}, element("h3", {}, title), element("p", {class: "quiet"}, about), ...parts);

function outputSection(output, index) {
  const charts = [judgement("Prediction and label", paritySentence(output), chart((place) => parityChart(place, output)))];
  if (output.coverage) {
    charts.push(judgement("Calibration", "The share of labels in central intervals of the predicted distributions, over the share expected in them; below the diagonal the spread is too small.",
                          spreadLegend(output, "area", "miscalibration_area"), chart((place) => coverageChart(place, output))),
                judgement("Error and spread", "Values sorted by spread in bins of equal counts; above the diagonal errors are larger than the spread says.",
                          spreadLegend(output, "ENCE", "ence"), chart((place) => spreadChart(place, output))));
  }
  const what = output.is_of_atoms ? "the atom and component with the largest error in each structure" : "the structures with the largest errors";
  section(`output-${index}`, output.name, "", element("div", {class: "panel judgements"}, ...charts),
          element("div", {class: "panel"}, element("h3", {}, "Largest errors"),
                  element("p", {class: "quiet"}, `${what[0].toUpperCase()}${what.slice(1)}, in ${unitsOf(output)}; a click on a heading sorts.`), casesTable(output)));
  document.getElementById(`output-${index}`).dataset.output = output.name;
}

function build() {
  document.getElementById("page").replaceChildren(element("h1", {}, data.title), element("p", {"data-summary": ""}, summary()));
  for (const {name} of unlabelled) {
    document.getElementById("page").append(element("p", {class: "note", "data-note": "labels"}, `No structure has a label of ${name}, so it is not judged.`));
  }
  if (judged.length) figuresSection();
  judged.forEach(outputSection);
}

showPage(build);
