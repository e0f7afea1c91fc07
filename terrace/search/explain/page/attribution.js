// The charts of one attribution: ranking, dependence on each parameter, interactions.
"use strict";

const MOST_POINTS = 400;  // of a chart of dependence

const parameterNamed = (name) => data.parameters.findIndex((one) => one.name === name);

// That some trials do not have a parameter of the ranking, as a list of sentences.
const existence = ({trials: all}, {parameter, trials}) =>
  (trials < all ? [`${parameter} exists in ${formatCount(trials)} of ${formatCount(all)} trials; its figures are of them alone.`] : []);

function rankingChart(container, attribution) {
  const {ranking, name} = attribution, isNarrow = container.clientWidth < 560;
  const names = ranking.map((one) => one.parameter), longest = d3.max(names, (one) => one.length) * 7 + 12;
  const margin = {top: 2, right: 150, bottom: 4, left: isNarrow ? 0 : Math.min(longest, 300)}, step = isNarrow ? 42 : 28;
  const chart = frame(container, container.clientWidth, ranking.length * step + margin.top + margin.bottom, margin, `parameters by their effect on ${name}`);
  const x = d3.scale.linear().domain([0, d3.max(ranking, (one) => one.effect) || 1]).range([0, chart.width]);
  ranking.forEach((one, i) => {
    const top = i * step + (isNarrow ? 18 : 4), middle = top + 10, end = x(one.effect);
    chart.plot.append("text").attr(isNarrow ? {x: 0, y: top - 4} : {x: -8, y: middle, dy: "0.35em", class: "end"}).text(one.parameter);
    const bar = chart.plot.append("rect").attr({class: "bar", x: 0, y: top, width: Math.max(1, end), height: 20, "data-parameter": one.parameter,
                                                "data-effect": one.effect, "data-share": one.share});
    hover(bar, () => [one.parameter, `${formatShare(one.share)} of all effects`, `mean |SHAP| ${formatFigure(name, one.effect)}`,
                      `alone ${formatFigure(name, one.own_effect)}`, ...existence(attribution, one)]);
    chart.plot.append("text").attr({x: Math.max(1, end) + 6, y: middle, dy: "0.35em"})
      .text(`${formatShare(one.share)} (${formatFigure(name, one.effect)})`);
  });
}

// The other parameter with the largest effect together with this one; undefined if there is no other.
function partnerOf(attribution, name) {
  const pair = attribution.pairs.find((one) => one.parameters.includes(name) && one.effect > 0);
  return pair && pair.parameters.find((one) => one !== name);
}

// The values of a parameter that the trials of an attribution have, and the colour of each: {present, of(index)}.
function coloursOf(parameter, rows) {
  const present = [...new Set(rows.map((row) => parameter.indices[row]))].sort(d3.ascending), colour = gradient();
  const places = new Map(present.map((index, i) => [index, present.length > 1 ? i / (present.length - 1) : 0.5]));
  return {present: present.map((index) => ({index, text: shortened(valueText(parameter, index), 14)})), of: (index) => colour(places.get(index))};
}

function colourLegend(name, {present, of}) {
  if (present.length > 6) {
    return element("p", {class: "quiet"}, `${name}: ${present[0].text} `, element("span", {class: "scale"}), ` ${present[present.length - 1].text}`);
  }
  const dot = (index) => (svg) => svg.append("circle").attr({cx: 9, cy: 6, r: 4}).style("fill", of(index));
  const signs = legend(present.map(({index, text}) => [text, dot(index)]));
  signs.prepend(element("li", {class: "quiet"}, `${name}:`));
  return signs;
}

