// The timeline: a row for each stage and lane of each record on one axis of time, drawn on a canvas that shows what is visible.
"use strict";

const kindColour = (kind) => (kind in PART_COLOURS ? PART_COLOURS[kind] : NUM_COLOURS - 1);
const HEIGHTS = {heading: 24, computation: 18, link: 11};

class Timeline {
  constructor(container, runs) {
    this.rows = timelineRows(runs);
    this.end = 1.02 * (d3.max(this.rows, (row) => row.until) || 1);
    this.view = {from: 0, to: this.end};
    const kinds = [...Object.keys(PART_COLOURS), "wait"].filter((kind) => this.rows.some((row) => row.kinds.has(kind)));
    container.append(legend(kinds.map((kind) => [kind, swatch(`var(--colour-${kindColour(kind)})`)])));
    this.axis = d3.select(container).append("svg").attr({height: 24, "aria-hidden": true});
    this.window = element("div", {class: "view"});
    this.inner = element("div", {class: "rows"});
    this.canvas = element("canvas", {tabindex: 0, role: "img", "aria-label": "timeline of the step; arrow keys move, plus and minus zoom"});
    this.inner.append(this.canvas);
    this.window.append(this.inner);
    container.append(this.controls(), this.axis.node(), this.window);
    this.listen();
  }

  controls() {
    const button = (text, label, act) => {
      const made = element("button", {type: "button", "aria-label": label}, text);
      made.addEventListener("click", act);
      return made;
    };
    const links = element("input", {type: "checkbox", checked: ""});
    links.addEventListener("change", () => {
      this.withLinks = links.checked;
      this.layOut();
    });
    this.withLinks = true;
    return element("div", {class: "controls"}, button("+", "zoom in", () => this.zoom(0.5)), button("\u2212", "zoom out", () => this.zoom(2)),
                   button("whole step", "whole step", () => this.show(0, this.end)), element("label", {}, links, " links"),
                   element("span", {class: "quiet"}, "Drag to move; Ctrl and the wheel or a double click to zoom."));
  }

  // Places the rows that are shown and their labels, then draws.
  layOut() {
    const narrow = this.window.clientWidth < 600;
    this.gutter = narrow ? 64 : 96;
    this.inner.querySelectorAll(".label").forEach((label) => label.remove());
    this.shown = this.rows.filter((row) => this.withLinks || row.type !== "link");
    let top = 0;
    for (const row of this.shown) {
      row.top = top;
      top += HEIGHTS[row.type];
      const label = element("div", {class: `label ${row.type}`, title: row.label}, row.label);
      for (const key of ["run", "source", "stage", "lane"]) if (row[key] !== undefined) label.dataset[key] = row[key];
      label.style.cssText = `top: ${row.top}px; height: ${HEIGHTS[row.type]}px; line-height: ${HEIGHTS[row.type]}px;` +
        (row.type === "heading" ? "" : `width: ${this.gutter}px`);
      this.inner.append(label);
    }
    this.inner.style.height = `${top}px`;
    // A part that scrolls inside of the page is a nuisance where a finger scrolls both.
    const height = Math.min(top, narrow ? 1600 : 638);
    this.window.style.height = `${height + 2}px`;
    this.width = Math.max(50, this.inner.clientWidth - this.gutter);
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = this.width * scale;
    this.canvas.height = height * scale;
    this.canvas.style.cssText = `margin-left: ${this.gutter}px; width: ${this.width}px; height: ${height}px`;
    this.draw();
  }

  show(from, to) {
    const span = Math.min(this.end, Math.max(to - from, this.end * 1e-6));
    const begin = Math.min(Math.max(0, from), this.end - span);
    this.view = {from: begin, to: begin + span};
    this.redraw();
  }

  // By a factor of the visible time, around a share of the width.
  zoom(factor, at = 0.5) {
    const {from, to} = this.view, fixed = from + at * (to - from);
    this.show(fixed - factor * (fixed - from), fixed + factor * (to - fixed));
  }

  move(pixels) {
    const seconds = (pixels / this.width) * (this.view.to - this.view.from);
    this.show(this.view.from + seconds, this.view.to + seconds);
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw() {
    const {canvas, view} = this, context = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    this.paint = {colours: d3.range(NUM_COLOURS).map((i) => colour(`--colour-${i}`)), line: colour("--line")};
    const scale = window.devicePixelRatio || 1, height = canvas.height / scale, scrolled = this.window.scrollTop;
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, this.width, height);
    this.drawAxis();
    context.font = '10px system-ui, "DejaVu Sans", sans-serif';
    context.textBaseline = "middle";
    let drawn = 0;
    for (const row of this.shown) {
      const top = row.top - scrolled;
      if (top + HEIGHTS[row.type] > 0 && top < height) drawn += this.drawRow(context, row, top);
    }
    Object.assign(canvas.dataset, {from: view.from, to: view.to, drawn});
  }

  drawAxis() {
    const unit = unitOf(this.view.to, SECONDS);
    const scale = d3.scale.linear().domain([this.view.from / unit.size, this.view.to / unit.size]).range([0, this.width]);
    this.axis.attr("width", this.gutter + this.width + 2).selectAll("*").remove();
    this.axis.append("text").attr({class: "quiet", x: 6, y: 15}).text(unit.name);
    this.axis.append("g").attr({class: "axis", transform: `translate(${this.gutter + 1},18)`})
      .call(d3.svg.axis().scale(scale).orient("top").ticks(Math.max(2, Math.floor(this.width / 110))).innerTickSize(-6).tickPadding(4));
    // A number at an end would reach over the edge.
    this.axis.selectAll(".tick text").style("text-anchor", function anchor() {
      const at = d3.transform(this.parentNode.getAttribute("transform")).translate[0];
      return at < 20 ? "start" : null;
    }).filter(function beyond() {
      const {right} = this.getBoundingClientRect();
      return right > this.ownerSVGElement.getBoundingClientRect().right;
    }).style("text-anchor", "end");
  }

