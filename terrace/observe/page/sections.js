// A page's data and its sections, whose charts are drawn again when the width or the colours change.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
// What draws a chart for the present width and colours.
const redraws = [];

function section(id, title, about, ...children) {
  const heading = [element("h2", {}, title), ...(about ? [element("p", {class: "quiet"}, about)] : [])];
  document.getElementById("page").append(element("section", {id}, ...heading, ...children));
}

// A place for a chart, which `draw` fills.
function chart(draw, style = "scroll") {
  const place = element("div", {class: style});
  redraws.push(() => {
    place.replaceChildren();
    draw(place);
  });
  return place;
}

let width = 0;
function drawAll() {
  width = document.body.clientWidth;
  for (const draw of redraws) draw();
}

// Builds the page by build(data), and draws its charts.
function showPage(build) {
  build(data);
  drawAll();
  window.addEventListener("resize", () => {
    if (document.body.clientWidth !== width) drawAll();
  });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
}
