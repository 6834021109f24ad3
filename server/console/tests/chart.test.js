import { equal, match, ok } from "./assert.js";
import { bar, LineChart, linePath, logTicks, spark, ticks, timeTicks } from "../web/chart.js";

const x = (i) => i * 10;
const y = (value) => 100 - value;

function chart(values, more = {}) {
  const line = new LineChart({
    title: "Numbers",
    height: 100,
    tick: String,
    names: ["numbers"],
    format: (n) => `${n} a second`,
    ...more,
  });
  document.getElementById("main").append(line.element);
  line.update({ until: "2026-11-23T12:15:00Z", intervalMs: 5000 }, [values]);
  return line;
}

const said = ({ element }) => element.querySelector("[role=slider]").getAttribute("aria-valuetext");

function press({ element }, ...keys) {
  const knob = element.querySelector("[role=slider]");
  keys.forEach((key) => knob.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })));
}

export const tests = {
  "ticks are round and reach the largest value": () => {
    equal(ticks(7000), [0, 2000, 4000, 6000, 8000]);
    equal(ticks(1), [0, 0.5, 1]);
    equal(ticks(0.3), [0, 0.1, 0.2, 0.3]);
    equal(
      [ticks(0), ticks(-Infinity), ticks(NaN)],
      [
        [0, 1],
        [0, 1],
        [0, 1],
      ],
    );
    for (let max = 1e-6; max < 1e12; max *= 1.37) {
      const marks = ticks(max, 4);
      ok(marks.at(-1) >= max * (1 - 1e-6) && marks.length <= 5, `${max}: ${marks}`);
    }
  },
  "logarithmic ticks are powers of ten around the values": () => {
    equal(logTicks(3e-6, 5e-4), [1e-6, 1e-5, 1e-4, 1e-3]);
    equal(logTicks(1e-3, 1e-3), [1e-3, 1e-2]);
    equal(logTicks(Infinity, 0), [1e-6, 1e-3]);
  },
  "times are whole minutes": () => {
    equal(timeTicks(1, 600_000), [300_000, 600_000]);
    equal(timeTicks(1, 2), []);
  },
  "null is a gap, and a value alone is a dot": () => {
    equal(linePath([1, 2, null, 3, null], x, y), "M0.0 99.0L10.0 98.0h0M30.0 97.0h0");
    equal(linePath([1, 2, null], x, y, 100), "M0.0 99.0L10.0 98.0V100H0Z");
    equal([linePath([], x, y), linePath([null, null], x, y)], ["", ""]);
  },
  "arrow keys read out values, and stop at the ends": () => {
    const node = chart([1, null, 3]);
    equal(said(node), "13:15:00: numbers 3 a second");
    press(node, "ArrowLeft");
    equal(said(node), "13:14:55: numbers no figures");
    press(node, "ArrowLeft", "ArrowLeft", "ArrowLeft");
    equal(said(node), "13:14:50: numbers 1 a second");
    press(node, "End", "ArrowRight");
    equal(said(node), "13:15:00: numbers 3 a second");
  },
  "a chart says what it shows": () => {
    const node = chart([1, null, 3]).element;
    equal(node.querySelector("svg[role=img] title").textContent, "Numbers");
    match(
      node.querySelector("desc").textContent,
      /13:14:50 to 13:15:00. numbers: from 1 a second to 3/,
    );
    match(chart([null, null]).element.querySelector("desc").textContent, /no figures/);
  },
  "a time that is pointed at stays when new values come": () => {
    const node = chart([1, 2, 3]);
    press(node, "Home");
    node.update({ until: "2026-11-23T12:15:05Z", intervalMs: 5000 }, [[2, 3, 4]]);
    equal(said(node), "13:14:55: numbers 2 a second");
  },
  "nothing but numbers is drawn": () => {
    for (const values of [[], [null], [0], [0, 0], [1e300, 0], [5]]) {
      const node = chart(values).element;
      ok(!/NaN|Infinity/.test(node.innerHTML), `${values}`);
      const logarithmic = chart(values, { log: true }).element;
      ok(!/NaN|Infinity/.test(logarithmic.innerHTML), `${values}, logarithmic`);
    }
    ok(!/NaN/.test(spark([null, null]).outerHTML + bar(0).outerHTML + bar(2).outerHTML));
  },
};
