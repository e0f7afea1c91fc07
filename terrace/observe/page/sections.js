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

// Whether the page is as narrow as that of a phone, as in page.css.
const isNarrow = () => document.body.clientWidth <= 600;

// Names in data-more the sides at which an element has more than it shows, where its style fades it out.
function markMore(one) {
  const {scrollLeft: left, scrollTop: top} = one;
  const more = {left: left > 1, right: left + one.clientWidth < one.scrollWidth - 1,
                top: top > 1, bottom: top + one.clientHeight < one.scrollHeight - 1};
  const sides = Object.keys(more).filter((side) => more[side]);
  if (sides.length) one.dataset.more = sides.join(" ");
  else delete one.dataset.more;
}

const SCROLLING = ".scroll, .view";
const markAll = () => document.querySelectorAll(SCROLLING).forEach(markMore);

let width = 0;
function drawAll() {
  width = document.body.clientWidth;
  for (const draw of redraws) draw();
  markAll();
}

// Builds the page by build(data), and draws its charts.
function showPage(build) {
  build(data);
  drawAll();
  window.addEventListener("resize", () => {
    if (document.body.clientWidth !== width) drawAll();
  });
  document.addEventListener("scroll", ({target}) => {
    if (target instanceof Element && target.matches(SCROLLING)) markMore(target);
  }, true);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
}
