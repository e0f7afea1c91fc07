// The tables of the report: headline figures, predicted against measured, communication, operations.
"use strict";

// The rate of what the family counts, such as tokens_per_second: [key, items].
function itemsOf(figures) {
  const key = Object.keys(figures).find((name) => name.endsWith("_per_second") && !name.startsWith("peak_flops"));
  return key ? [key, key.replace("_per_second", "")] : ["", ""];
}

// Rows of the headline: label and, for a run, [key, value, text].
function headlineRows(runs) {
  const figures = runs.map((run) => run.figures || {}), median = runs.some((run) => run.losses) ? " (median)" : "";
  const rows = [[`step time${median}`, (one) => ["step_seconds", one.step_seconds, formatSeconds(one.step_seconds)]]];
  for (const [key, items] of new Map(figures.map(itemsOf).filter(([name]) => name))) {
    rows.push([`${items}/s${median}`, (one) => [key, one[key], withUnit(one[key], COUNT)]]);
  }
  const loss = (label, key) => rows.push([label, (one) => [key, one[key], formatLoss(one[key])]]);
  rows.push(["MFU", (one) => ["mfu", one.mfu, formatShare(one.mfu)]], ["HFU", (one) => ["hfu", one.hfu, formatShare(one.hfu)]],
            ["bubble", (one) => ["bubble_share", one.bubble_share, formatShare(one.bubble_share)]],
            ["peak memory of a rank", (one) => ["memory_bytes", one.memory_bytes, formatBytes(one.memory_bytes)]]);
  const units = [...new Set(figures.map((one) => one.loss_unit).filter(Boolean))];
  const unit = units.length === 1 ? `, ${units[0]}` : "";
  loss(`training loss${unit}`, "loss");
  loss(`held-out loss${unit}`, "validation_loss");
  for (const [name, unitOfFigure] of familyFigures(figures)) {
    const behind = unitOfFigure ? `, ${unitOfFigure}` : "";
    loss(`training ${words(name)}${behind}`, name);
    loss(`held-out ${words(name)}${behind}`, `validation_${name}`);
  }
  for (const [key, name] of baselinesOf(figures)) loss(`${name}${unit}`, key);
  rows.push(["steps", (one) => ["steps", one.steps, formatCount(one.steps)]],
            ["parameters", (one) => ["parameters", one.parameters, formatCount(one.parameters)]]);
  return rows;
}

const words = (name) => name.replaceAll("_", " ");

// The figures of the models' families: name and unit.
function familyFigures(figures) {
  return new Map(figures.flatMap((one) => (one.figures || []).map((figure) => [figure.name, figure.unit])));
}

function baselinesOf(figures) {
  return new Map(figures.flatMap((one) => (one.baselines || []).map((baseline) => [baseline.key, baseline.name])));
}

function headlineTable(runs) {
  const rows = [];
  for (const [label, figure] of headlineRows(runs)) {
    const found = runs.map((run) => figure(run.figures || {}));
    if (!found.some(([, value]) => isNumber(value))) continue;
    rows.push([cell(label), ...found.map(([key, value, text], run) => cell(text, value, {figure: key, run}))]);
  }
  for (const [label, key] of [["precision", "precision"], ["peak rate", "peak_name"]]) {
    if (!runs.some((run) => run.figures && run.figures[key])) continue;
    rows.push([cell(label), ...runs.map(({figures}) => {
      const peak = key === "peak_name" && figures ? `${withUnit(figures.peak_flops_per_second, FLOPS_PER_SECOND)}, ` : "";
      const made = cell(figures && figures[key] ? peak + figures[key] : MISSING);
      made.className = "wraps";
      return made;
    })]);
  }
  const made = table(["", ...runs.map((run) => run.name)], rows);
  made.id = "headline";
  return made;
}

