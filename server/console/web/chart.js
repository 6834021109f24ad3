// Charts: lines over time with a read-out, sparks and bars. All are SVG.

import { h, newId, put, refill, set, svg } from "./dom.js";
import { clock, perSecond } from "./words.js";

/** Returns round values from 0 to at least max, in at most n steps of 1, 2 or 5 times 10^k. */
export function ticks(max, n = 4) {
  if (!(max > 0)) {
    return [0, 1];
  }
  const power = 10 ** Math.floor(Math.log10(max / n));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s * n >= max * (1 - 1e-9));
  return range(Math.ceil(max / step - 1e-9) + 1, (i) => Number((i * step).toPrecision(12)));
}

/** Returns the powers of ten from at most min to at least max, two of them at least. */
export function logTicks(min, max) {
  if (!(min > 0) || !(max > 0)) {
    return [1e-6, 1e-3];
  }
  const from = Math.floor(Math.log10(min) + 1e-9);
  const to = Math.max(Math.ceil(Math.log10(max) - 1e-9), from + 1);
  return range(to - from + 1, (i) => Number(`1e${from + i}`));
}

/** Returns the times (milliseconds) between from and to that are whole multiples of 5 minutes. */
export function timeTicks(from, to) {
  const step = 300_000;
  const first = Math.ceil(from / step);
  return range(Math.floor(to / step) - first + 1, (i) => (first + i) * step);
}

/**
 * Returns the path of a line; null is a gap. x and y map an index and a value to pixels. base: the
 * path is that of the area between the line and this y.
 */
export function linePath(values, x, y, base) {
  const runs = []; // the parts between gaps
  values.forEach((value, i) => {
    if (value !== null) {
      if (i === 0 || values[i - 1] === null) {
        runs.push([]);
      }
      runs.at(-1).push(`${x(i).toFixed(1)} ${y(value).toFixed(1)}`);
    }
  });
  return runs.map((run) => `M${run.join("L")}` +
    (base === undefined ? "h0" : `V${base}H${parseFloat(run[0])}Z`)).join("");
}

const range = (n, f) => Array.from({ length: Math.max(0, n) }, (_, i) => f(i));

const PAD = { top: 8, bottom: 20, right: 2 };

/**
 * A chart of lines over time; element shows it. names: of the lines. format: (value) => text. tick:
 * the same, for the axis. height: pixels. log: a logarithmic scale. A pointer or the arrow keys
 * read out the values of a time.
 */
