// The Pareto front of two figures of the trials, which the reader chooses.
"use strict";

const figuresOfTrials = () => {
  const objectives = new Set(data.objectives.map((one) => one.name));
  return [...data.objectives, ...data.figures.filter((one) => !objectives.has(one.name))];
};

// The rows that no other one betters in one figure without being worse in the other, by the first figure.
function frontOf(first, second) {
  const of = (figure) => (row) => (figure.smaller_is_better ? figure.values[row] : -figure.values[row]), [a, b] = [of(first), of(second)];
  const rows = d3.range(data.trials).filter((row) => isNumber(first.values[row]) && isNumber(second.values[row]));
  rows.sort((i, j) => a(i) - a(j) || b(i) - b(j) || i - j);
  const front = [];
  for (const row of rows) {
    const last = front[front.length - 1];
    // Equal trials stand on the front together.
    if (last === undefined || b(row) < b(last) || (b(row) === b(last) && a(row) === a(last))) front.push(row);
  }
  return front;
}

class ParetoChart {
  constructor() {
    this.figures = figuresOfTrials().map((one) => ({...one}));
    const second = data.objectives.length > 1 ? this.figures[1] : this.figures.find((one) => one.name === "memory_bytes") || this.figures[1];
    this.shown = [this.figures[0], second];
  }

  controls(redraw) {
    return element("div", {class: "controls"}, ...["x", "y"].flatMap((side, i) => {
      const choice = element("select", {"aria-label": `figure on the ${side} axis`}, ...this.figures.map((one) => element("option", {}, one.name)));
      choice.value = this.shown[i].name;
      const better = element("button", {type: "button", "data-side": side});
      const say = () => (better.textContent = this.shown[i].smaller_is_better ? "smaller is better" : "larger is better");
      choice.addEventListener("change", () => {
        this.shown[i] = this.figures.find((one) => one.name === choice.value);
        say();
        redraw();
      });
      better.addEventListener("click", () => {
        this.shown[i].smaller_is_better = !this.shown[i].smaller_is_better;
        say();
        redraw();
      });
      say();
      return [element("span", {}, `${side}:`), choice, better];
    }));
  }

  draw(container) {
    const [first, second] = this.shown;
    const chart = frame(container, container.clientWidth, 340, {top: 24, right: 18, bottom: 40, left: 56}, `${first.name} and ${second.name}`);
    const rows = d3.range(data.trials).filter((row) => isNumber(first.values[row]) && isNumber(second.values[row]));
    const scaleOf = (figure, range) => {
      const extent = d3.extent(rows, (row) => figure.values[row]), unit = scaledUnit(figure.name, d3.max(extent, Math.abs) || 1);
      const scale = d3.scale.linear().domain(extent.map((one) => one / unit.size)).nice(5).range(range);
      return {at: (row) => scale(figure.values[row] / unit.size), scale, label: unit.name ? `${figure.name}, ${unit.name}` : figure.name};
    };
    const x = scaleOf(first, [0, chart.width]), y = scaleOf(second, [chart.height, 0]), front = frontOf(first, second), onFront = new Set(front);
    axis(chart, x.scale, "x", x.label, [Math.max(2, Math.floor(chart.width / 90))]);
    axis(chart, y.scale, "y", y.label, [5]);
    chart.plot.append("path").attr({class: "front", "data-front": front.join(" "), d: d3.svg.line().x(x.at).y(y.at)(front) || "M0,0"});
    const drawn = [...thinnedList(rows.filter((row) => !onFront.has(row)), 3000), ...front];
    for (const row of drawn) {
      const point = chart.plot.append("circle").attr({class: "point", cx: x.at(row), cy: y.at(row), r: onFront.has(row) ? 4.5 : 3, "data-row": row})
        .style("fill", onFront.has(row) ? "var(--high)" : "var(--mark)");
      hover(point, () => {
        const lines = describeTrial(row), named = lines.join("\n");
        const more = this.shown.map((one) => `${one.name}: ${formatFigure(one.name, one.values[row])}`).filter((line) => !named.includes(line));
        return [lines[0], ...more, ...lines.slice(1)];
      });
    }
  }
}