function dependencePanel(container, attribution, name, extent) {
  const number = parameterNamed(name), parameter = data.parameters[number], partner = partnerOf(attribution, name);
  const other = partner && data.parameters[parameterNamed(partner)];
  const colours = other && coloursOf(other, attribution.rows), place = element("div");
  const notes = existence(attribution, attribution.ranking.find((one) => one.parameter === name)).map((text) => element("p", {class: "quiet"}, text));
  container.append(element("div", {}, element("h4", {}, name), ...notes, ...(other ? [colourLegend(partner, colours)] : [])), place);
  const chart = frame(place, place.clientWidth, 190, {top: 20, right: 8, bottom: 26, left: 46}, `effect of ${name} on ${attribution.name}`);
  const unit = scaledUnit(attribution.name, d3.max(extent, Math.abs));
  const y = d3.scale.linear().domain(extent.map((one) => one / unit.size)).nice(4).range([chart.height, 0]);
  axis(chart, y, "y", unit.name ? `SHAP, ${unit.name}` : "SHAP", [4]);
  chart.plot.append("line").attr({class: "base", x2: chart.width, y1: y(0), y2: y(0)});
  const places = placesOf(parameter, chart.width);
  for (const {at, text} of labelledValues(parameter, places, 8)) {
    chart.plot.append("text").attr({class: "quiet middle", x: at, y: chart.height + 16}).text(text);
  }
  const drawn = d3.range(attribution.rows.length).filter((i) => isNumber(attribution.contributions[number][i]));
  for (const i of thinnedList(drawn, MOST_POINTS)) {
    const row = attribution.rows[i], value = attribution.contributions[number][i], index = parameter.indices[row];
    const x = places.at(index) + (jitter(row) - 0.5) * Math.min(30, 0.7 * places.step);
    const point = chart.plot.append("circle").attr({class: "point", cx: x, cy: y(value / unit.size), r: 3, "data-row": row, "data-value": value,
                                                    "data-parameter": name})
      .style("fill", other ? colours.of(other.indices[row]) : "var(--mark)");
    hover(point, () => [`${name} = ${valueText(parameter, index)}`,
                        `${signed(formatFigure(attribution.name, value), value)} on ${attribution.name}`,
                        ...(other ? [`${partner} = ${valueOf(other, row)}`] : []), `trial ${data.job_ids[row]}`]);
  }
}

function dependence(container, attribution) {
  const all = attribution.contributions.flatMap((own) => own.filter(isNumber));
  const extent = [Math.min(0, d3.min(all)), Math.max(0, d3.max(all))];
  const grid = element("div", {class: "multiples dependence"});
  container.append(grid);
  const panels = attribution.ranking.map((one) => [one.parameter, element("div", {})]);
  grid.append(...panels.map(([, panel]) => panel));
  for (const [name, panel] of panels) dependencePanel(panel, attribution, name, extent);
}

const mostInteraction = ({ranking, pairs}) => d3.max([...ranking.map((one) => one.own_effect), ...pairs.map((one) => one.effect)]) || 1;
const interactionUnit = (attribution) => scaledUnit(attribution.name, mostInteraction(attribution));

// The matrix of effects, whose columns have the numbers of the rows. The diagonal is what a parameter does alone.
function interactionChart(container, attribution) {
  const {ranking, pairs, name} = attribution, count = ranking.length;
  const most = container.clientWidth >= 560 ? 300 : count > 6 ? 120 : 150;
  const left = Math.min(most, d3.max(ranking, (one) => one.parameter.length) * 7 + 32);
  const side = Math.max(16, Math.min(76, Math.floor((container.clientWidth - left - 4) / count)));
  const high = Math.max(20, Math.min(40, side));
  const chart = frame(container, left + side * count + 4, 24 + high * count + 4, {top: 24, right: 4, bottom: 4, left}, `interactions for ${name}`);
  const effects = new Map(pairs.flatMap(({parameters: [a, b], effect}) => [[`${a}\n${b}`, effect], [`${b}\n${a}`, effect]]));
  const largest = mostInteraction(attribution), unit = interactionUnit(attribution);
  const style = getComputedStyle(document.documentElement), colour = d3.interpolateLab(style.getPropertyValue("--back").trim(), style.getPropertyValue("--mark").trim());
  ranking.forEach((row, i) => {
    const middle = i * high + high / 2;
    const label = chart.plot.append("text").attr({x: -8, y: middle, dy: "0.35em", class: "end"}).text(`${shortened(row.parameter, Math.min(40, Math.floor((left - 32) / 6.5)))}  ${i + 1}`);
    label.append("title").text(row.parameter);
    chart.plot.append("text").attr({class: "quiet middle", x: i * side + side / 2, y: -8}).text(i + 1);
    ranking.forEach((column, j) => {
      const effect = i === j ? row.own_effect : effects.get(`${row.parameter}\n${column.parameter}`) || 0, strength = Math.sqrt(effect / largest);
      const cell = chart.plot.append("rect").attr({class: "cell", x: j * side, y: i * high, width: side, height: high, "data-row": row.parameter,
                                                   "data-column": column.parameter, "data-effect": effect}).style("fill", colour(0.9 * strength));
      hover(cell, () => [i === j ? `${row.parameter} alone` : `${row.parameter} with ${column.parameter}`, formatFigure(name, effect)]);
      if (side < 28) return;  // a colour alone
      const text = d3.select(cell.node().parentNode).append("text")
        .attr({class: "middle", x: j * side + side / 2, y: middle, dy: "0.35em", "pointer-events": "none"}).text(scaledText(effect / unit.size));
      if (side < 40) text.style("font-size", "10px");
    });
  });
}

// Two digits are enough to compare cells, and one of small ones.
const scaledText = (value) => (value === 0 ? "0" : value < 0.0095 ? value.toExponential(0) : value < 0.1 ? value.toFixed(2) : digits(value, 2));
