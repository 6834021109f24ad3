// Figures and times in words.

import { h } from "./dom.js";

export { explain, meaning, sentence } from "./codes.js";

const NARROW = "\u202f"; // between a figure and its unit: no line break

/** Returns "1,234,567". n is a number, or digits as text of any length. */
export function number(n, digits = 0) {
  if (typeof n === "string") {
    return /^-?\d+$/.test(n) ? n.replace(/\B(?=(\d{3})+$)/g, ",") : n;
  }
  return Number.isFinite(n) ? n.toLocaleString("en", { maximumFractionDigits: digits }) : "–";
}

/** Returns the digits that a rate deserves: "1,234", "12.3", "0.04". */
export function perSecond(n) {
  return number(n ?? NaN, n >= 100 ? 0 : n >= 1 ? 1 : 2);
}

/** Returns "1,234 per second". */
export function rate(n) {
  return `${perSecond(n)} per second`;
}

/** Returns "1 node", "3 nodes". */
export function count(n, singular, plural = `${singular}s`) {
  return `${number(n)} ${n === 1 ? singular : plural}`;
}

/** Returns "97 %". share is 0 to 1. Only 1 is "100 %". */
export function percent(share) {
  return `${number(share < 1 ? Math.min(share * 100, 99.9) : 100, 1)}${NARROW}%`;
}

/** Returns "a", "a and b", "a, b and c". */
export function list(texts) {
  const all = texts.slice(0, -1).join(", ");
  return all === "" ? texts.join("") : `${all} and ${texts.at(-1)}`;
}

const units = [
  [365.25 * 86400, "year", "years"], [86400, "day", "days"], [3600, "h", "h"], [60, "min", "min"],
  [1, "s", "s"],
];

/** Returns "34 s", "2 min 5 s", "3 h 10 min", "12 days", "69 years"; null is "for ever". */
export function duration(seconds) {
  if (seconds === null) {
    return "for ever";
  }
  if (seconds < 1) {
    return seconds <= 0 ? `0${NARROW}s` : latency(seconds);
  }
  const all = Math.round(seconds);
  const i = unitOf(all);
  const rest = all % units[i][0];
  const two = i > 0 && all < 10 * units[i][0] && unitOf(rest) === i + 1;
  return two ? `${withUnit(all, i)} ${withUnit(rest, i + 1)}` : withUnit(all, i);
}

/** Returns the index of the largest unit that fits into seconds. */
const unitOf = (seconds) => units.findIndex(([size]) => seconds >= size);

function withUnit(seconds, i) {
  const [size, one, more] = units[i];
  const n = Math.floor(seconds / size);
  return `${number(n)}${NARROW}${n === 1 ? one : more}`;
}

/** Returns milliseconds as seconds; null, which is not known or for ever, stays. */
export const seconds = (ms) => (ms === null ? null : ms / 1000);

/** Returns a short duration: "340 µs", "1.2 ms", "45 ms", "1.3 s". */
export function latency(seconds) {
  if (seconds === null) {
    return "–";
  }
  const [scale, unit] = seconds < 1e-3 ? [1e6, "µs"] : seconds < 1 ? [1e3, "ms"] : [1, "s"];
  return `${number(seconds * scale, seconds * scale < 10 ? 1 : 0)}${NARROW}${unit}`;
}

/** Returns "12:04:10" in the reader's time zone. at is a Date, milliseconds or RFC 3339. */
export function clock(at) {
  return new Date(at).toLocaleTimeString("en-GB");
}

/** Returns "23 Nov 2026, 12:04:10" in the reader's time zone. */
export function dateTime(at) {
  const day = { day: "numeric", month: "short", year: "numeric" };
  return `${new Date(at).toLocaleDateString("en-GB", day)}, ${clock(at)}`;
}

/** Returns "12:04:10" for a time of today, else "23 Nov 2026, 12:04:10". */
export function shortTime(at, now = Date.now()) {
  const today = new Date(at).toDateString() === new Date(now).toDateString();
  return today ? clock(at) : dateTime(at);
}

/** Returns "just now", "3 min ago", "in 2 h". */
export function ago(at, now = Date.now()) {
  const seconds = (now - new Date(at).getTime()) / 1000;
  if (Math.abs(seconds) < 2) {
    return "just now";
  }
  const text = withUnit(Math.abs(seconds), unitOf(Math.abs(seconds)));
  return seconds > 0 ? `${text} ago` : `in ${text}`;
}

/** Returns the reader's time zone: "Europe/Berlin". */
export function zone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** Returns a <time> element for RFC 3339: "short", "ago" or "full". No time is "–". */
export function time(at, form = "short") {
  if (!at || Number.isNaN(Date.parse(at))) {
    return h("span", "–");
  }
  const text = { ago, full: dateTime, short: shortTime }[form](at);
  const data = { ago: form === "ago" || null };
  return h("time", { datetime: at, title: `${dateTime(at)} ${zone()}`, data }, text);
}

/** Makes the elements of time(at, "ago") say how long ago it is now. */
export function moveOn(now = Date.now()) {
  document.querySelectorAll("time[data-ago]").forEach((node) => {
    node.textContent = ago(node.dateTime, now);
  });
}
