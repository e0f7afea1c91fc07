// What was named as slow in a run, and the profile of its ranks: a bar for each, and who waits for whom.
"use strict";

function slowSection(runs) {
  section("slow", "Slow ranks and links", "As the run named them while it trained.", panels(runs, (panel, run) =>
    panel.append(element("ul", {}, ...run.figures.slow.map((text) => element("li", {"data-slow": run.index}, text))))));
}

// The parts of a rank's step, of which the rest is neither computing nor waiting.
function rankBar(rank) {
  const part = (name, seconds, colour) => element("span", {
    style: `display: inline-block; height: 0.9em; width: ${(100 * seconds / rank.step_seconds).toFixed(2)}%; background: ${colour}`,
    title: `${name} ${formatSeconds(seconds)}, ${formatShare(seconds / rank.step_seconds)}`,
  });
  return element("div", {style: "min-width: 16em; white-space: nowrap; background: var(--grid)"},
                 part("computing", rank.computing_seconds, "var(--colour-0)"), part("waiting", rank.waiting_seconds, "var(--colour-1)"));
}

function ranksTable(profile) {
  const row = (rank) => element("tr", {"data-rank": rank.rank, title: rank.place},
    element("td", {}, `rank ${rank.rank}`), element("td", {}, `stage ${rank.stage}`), element("td", {}, rankBar(rank)),
    element("td", {}, formatShare(rank.computing_seconds / rank.step_seconds)), element("td", {}, formatBytes(rank.memory_bytes)));
  const head = element("tr", {}, ...["", "", "computing and waiting", "busy", "memory"].map((name) => element("th", {}, name)));
  return element("div", {class: "scroll"}, element("table", {}, element("thead", {}, head), element("tbody", {}, ...profile.shown_ranks.map(row))));
}

function ranksSection(runs) {
  section("ranks", "Ranks", "One step as each rank measured it, and the critical path through it.", panels(runs, (panel, run) => {
    const profile = run.figures.profile;
    panel.append(element("ul", {}, ...profile.sentences.map((text) => element("li", {"data-profile": run.index}, text))), ranksTable(profile));
    if (profile.shown_ranks.length < profile.ranks) panel.append(element("p", {class: "quiet"}, `${profile.shown_ranks.length} of ${profile.ranks} ranks`));
  }));
}