  // Returns how many events were drawn. One that is narrower than a pixel is drawn if nothing else is at that pixel.
  drawRow(context, row, top) {
    const {from, to} = this.view, pixels = this.width / (to - from), bottom = top + HEIGHTS[row.type];
    context.fillStyle = this.paint.line;
    if (row.type === "heading") {
      context.fillRect(0, top, this.width, 1);
      return 0;
    }
    context.fillRect(Math.round((row.stepSeconds - from) * pixels), top, 1, bottom - top);
    let drawn = 0, covered = -1;
    for (let i = d3.bisectLeft(row.reach, from); i < row.events.length && row.events[i][3] < to; ++i) {
      const [name, kind, , begin, end] = row.events[i];
      const left = Math.max(-1, (begin - from) * pixels), right = Math.min(this.width + 1, (end - from) * pixels);
      if (right < covered && right - left < 1) continue;
      const width = Math.max(1, right - left), colour = kindColour(kind), inset = kind === "wait" ? (bottom - top) / 3 : 1;
      context.fillStyle = this.paint.colours[colour];
      context.fillRect(left, top + inset, width > 4 ? width - 1 : width, bottom - top - 2 * inset);
      covered = Math.floor(left + width) + (width > 1 ? 0 : 1);
      ++drawn;
      if (row.type === "computation" && kind !== "wait" && width > 20 && context.measureText(name).width < width - 6) {
        context.fillStyle = colour === 0 ? "#ffffff" : "#000000";
        context.fillText(name, left + 3, (top + bottom) / 2);
      }
    }
    return drawn;
  }

  // The event under the pointer, or within two pixels of it: {row, event}.
  eventAt(pointer) {
    const box = this.canvas.getBoundingClientRect(), y = pointer.clientY - box.top + this.window.scrollTop;
    const row = this.shown.find((one) => y >= one.top && y < one.top + HEIGHTS[one.type]);
    if (!row) return null;
    const second = (this.view.to - this.view.from) / this.width, time = this.view.from + (pointer.clientX - box.left) * second;
    let best = null, least = 2 * second;
    for (let i = d3.bisectLeft(row.reach, time - least); i < row.events.length && row.events[i][3] <= time + 2 * second; ++i) {
      const distance = Math.max(row.events[i][3] - time, time - row.events[i][4], 0);
      if (distance <= least) [best, least] = [row.events[i], distance];
    }
    return best && {row, event: best};
  }

  hover(pointer) {
    const found = this.eventAt(pointer);
    if (!found) return hideTip();
    const {row, event: [name, kind, , begin, end]} = found;
    return showTip(pointer, [name, `${kind}, stage ${row.stage}${row.type === "link" ? `, ${row.label}` : ""}, ${row.source}`,
                             `begins at ${withUnit(begin, SECONDS, 6)}`, `lasts ${withUnit(end - begin, SECONDS, 4)}`]);
  }

  listen() {
    const {canvas} = this;
    let held = null;
    canvas.addEventListener("pointerdown", (event) => {
      held = event.clientX;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (held === null) return this.hover(event);
      this.move(held - event.clientX);
      held = event.clientX;
      return hideTip();
    });
    for (const ending of ["pointerup", "pointercancel"]) canvas.addEventListener(ending, () => { held = null; });
    canvas.addEventListener("pointerleave", hideTip);
    canvas.addEventListener("dblclick", (event) => this.zoom(1 / 3, event.offsetX / this.width));
    canvas.addEventListener("wheel", (event) => {
      const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!event.ctrlKey && !event.metaKey && !sideways) return;
      event.preventDefault();
      if (sideways) this.move(event.deltaX);
      else this.zoom(2 ** Math.max(-1, Math.min(1, event.deltaY / 100)), event.offsetX / this.width);
    }, {passive: false});
    canvas.addEventListener("keydown", (event) => {
      const act = {ArrowLeft: () => this.move(-60), ArrowRight: () => this.move(60), "+": () => this.zoom(0.5), "-": () => this.zoom(2),
                   0: () => this.show(0, this.end)}[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
    this.window.addEventListener("scroll", () => this.redraw());
  }
}

// A heading for each record, and below it a row for each stage and each of its lanes that has events.
function timelineRows(runs) {
  const rows = [];
  runs.forEach((run) => SOURCES.filter((source) => run[source]).forEach((source) => {
    const record = run[source];
    const until = Math.max(record.step_seconds, d3.max(record.stages, (stage) => d3.max(stage.events, (event) => event[4])) || 0);
    if (!record.stages.some((stage) => stage.events.length)) return;
    rows.push({type: "heading", label: `${runs.length > 1 ? `${run.name}, ` : ""}${source}`, until, kinds: new Set()});
    for (const stage of record.stages) {
      const lanes = d3.nest().key((event) => event[2]).sortKeys((a, b) => a - b).entries(stage.events);
      for (const {key, values} of lanes) {
        const events = values.sort((a, b) => a[3] - b[3]), lane = Number(key);
        let reach = 0;
        rows.push({type: lane === 0 ? "computation" : "link", label: lane === 0 ? `stage ${stage.stage}` : record.links[lane - 1] || `link ${lane}`,
                   run: run.index, source, stage: stage.stage, lane, events, until, stepSeconds: record.step_seconds,
                   // The latest end of an event and all before it, for finding the first visible one.
                   reach: events.map((event) => (reach = Math.max(reach, event[4]))), kinds: new Set(events.map((event) => event[1]))});
      }
    }
  }));
  return rows;
}
