// The gradient noise scale of the runs that measured it.
"use strict";

function noiseChart(container, runs) {
  stepChart(container, runs.map((run) => ({run, points: run.noise_scales})),
            {height: 240, name: "gradient noise scale", unit: "samples", format: (samples) => `${samples.toPrecision(4)} samples`});
}

function noiseSection(runs) {
  const sentences = runs.map((run) => element("p", {"data-noise": run.index},
    ...(runs.length > 1 ? [element("strong", {}, `${run.name}: `)] : []), `${run.figures.noise_scale_text}.`));
  section("noise", "Gradient noise scale", "The batch at which a step takes twice the fewest samples and twice the fewest steps to a loss.",
          element("div", {class: "panel"}, ...sentences,
                  legend(runs.length > 1 ? runs.map((run) => [run.name, stroke("", runColour(run))]) : []),
                  chart((place) => noiseChart(place, runs))));
}
