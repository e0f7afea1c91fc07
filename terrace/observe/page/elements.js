// The elements that the page is made of: tables, legends, colours and the text beside the pointer.
"use strict";

// An element with attributes; strings among the children become text, never HTML.
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// A cell of a table: text, and the number behind it in data-value with further data- attributes. Long ones may break.
function cell(text, value, data = {}) {
  const attributes = {...(isNumber(value) ? {"data-value": String(value)} : {}), ...(text.length > 8 ? {class: "long"} : {})};
  for (const [key, word] of Object.entries(data)) attributes[`data-${key}`] = String(word);
  return element("td", attributes, text);
}

// Rows are lists of cells; headings are texts, or [text, number of columns].
function table(headings, rows) {
  const head = headings.map((one) => (Array.isArray(one) ? element("th", {colspan: one[1]}, one[0]) : element("th", {}, one)));
  const body = rows.map((row) => (row instanceof Element ? row : element("tr", {}, ...row)));
  return element("div", {class: "scroll"},
                 element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body)));
}

const NUM_COLOURS = 8;

// Parts of a step have the same colours in all charts. A step has a backward or both of its halves, never all three.
const PART_COLOURS = {forward: 0, backward: 1, "input gradient": 1, "weight gradient": 2, update: 3, transfer: 4, loss: 5};

// What each name is painted with: work in plain colours, waits and what exceeds the colours in stripes.
function paints(names) {
  const map = new Map();
  const taken = new Set(names.map((name) => PART_COLOURS[name]).filter((colour) => colour !== undefined));
  const free = d3.range(NUM_COLOURS).filter((colour) => !taken.has(colour));
  const isWait = (name) => name.startsWith("wait");
  const others = names.filter((name) => !(name in PART_COLOURS));
  for (const name of names.filter((name) => name in PART_COLOURS)) map.set(name, {colour: PART_COLOURS[name], striped: false});
  [...others.filter((name) => !isWait(name)), ...others.filter(isWait)].forEach((name, i) =>
    map.set(name, {colour: free.length ? free[i % free.length] : i % NUM_COLOURS, striped: isWait(name) || i >= free.length}));
  return map;
}

const fillOf = (paint) => (paint.striped ? `url(#stripes-${paint.colour})` : `var(--colour-${paint.colour})`);

// The stripes of all colours, which the page's charts name.
function stripes() {
  const svg = d3.select(document.body).append("svg").attr({width: 0, height: 0, style: "position: absolute", "aria-hidden": true});
  for (let i = 0; i < NUM_COLOURS; ++i) {
    const pattern = svg.append("pattern").attr({id: `stripes-${i}`, width: 6, height: 6, patternUnits: "userSpaceOnUse",
                                                patternTransform: "rotate(45)"});
    pattern.append("rect").attr({width: 6, height: 6}).style({fill: `var(--colour-${i})`, opacity: 0.25});
    pattern.append("rect").attr({width: 3, height: 6}).style("fill", `var(--colour-${i})`);
  }
}

// Entries are [name, function that draws the sign into a d3 selection of 18 by 12 pixels].
function legend(entries) {
  const list = element("ul", {class: "legend"});
  for (const [name, draw] of entries) {
    const item = element("li", {"data-legend": name});
    draw(d3.select(item).append("svg").attr({width: 18, height: 12, "aria-hidden": true}));
    item.append(name);
    list.append(item);
  }
  return list;
}

const swatch = (fill) => (svg) => svg.append("rect").attr({y: 1, width: 18, height: 10}).style("fill", fill);
const stroke = (style, colour) => (svg) => {
  const line = svg.append("line").attr({x2: 18, y1: 6, y2: 6, class: `curve ${style}`});
  if (colour) line.style("stroke", colour);
};

function paintLegend(map) {
  return legend([...map].map(([name, paint]) => [name, swatch(fillOf(paint))]));
}

// Shows lines of text beside the pointer, inside the window.
function showTip(event, lines) {
  const tip = document.getElementById("tip");
  tip.textContent = lines.join("\n");
  tip.hidden = false;
  const left = event.clientX + 14 + tip.offsetWidth > window.innerWidth ? event.clientX - 10 - tip.offsetWidth : event.clientX + 14;
  const top = Math.min(event.clientY + 14, window.innerHeight - tip.offsetHeight - 4);
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

function hideTip() {
  document.getElementById("tip").hidden = true;
}