// What the plans say of their runs in words, and the commands that make them.
function planFacts(runs) {
  return runs.filter((run) => run.plan).flatMap(({plan}) => [
    table(["", ""], plan.facts.map(([label, text]) => {
      const value = element("td", {class: "word wraps", "data-fact": label}, text);
      return [cell(label), value];
    })),
    element("p", {class: "quiet"}, "Made by"), element("pre", {"data-command": ""}, plan.command)]);
}

// Settings, the step that they lead to, and how much shorter it is.
function changesTable(plan) {
  return table(["", "step", ...(plan.fits ? ["less"] : [])], plan.changes.map(({settings, step_seconds: seconds, gain}) => [
    element("td", {"data-change": ""}, element("code", {}, settings)), cell(formatSeconds(seconds), seconds),
    ...(plan.fits ? [cell(formatShare(gain), gain)] : [])]));
}

// The rows of the comparison: [label, class, data-part, value of a source, format]; null begins a group.
function comparedRows(run, stage) {
  const records = recordsOf(run);
  const of = (source, value) => (run[source] && stagesOf(run[source], stage).length ? value(run[source]) : undefined);
  const rows = [["step", "", "step_seconds", (source) => run[source] && run[source].step_seconds, formatSeconds]];
  for (const [key, heading, format] of [["seconds", "time", formatSeconds], ["memory_bytes", "memory", formatBytes]]) {
    const names = namesOf(records, key);
    if (!names.length) continue;
    rows.push([heading, null]);
    for (const name of names) {
      if (!records.some((record) => meanFigure(stagesOf(record, stage), key, name))) continue;
      rows.push([name, "indented", `${key}.${name}`, (source) => of(source, (record) => meanFigure(stagesOf(record, stage), key, name)),
                 format]);
    }
    rows.push(["sum", "indented", `${key}.sum`,
               (source) => of(source, (record) => d3.mean(stagesOf(record, stage), (one) => sum(one[key]))), format]);
  }
  if (stage === null && records.some((record) => record.stages.length > 1)) {
    rows.push(["sum of the fullest stage", "indented", "memory_bytes.most", (source) => of(source, mostMemory), formatBytes]);
  }
  return rows;
}

function comparedTable(run, stage) {
  const both = run.predicted && run.measured;
  const sources = SOURCES.filter((source) => run[source]);
  const rows = comparedRows(run, stage).map(([label, style, part, value, format]) => {
    if (style === null) {
      return element("tr", {class: "group"}, element("th", {colspan: 1 + sources.length + (both ? 1 : 0)}, label));
    }
    const values = sources.map(value);
    const name = cell(label);
    name.className = style;
    const row = [name, ...values.map((one, i) => cell(format(one), one, {part, source: sources[i]}))];
    if (both) {
      const share = isNumber(values[0]) && isNumber(values[1]) && values[1] !== 0 ? values[0] / values[1] - 1 : undefined;
      row.push(cell(formatDifference(share), share, {part, source: "error"}));
    }
    return row;
  });
  return table(["", ...sources, ...(both ? ["error"] : [])], rows);
}

// Predicted against measured, of all stages or of one that is chosen.
function comparison(run) {
  const stages = numbersOfStages(run);
  const choice = element("select", {"aria-label": "stage"});
  choice.append(element("option", {value: ""}, `mean of the ${stages.length} stages`));
  for (const stage of stages) choice.append(element("option", {value: stage}, `stage ${stage}`));
  let shown = comparedTable(run, null);
  choice.addEventListener("change", () => {
    const other = comparedTable(run, choice.value === "" ? null : Number(choice.value));
    shown.replaceWith(other);
    shown = other;
    markAll();
  });
  return element("div", {}, ...(stages.length > 1 ? [element("div", {class: "controls"}, choice)] : []), shown);
}

// Which description and which step the records are of.
function originOf(run) {
  const parts = [];
  if (run.predicted) {
    const {machine, software} = run.predicted;
    parts.push(`Predicted${machine ? ` for ${machine}` : ""}${software ? ` with ${software}` : ""}.`);
  }
  if (run.measured) parts.push(`Measured in step ${run.measured.step.toLocaleString("en-US")}.`);
  return parts.join(" ");
}

