// Builds the sections of an explanation from its data.
"use strict";

function summary() {
  const kinds = Object.entries(data.failure_kinds).map(([kind, count]) => `${formatCount(count)} ${kind}`).join(", ");
  return `${formatCount(data.trials)} trials: ${formatCount(data.trials - data.failed)} done, ${formatCount(data.failed)} failed${kinds ? ` (${kinds})` : ""}.`;
}

function fitSentence({name, trials, fit, poor, failure}) {
  const of = failure ? "all trials" : data.failures_as === "worst" && data.failed ? "all trials, those that failed with the worst value" : data.failed ? "the trials that did not fail" : "all trials";
  const known = isNumber(fit) ? `explains ${formatShare(Math.max(0, fit))} of the variance of trials that it has not seen (R\u00b2 ${fit.toFixed(2)})` : "has too few trials to tell how well it predicts";
  return `${name}: the model of ${of} (${formatCount(trials)}) ${known}${poor ? ", so take its ranking with care" : ""}.`;
}

// Sections that show one attribution, and a choice among them where there are several.
function attributionSections() {
  const places = [], state = {shown: 0};
  const show = (draw) => {
    const place = chart((container) => draw(container, data.attributions[state.shown]), "scroll");
    places.push(place);
    return element("div", {class: "panel"}, place);
  };
  const buttons = data.attributions.map(({name}, i) => {
    const button = element("button", {type: "button", "aria-pressed": String(i === 0), "data-attribution": name}, name);
    button.addEventListener("click", () => {
      state.shown = i;
      buttons.forEach((one, j) => one.setAttribute("aria-pressed", String(i === j)));
      drawAll();
    });
    return button;
  });
  section("ranking", "What matters",
          "The share of each parameter in all effects, and in brackets its effect: the mean size of what it adds to the prediction of a trial (mean |SHAP|).",
          ...(buttons.length > 1 ? [element("div", {class: "controls"}, element("span", {}, "explained:"), ...buttons)] : []), show(rankingChart));
  section("dependence", "What each value does",
          `A point is a trial: what the value of the parameter adds to its prediction. The colour is the parameter that changes this most. At most ${MOST_POINTS} trials are drawn.`,
          show((container, attribution) => {
            container.append(element("p", {class: "quiet"}, `What is explained: ${attribution.name}.`));
            dependence(container, attribution);
          }));
  if (data.parameters.length > 1) {
    section("interactions", "What acts together", "What two parameters add together, beyond what each adds alone, which is on the diagonal: mean sizes.",
            show((container, attribution) => {
              const unit = interactionUnit(attribution).name;
              container.append(element("p", {class: "quiet"}, `What is explained: ${attribution.name}${unit ? `, in ${unit}` : ""}.`));
              interactionChart(container, attribution);
            }));
  }
}

function paretoSection() {
  const pareto = new ParetoChart(), place = chart((container) => pareto.draw(container));
  const controls = pareto.controls(() => {
    place.replaceChildren();
    pareto.draw(place);
  });
  section("pareto", "Pareto front", "The red trials are those that no other trial betters in one figure without being worse in the other.",
          element("div", {class: "panel"}, controls, place));
}

function build() {
  const page = document.getElementById("page");
  page.replaceChildren(element("h1", {}, `What matters in ${data.file}`), element("p", {id: "summary"}, summary()));
  for (const one of data.attributions) page.append(element("p", {class: one.poor ? "note" : "quiet", "data-fit": one.name}, fitSentence(one)));
  attributionSections();
  section("convergence", "Convergence", "", element("div", {class: "panel"}, convergenceLegend(), chart(convergenceChart)));
  const lines = element("div", {}), parallel = new ParallelCoordinates(lines);
  section("parallel", "All trials", "A line is a trial. Drag along an axis to choose among the trials, and click beside the choice to undo it.",
          element("div", {class: "panel"}, objectiveLegend(), lines));
  redraws.push(() => parallel.layOut());
  if (figuresOfTrials().length > 1) paretoSection();
  section("best", "The best trials", tieSentence(), element("div", {class: "panel"}, chart(bestTable, "")));
}

showPage(build);