export class LineChart {
  constructor({ title, names, format, tick, height, log = false }) {
    Object.assign(this, { names, tick, height, log, series: null, at: null });
    this.format = (value) => (value === null ? "no figures" : format(value));
    const id = newId("chart");
    const line = (i) => ({ class: `chart-line chart-line-${i + 1}` });
    this.values = names.map(() => h("strong", "–"));
    this.when = h("span", { class: "soft" });
    this.desc = svg("desc");
    this.grid = svg("g", { class: "chart-grid" });
    this.area = svg("path", { class: "chart-area" });
    this.lines = names.map((_, i) => svg("path", line(i)));
    this.hair = svg("line", { class: "chart-hair", y1: PAD.top, y2: height - PAD.bottom });
    this.svg = svg("svg", { role: "img", height, width: "100%" },
      svg("title", title), this.desc, this.grid, this.area, this.lines, this.hair);
    this.knob = h("div", {
      class: "chart-knob", role: "slider", tabindex: 0,
      aria: { label: `Time in ${title}`, valuemin: 0, valuenow: 0 },
      on: {
        keydown: (event) => this.key(event),
        blur: () => this.move(null),
        pointermove: (event) => this.move(this.index(event.offsetX)),
        pointerleave: () => this.move(null),
      },
    });
    const sample = (i) => svg("svg", { class: "bar", width: 16, height: 8, "aria-hidden": "true" },
      svg("line", { x2: 16, y1: 4, y2: 4, ...line(i) }));
    this.element = h("figure", { class: "chart", aria: { labelledby: id } },
      h("figcaption", h("h2", { id }, title), this.when,
        h("span", { class: "chart-legend" }, names.map((name, i) =>
          h("span", sample(i), h("span", { class: "soft" }, name), " ", this.values[i])))),
      h("div", { class: "chart-plot" }, this.svg, this.knob));
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  /**
   * Shows values ([[number or null]…], one list for each name): the last ones are of the time
   * until, with intervalMs between.
   */
  update({ until, intervalMs }, values) {
    Object.assign(this, { until: Date.parse(until), intervalMs, series: values });
    this.draw();
  }

  x(i) {
    return this.left + (i / Math.max(1, this.last)) * this.span;
  }

  index(pixels) {
    return Math.round(((pixels - this.left) / this.span) * this.last);
  }

  y(value) {
    const base = this.height - PAD.bottom;
    const [low, high] = [this.marks[0], this.marks.at(-1)];
    const share = this.log ? Math.log(Math.max(value, low) / low) / Math.log(high / low)
      : value / high;
    return base - share * (base - PAD.top);
  }

  time(i) {
    return this.until - (this.last - i) * this.intervalMs;
  }

  draw() {
    const width = this.svg.clientWidth;
    if (!this.series?.[0].length || width === 0) {
      return;
    }
    this.last = this.series[0].length - 1;
    const known = this.series.flat().filter((n) => n > 0);
    const high = Math.max(0, ...known);
    this.marks = this.log ? logTicks(Math.min(...known), high) : ticks(high, this.height / 60);
    const labels = this.marks.map(this.tick);
    this.left = Math.max(...labels.map((text) => text.length)) * 6.6 + 10;
    this.span = width - this.left - PAD.right;
    this.drawGrid(labels, width - PAD.right);
    const path = (i, base) => linePath(this.series[i], (at) => this.x(at), (n) => this.y(n), base);
    this.lines.forEach((line, i) => set(line, { d: path(i) }));
    set(this.area, { d: !this.log && path(0, this.height - PAD.bottom) });
    set(this.knob, { "aria-valuemax": this.last });
    refill(this.desc, this.summary());
    this.read();
  }

  drawGrid(labels, right) {
    const rows = this.marks.map((mark, i) => {
      const y = this.y(mark);
      return [svg("line", { x1: this.left, x2: right, y1: y, y2: y }),
        svg("text", { x: this.left - 6, y: y + 4, "text-anchor": "end" }, labels[i])];
    });
    const columns = timeTicks(this.time(0), this.time(this.last)).map((at) => {
      const x = this.x(this.last - (this.until - at) / this.intervalMs);
      return svg("text", { x: Math.min(Math.max(x, this.left + 14), right - 14), y: this.height - 4,
        "text-anchor": "middle" }, clock(at).slice(0, 5));
    });
    put(this.grid, rows, columns);
  }

  move(i) {
    if (this.last >= 0) {
      this.at = i === null ? null : Math.min(Math.max(i, 0), this.last);
      this.read();
    }
  }

  key(event) {
    const at = this.at ?? this.last;
    const to = {
      ArrowLeft: at - 1, ArrowDown: at - 1, ArrowRight: at + 1, ArrowUp: at + 1,
      Home: 0, End: this.last, Escape: null,
    }[event.key];
    if (to !== undefined) {
      event.preventDefault();
      this.move(to);
    }
  }

  /** Shows the values of the time that is pointed at, or else the newest. */
  read() {
    const i = this.at ?? this.last;
    const at = clock(this.time(i));
    const texts = this.series.map((values) => this.format(values[i]));
    texts.forEach((text, s) => refill(this.values[s], text));
    refill(this.when, this.at === null ? "" : `at ${at}`);
    set(this.hair, { x1: this.x(i), x2: this.x(i), hidden: this.at === null });
    const said = this.names.map((name, s) => `${name} ${texts[s]}`).join(", ");
    set(this.knob, { "aria-valuenow": i, "aria-valuetext": `${at}: ${said}` });
  }

  /** Returns the text alternative. */
  summary() {
    const parts = this.names.map((name, s) => {
      const known = this.series[s].filter((value) => value !== null);
      const [low, high] = [Math.min(...known), Math.max(...known)].map(this.format);
      return `${name}: ${known.length === 0 ? "no figures" : `from ${low} to ${high}`}`;
    });
    return `${clock(this.time(0))} to ${clock(this.time(this.last))}. ${parts.join(". ")}.`;
  }
}

/** Returns a small line without axes. values: numbers per second, or null. */
export function spark(values) {
  const [width, height, high] = [120, 22, Math.max(1e-9, ...values)];
  const x = (i) => 1 + (i / Math.max(1, values.length - 1)) * (width - 2);
  const y = (value) => height - 2 - (value / high) * (height - 4);
  return svg("svg", { class: "spark", width, height, viewBox: `0 0 ${width} ${height}`,
    role: "img", "aria-label": `At most ${perSecond(high)} per second` },
  svg("path", { class: "chart-area", d: linePath(values, x, y, height) }),
  svg("path", { class: "chart-line", d: linePath(values, x, y) }));
}

/** Returns a bar that is filled to share (0 to 1), for beside a text. kind: "", warn or bad. */
export function bar(share, kind = "") {
  const rect = (width, name) => svg("rect", { class: name, width, height: 6, rx: 3 });
  return svg("svg", { class: `bar ${kind}`, width: 72, height: 6, "aria-hidden": "true" },
    rect(72), rect(Math.max(2, Math.min(1, share) * 72), "filled"));
}
