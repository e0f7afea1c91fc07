// Builds the sections of a page of scores from its data.
"use strict";

// Buttons of which one is pressed.
function choice(label, names, key, chosen, choose) {
  const buttons = names.map((name) => {
    const button = element("button", {type: "button", "aria-pressed": String(name === chosen), [`data-${key}`]: name}, name);
    button.addEventListener("click", () => {
      buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
      choose(name);
      drawAll();
    });
    return button;
  });
  return element("div", {class: "controls"}, element("span", {}, label), ...buttons);
}

function scoresSection() {
  const state = {lead: leadNames[0]};
  const controls = leadNames.length > 1 ? [choice("lead:", leadNames, "lead", state.lead, (lead) => (state.lead = lead))] : [];
  // The table is drawn first, since the chart takes the width that it leaves.
  const numbers = chart((place) => place.append(scoreTable(state.lead)), "scroll");
  const bars = chart((place) => skillChart(place, state.lead), "chart");
  section("scores", "Scores", "Root mean square errors, each the mean over all starts, in the units of the variable; the line marks the forecast with which the others are compared.",
          ...controls, element("div", {class: "panel"}, kindLegend(baseOf(variablesOf(leadNames[0]))),
                                     element("div", {class: "beside"}, bars, numbers)));
}

function leadsSection() {
  section("leads", "Error by lead", "", element("div", {class: "panel"}, kindLegend(), chart((grid) => {
    const places = variableNames.map((name) => [name, element("div")]);
    grid.append(...places.map(([name, place]) => element("div", {}, element("h4", {}, name), place)));
    for (const [name, place] of places) leadChart(place, name);
  }, "multiples")));
}

function mapsSection() {
  const {list, start} = data.maps, names = [...new Set(list.map((one) => one.variable))], leads = [...new Set(list.map((one) => one.lead))];
  const state = {variable: names[0], lead: leads[0]};
  const shown = () => list.find((one) => one.variable === state.variable && one.lead === state.lead);
  const sentence = element("p", {class: "quiet"});
  const place = chart((container) => {
    sentence.textContent = `${state.variable} at ${shown().time}, forecast ${state.lead} ahead from ${start}.`;
    drawMaps(container, shown());
  }, "");
  const controls = [...(names.length > 1 ? [choice("variable:", names, "variable", state.variable, (name) => (state.variable = name))] : []),
                    ...(leads.length > 1 ? [choice("lead:", leads, "maplead", state.lead, (lead) => (state.lead = lead))] : [])];
  const notes = data.coastlines.length ? [] : [element("p", {class: "quiet", "data-note": "coastlines"},
    "The maps have no coastlines: install the Debian package gmt-gshhg-low and make the page again.")];
  section("maps", "Maps of one forecast", "", ...controls, element("div", {class: "panel"}, sentence, place, ...notes));
}

function build() {
  const [first] = leadNames;
  const page = document.getElementById("page");
  page.replaceChildren(element("h1", {}, data.title), element("p", {id: "summary"},
    `Scored on the ${data.split} part of ${data.data}: ${formatCount(data.leads[first].starts)} starts${leadNames.length > 1 ? ` at ${first}` : `, ${first} ahead`}.`));
  scoresSection();
  if (leadNames.length > 1) leadsSection();
  if (data.maps && data.maps.list.length) mapsSection();
}

showPage(build);
