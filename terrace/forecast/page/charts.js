// Errors by lead and by variable, beside those of simpler forecasts.
"use strict";

// What is drawn, with the key of its error and its colour.
const KINDS = [["forecast", "rmse", 0], ["persistence", "persistence_rmse", 1], ["climatology", "climatology_rmse", 7],
               ["damped persistence", "damped_persistence_rmse", 2]];

const leadNames = Object.keys(data.leads);
const variablesOf = (lead) => data.leads[lead].variables;
const variableNames = Object.keys(variablesOf(leadNames[0]));
const kindsOf = () => KINDS.filter(([, key]) => leadNames.some((lead) => variableNames.some((name) => isNumber(variablesOf(lead)[name][key]))));

// The forecast with which the others are compared.
const baseOf = (variables) => (variableNames.every((name) => isNumber(variables[name].climatology_rmse)) ? "climatology" : "persistence");

// With a line in place of a colour for the forecast that is given.
const kindLegend = (asLine) => legend(kindsOf().map(([kind, , colour]) => [kind, kind === asLine ? stroke("", "var(--text)") : swatch(`var(--colour-${colour})`)]));

const MOST_RATIO = 20;  // of the largest and the smallest value of a chart with an axis that begins at 0

const isFar = (values) => values.length > 0 && d3.min(values) > 0 && d3.max(values) > MOST_RATIO * d3.min(values);

// The error of each kind of forecast as a share of that of climatology or, where there is none, of persistence.
function skillChart(container, lead) {
  const variables = variablesOf(lead), bar = 11, kinds = kindsOf();
  const base = baseOf(variables);
  const drawn = kinds.filter(([kind]) => kind !== base), step = bar * drawn.length + 10;
  const longest = d3.max(variableNames, (name) => name.length);
  const margin = {top: 4, right: 44, bottom: 40, left: Math.min(container.clientWidth / 3, 7.2 * longest + 12)};
  const chart = frame(container, container.clientWidth, variableNames.length * step + margin.top + margin.bottom, margin, "error by variable");
  const share = (name, key) => variables[name][key] / variables[name][`${base}_rmse`];
  const shares = variableNames.flatMap((name) => drawn.map(([, key]) => share(name, key))).filter(isNumber);
  // Where shares are far apart, bars begin at the line of what they are a share of, and their lengths are of logarithms.
  const inPowers = isFar([...shares, 1]), room = Math.max(2, Math.min(8, Math.floor(chart.width / 70)));
  const x = inPowers ? d3.scale.log().domain(d3.extent([...shares, 1])).range([0, chart.width])
                     : d3.scale.linear().domain([0, Math.max(1, d3.max(shares) || 0)]).range([0, chart.width]);
  const from = inPowers ? x(1) : 0;
  (inPowers ? powerAxis : axis)(chart, x, "x", `error as a share of that of ${base}`, [room]);
  variableNames.forEach((name, row) => {
    chart.plot.append("text").attr({x: -margin.left, y: row * step + step / 2, dy: "0.35em"}).text(name);
    drawn.forEach(([kind, key, colour], i) => {
      if (!isNumber(share(name, key))) return;
      const top = row * step + 5 + i * bar, value = share(name, key);
      chart.plot.append("rect").attr({x: Math.min(from, x(value)), y: top, width: Math.abs(x(value) - from), height: bar - 2, "data-variable": name, "data-kind": kind, "data-value": value})
        .style("fill", `var(--colour-${colour})`)
        .on("pointermove", () => showTip(d3.event, [`${name}, ${lead} ahead`, `${kind}: ${digits(variables[name][key], 4)} ${variables[name].units}`,
                                                    `${formatShare(value)} of ${base}`]))
        .on("pointerleave", hideTip);
      chart.plot.append("text").attr({class: "quiet", x: Math.max(from, x(value)) + 4, y: top + bar / 2, dy: "0.3em"}).text(value < 10 ? value.toFixed(2) : digits(value));
    });
  });
  chart.plot.append("line").attr({class: "bound", x1: x(1), x2: x(1), y2: chart.height});
}

// The errors of one variable over the leads.
function leadChart(container, name) {
  const margin = {top: 22, right: 14, bottom: 38, left: 48};
  const chart = frame(container, container.clientWidth, 200, margin, `error of ${name} by lead`);
  const hours = leadNames.map((lead) => data.leads[lead].hours), isLong = d3.max(hours) > 240, unit = isLong ? 24 : 1;
  const values = kindsOf().flatMap(([, key]) => leadNames.map((lead) => variablesOf(lead)[name][key])).filter(isNumber);
  const x = d3.scale.linear().domain([0, d3.max(hours) / unit]).range([0, chart.width]);
  const inPowers = isFar(values), y = inPowers ? d3.scale.log().domain(d3.extent(values)) : d3.scale.linear().domain([0, d3.max(values) || 1]).nice(4);
  y.range([chart.height, 0]);
  axis(chart, x, "x", isLong ? "days ahead" : "hours ahead", [Math.max(2, Math.floor(chart.width / 60))]);
  (inPowers ? powerAxis : axis)(chart, y, "y", variablesOf(leadNames[0])[name].units || "error", [4]);
  // The forecast lies above the others.
  for (const [kind, key, colour] of [...kindsOf()].reverse()) {
    const points = leadNames.map((lead, i) => [hours[i] / unit, variablesOf(lead)[name][key]]).filter((point) => isNumber(point[1]));
    const path = d3.svg.line().x((point) => x(point[0])).y((point) => y(point[1]));
    chart.plot.append("path").attr({class: "curve", d: path(points), "data-variable": name, "data-kind": kind, "data-points": points.length})
      .style({stroke: `var(--colour-${colour})`, "stroke-width": kind === "forecast" ? 2.6 : 1.6});
  }
  followPointer(chart, x, (event, at) => {
    const nearest = leadNames[d3.range(hours.length).sort((a, b) => Math.abs(hours[a] - at * unit) - Math.abs(hours[b] - at * unit))[0]];
    showTip(event, [`${name}, ${nearest} ahead`, ...kindsOf().map(([kind, key]) => `${kind}: ${isNumber(variablesOf(nearest)[name][key]) ? digits(variablesOf(nearest)[name][key], 4) : MISSING}`)]);
  });
}

const COLUMNS = [["rmse", "rmse"], ["acc", "acc"], ["bias", "bias"], ["persistence", "persistence_rmse"], ["climatology", "climatology_rmse"],
                 ["damped persistence", "damped_persistence_rmse"]];

function scoreTable(lead) {
  const rows = Object.entries(variablesOf(lead)).map(([name, one]) => [
    element("td", {}, one.units ? `${name} (${one.units})` : name),
    ...COLUMNS.map(([, key]) => cell(isNumber(one[key]) ? one[key].toPrecision(4) : MISSING, one[key], {variable: name, figure: key}))]);
  return table(["variable", ...COLUMNS.map(([heading]) => heading)], rows);
}
