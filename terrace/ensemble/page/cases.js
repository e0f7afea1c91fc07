// The table of the structures with the largest errors, which a click on a heading sorts.
"use strict";

// Those that some row has: [key, heading, text of the value].
const CASE_COLUMNS = [["structure", "structure", String], ["formula", "formula", String], ["atoms", "atoms", formatCount], ["atom", "atom", String],
                      ["column", "component", String], ["label", "label", figure], ["prediction", "prediction", figure], ["error", "error", figure],
                      ["spread", "spread", figure]];

// Errors are compared by their sizes.
const comparedBy = (key, row) => (key === "error" ? (isNumber(row.error) ? Math.abs(row.error) : Infinity) : row[key]);

function sortedCases(rows, {key, falls}) {
  const compare = falls ? d3.descending : d3.ascending;
  return [...rows].sort((a, b) => compare(comparedBy(key, a), comparedBy(key, b)));
}

function casesTable(output) {
  const rows = output.worst, state = {key: "error", falls: true}, place = element("div", {class: "cases"});
  const columns = CASE_COLUMNS.filter(([key]) => key in (rows[0] || {}) && (key !== "spread" || output.coverage));
  const draw = () => {
    const headings = columns.map(([key, heading]) => {
      const button = element("button", {type: "button", "data-sort": key}, heading);
      button.addEventListener("click", () => {
        Object.assign(state, {falls: state.key === key ? !state.falls : key === "error" || key === "spread", key});
        draw();
      });
      return button;
    });
    const made = table(headings, sortedCases(rows, state).map((row) => columns.map(([key, , text]) => {
      const one = cell(text(row[key]), row[key], {case: key});
      if (key === "formula") one.className = "word";
      return one;
    })));
    made.querySelectorAll("th").forEach((one, i) => {
      if (columns[i][0] === state.key) one.setAttribute("aria-sort", state.falls ? "descending" : "ascending");
      if (columns[i][0] === "formula") one.className = "word";
    });
    place.replaceChildren(made);
    markAll();
  };
  draw();
  return place;
}
