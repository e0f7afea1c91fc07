// Whether runs train, how far they are and when they last wrote, on a page that is asked for again and again.
"use strict";

// "4 s", "3 min 20 s", "5 h 12 min", "3.1 days"
function duration(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  if (whole < 2 * 86400) return `${Math.floor(whole / 3600)} h ${Math.floor(whole / 60) % 60} min`;
  return `${(whole / 86400).toFixed(1)} days`;
}

// `passed`: seconds since the page was made.
function stateSentence(state, passed) {
  const parts = [`step ${formatCount(state.step)}${state.steps > 0 ? ` of ${formatCount(state.steps)}` : ""}`];
  const running = state.state === "running";
  if (running && isNumber(state.seconds_left)) parts.push(`about ${duration(state.seconds_left)} left`);
  if (isNumber(state.seconds_since_step)) parts.push(`last step ${duration(state.seconds_since_step + passed)} ago`);
  else if (isNumber(state.seconds_since_sign)) parts.push(`last sign ${duration(state.seconds_since_sign + passed)} ago`);
  return `${parts.join(", ")}${state.reason ? `; ${state.reason}` : ""}`;
}

function stateLines(runs) {
  const began = performance.now(), shown = runs.filter((run) => run.state);
  if (!shown.length) return;
  const lines = shown.map((run) => {
    const text = element("span", {});
    document.getElementById("page").append(element("p", {class: run.state.state === "failed" ? "note" : "", "data-state": run.state.state, "data-run": run.index},
      ...(runs.length > 1 ? [element("strong", {}, `${run.name}: `)] : []), element("strong", {}, run.state.state), ", ", text));
    return [text, run.state];
  });
  const say = () => lines.forEach(([text, state]) => {
    text.textContent = stateSentence(state, (performance.now() - began) / 1000);
  });
  say();
  window.setInterval(say, 1000);
}
