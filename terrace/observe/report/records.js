// Figures of the records of steps: by stage, their means, and what a step spent most of its time on.
"use strict";

const SOURCES = ["predicted", "measured"];

const recordsOf = (run) => SOURCES.filter((source) => run[source]).map((source) => run[source]);
const hasRecord = (run) => recordsOf(run).length > 0;
const sum = (figures) => d3.sum(Object.values(figures));

// Each name once, in the order of its first occurrence.
function namesOf(records, key) {
  return [...new Set(records.flatMap((record) => record.stages.flatMap((stage) => Object.keys(stage[key]))))];
}

// The stages with this number, all of them where it is null.
const stagesOf = (record, number) => record.stages.filter((stage) => number === null || stage.stage === number);

// Measured figures that a prediction divides into parts, of which they are the sum.
const PREDICTED_PARTS = {"activations and temporary": ["activations", "temporary", "movements", "communication", "slack"],
                         "waits for stages": ["waits in the bubble", "waits for queued transfers"]};

// The mean over stages, in which a stage without the figure counts as 0.
function meanFigure(stages, key, name) {
  if (name in PREDICTED_PARTS && !stages.some((stage) => name in stage[key])) {
    return d3.sum(PREDICTED_PARTS[name], (part) => meanFigure(stages, key, part) || 0);
  }
  if (!stages.some((stage) => name in stage[key])) return undefined;
  return d3.mean(stages, (stage) => stage[key][name] || 0);
}

const numbersOfStages = (run) =>
  [...new Set(recordsOf(run).flatMap((record) => record.stages.map((stage) => stage.stage)))].sort(d3.ascending);

const mostMemory = (record) => d3.max(record.stages, (stage) => sum(stage.memory_bytes));

// One sentence: what the largest share of the step went to.
function limitSentence(run) {
  const record = run.measured || run.predicted;
  if (!record) return "";
  const whole = d3.sum(record.stages, (stage) => sum(stage.seconds));
  if (!(whole > 0)) return "";
  const share = (stages, name) => d3.sum(stages, (stage) => stage.seconds[name] || 0) / d3.sum(stages, (stage) => sum(stage.seconds));
  const names = namesOf([record], "seconds").sort((a, b) => share(record.stages, b) - share(record.stages, a));
  const [first, second] = names;
  const several = record.stages.length > 1;
  let text = `The largest share of the ${record.source} step, ${formatShare(share(record.stages, first))} of ` +
    `${several ? "the time of all stages" : "its time"}, goes to ${first}`;
  if (several) {
    const most = record.stages.filter((stage) => sum(stage.seconds) > 0)
      .reduce((a, b) => (share([b], first) > share([a], first) ? b : a));
    text += ` (${formatShare(share([most], first))} on stage ${most.stage})`;
  }
  if (second) text += `; ${formatShare(share(record.stages, second))} goes to ${second}`;
  return `${text}.`;
}

// What an operation reaches: FLOP/byte, FLOP/s, bytes/s, and its share of the roof, which is that of the memory where it
// has no FLOPs. Figures whose parts are not known are undefined.
function reached(operation, record) {
  const {seconds, flops, bytes} = operation;
  const rate = (amount) => (seconds > 0 && amount > 0 ? amount / seconds : undefined);
  const intensity = flops > 0 && bytes > 0 ? flops / bytes : undefined;
  const share = (value, roof) => (value && roof > 0 && Number.isFinite(roof) ? value / roof : undefined);
  const limits = [record.peak_flops, intensity && record.memory_bandwidth * intensity].filter((limit) => limit > 0);
  const ofRoof = flops > 0 ? share(rate(flops), d3.min(limits)) : share(rate(bytes), record.memory_bandwidth);
  return {intensity, flopsPerSecond: rate(flops), bytesPerSecond: rate(bytes), ofRoof};
}