// A table with a heading for each name and below it a row for each source; rowOf gives a row's cells or none.
function tableBySource(run, headings, names, headingOf, rowOf, labelOf = (name, source) => source) {
  const rows = names.flatMap((name) => [
    element("tr", {class: "group"}, element("th", {colspan: headings.length + 1}, headingOf(name))),
    ...SOURCES.filter((source) => run[source]).map((source) => [source, rowOf(name, source)]).filter(([, row]) => row)
      .map(([source, row]) => {
        const first = cell(labelOf(name, source));
        first.className = "indented";
        return [first, ...row];
      }),
  ]);
  return table(["", ...headings], rows);
}

const namesIn = (run, key) => [...new Set(recordsOf(run).flatMap((record) => record[key].map((one) => one.name)))];
const named = (record, key, name) => record[key].find((one) => one.name === name);

// The group that sends activations and gradients from stage to stage.
const SENDS = "stages";

function communicationTable(run) {
  const names = namesIn(run, "groups");
  if (!names.length) return element("p", {class: "quiet"}, "No communication in this step.");
  const shown = (name) => (name === SENDS ? "sends to other stages" : name);
  const heading = (name) => {
    const tiers = [...new Set(recordsOf(run).map((record) => named(record, "groups", name)).filter(Boolean).map((group) => group.tier))]
      .filter((tier) => tier);
    return tiers.length ? `${shown(name)}, links of the ${tiers.join(" or ")}` : shown(name);
  };
  const headings = ["bytes", "time", "bytes / time", "waited for", "of the time"];
  const row = (name, source) => {
    const group = named(run[source], "groups", name);
    if (!group) return null;
    const moved = group.moving_seconds > 0;
    const bandwidth = moved ? group.bytes / group.moving_seconds : undefined;
    const waited = moved && isNumber(group.waiting_seconds) ? group.waiting_seconds / group.moving_seconds : undefined;
    const figure = (key, text, value) => cell(text, value, {group: name, source, figure: key});
    return [figure("bytes", withUnit(group.bytes, withPrefixes("B")), group.bytes),
            figure("moving_seconds", moved ? formatSeconds(group.moving_seconds) : MISSING, group.moving_seconds),
            figure("bandwidth", withUnit(bandwidth, BYTES_PER_SECOND), bandwidth),
            figure("waiting_seconds", formatSeconds(group.waiting_seconds), group.waiting_seconds),
            figure("waited", formatShare(waited), waited)];
  };
  const label = (name, source) => {
    const stage = named(run[source], "groups", name).stage;
    return run[source].stages.length > 1 && stage >= 0 ? `${source}, stage ${stage}` : source;
  };
  return tableBySource(run, headings, names, heading, row, label);
}

function operationTable(run) {
  const headings = ["time", "FLOP/byte", "FLOP/s", "bytes/s", "of the roof"];
  return tableBySource(run, headings, namesIn(run, "operations"), (name) => name, (name, source) => {
    const operation = named(run[source], "operations", name);
    if (!operation) return null;
    const {intensity, flopsPerSecond, bytesPerSecond, ofRoof} = reached(operation, run[source]);
    const figure = (key, text, value) => cell(text, value, {operation: name, source, figure: key});
    return [figure("seconds", formatSeconds(operation.seconds), operation.seconds),
            figure("intensity", isNumber(intensity) ? digits(intensity) : MISSING, intensity),
            figure("flops_per_second", withUnit(flopsPerSecond, FLOPS_PER_SECOND), flopsPerSecond),
            figure("bytes_per_second", withUnit(bytesPerSecond, BYTES_PER_SECOND), bytesPerSecond),
            figure("of_roof", formatShare(ofRoof), ofRoof)];
  });
}
