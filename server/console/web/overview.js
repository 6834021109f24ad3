// The overview of the cluster: asked for every 5 seconds, and updated in place.

import { get } from "./api.js";
import { noBizTypes } from "./biztypes.js";
import { bar, LineChart, spark } from "./chart.js";
import { h, put, refill } from "./dom.js";
import { bizTypeWords, headline, isStoreAway, troubles } from "./health.js";
import { columns as nodeColumns, rowsOf } from "./nodes.js";
import { link } from "./routes.js";
import { onlyNumbers } from "./scopes.js";
import { busy, codeLink, errorNotice, notice, page, section, sign, table } from "./ui.js";
import {
  clock, duration, explain, latency, meaning, number, percent, perSecond, seconds,
} from "./words.js";

/** Shows the overview. */
export async function show(main, where, ctx) {
  if (!ctx.may("read")) {
    put(main, page("Overview", {}, onlyNumbers(ctx)));
    return;
  }
  const view = new View(ctx);
  put(main, page("Overview", { lead: [view.sentence, view.counts] }), view.trouble, view.body);
  ctx.every(5000, () => view.poll({ background: true })); // nobody waits for it
}

class View {
  constructor(ctx) {
    this.ctx = ctx;
    this.since = null; // when the node stopped answering
    this.failure = null; // why, as it is shown
    this.answer = null; // the last one
    this.sentence = h("p", { class: "headline" }, "…");
    this.counts = h("p", { class: "soft" }, "\u00a0");
    this.trouble = h("div");
    this.list = h("ul", { class: "troubles" });
    this.notes = h("div");
    this.charts = charts();
    this.tables = tables();
    this.body = h("div", busy());
  }

  async poll(options) {
    const { signal } = this.ctx;
    try {
      this.answered((await get("/overview", { signal, timeout: 10_000, ...options })).data);
    } catch (error) {
      if (!signal.aborted) {
        this.failed(error);
      }
      throw error; // every() waits as long as Retry-After says
    }
  }

  answered(o) {
    if (this.since) {
      this.ctx.announce("The node answers again.");
    }
    this.since = this.failure = null;
    put(this.trouble);
    this.stale(false);
    if (!this.answer) {
      put(this.body, this.list, this.notes, this.charts.element, this.tables.element);
    }
    this.say(o);
    this.charts.update(o);
    this.tables.update(o);
    this.answer = o;
  }

  /** Says how the cluster is. A screen reader hears it if it gets better or worse. */
  say(o) {
    const { kind, text } = headline(o);
    refill(this.sentence, sign(kind), h("span", text));
    if (this.answer && headline(this.answer).kind !== kind) {
      this.ctx.announce(text);
    }
    const whose = o.complete && o.nodes.length > 1 ? "all nodes" : "the node that answers";
    refill(this.counts,
      `${bizTypeWords(o.bizTypes, !isStoreAway(o))}. Figures are those of ${whose}, as of ` +
        `${clock(o.at)}.`);
    refill(this.list, troubles(o).map(({ kind: how, text: what, todo }) =>
      h("li", sign(how), h("div", what, h("span", { class: "soft" }, todo)))));
    const { total } = o.bizTypes;
    refill(this.notes,
      !o.complete && notice("info", "Other nodes are not seen until the store is back."),
      !o.metrics && notice("info",
        "No node knows rates and latencies: here metrics.enabled is false."),
      total === 0 && noBizTypes(this.ctx),
      o.metrics && total > 0 && !o.numbers.some((n) => n > 0) &&
        notice("info", "Nobody has taken numbers in the last 15 minutes. To take one: ",
          h("code", "curl ", this.ctx.session.tokensAskedFor && "-H 'Authorization: Bearer TOKEN' ",
            new URL("seq/NAME", document.baseURI).href)));
  }

  stale(yes) {
    [this.body, this.counts].forEach((node) => node.classList.toggle("stale", yes));
  }

  failed(error) {
    if (error.status === 403 && !this.ctx.may("read")) { // somebody signed in with another token
      this.ctx.reload();
      return;
    }
    this.since ??= Date.now();
    const { title } = explain(error);
    if (title !== this.failure) { // or it would be read out each time
      this.failure = title;
      this.age = h("p", { class: "age soft" });
      const retry = () => this.poll().catch(() => {});
      put(this.trouble, error.code === "not_found"
        ? notice("bad", "This node has an older version, which has no overview. Try another one.")
        : errorNotice(error, { retry }), this.age);
      put(this.sentence, this.answer && [sign("bad"), h("span", `${title}.`)]);
    }
    if (!this.answer) {
      put(this.body);
    }
    const no = error.name === "Unreachable" ? "No answer" : "No figures";
    refill(this.age, `${no} since ${clock(this.since)}. The page asks again by itself.`);
    this.stale(Boolean(this.answer));
  }
}

function charts() {
  const count = (title, name, height) => new LineChart({ title, height, names: [name],
    format: perSecond, tick: axis });
  const numbers = count("Numbers per second", "numbers", 262);
  const refused = count("Refused per second", "requests", 96);
  const times = new LineChart({ title: "Latency", height: 120, names: ["median", "slowest 1 %"],
    format: latency, tick: latency, log: true });
  const element = h("section", { class: "charts", aria: { label: "The last 15 minutes" } },
    numbers.element, h("div", refused.element, times.element));
  return {
    element,
    update: (o) => {
      element.hidden = !o.metrics || o.bizTypes.total === 0;
      numbers.update(o, [o.numbers]);
      refused.update(o, [o.refused]);
      times.update(o, [o.latency.p50Ms, o.latency.p99Ms].map((list) => list.map(seconds)));
    },
  };
}

function axis(n) {
  return n >= 1e6 ? `${number(n / 1e6, 1)}M` : n >= 1e4 ? `${number(n / 1e3, 1)}k` : number(n, 2);
}

/** Returns a section with a table of rows(overview). columns: [title, cell(row), is a number]. */
function part(title, lead, rows, key, none, columns, compact) {
  const list = table({ caption: title, key, none: h("p", { class: "soft" }, none), rows: [], compact,
    columns: columns.map(([head, cell, isNumber]) => ({ title: head, cell, number: isNumber })) });
  return { element: section(title, { lead }, list), update: (o) => list.update(rows(o)) };
}

/** A link to a biz type; "_other" stands for all that are not counted on their own. */
const bizType = (name) => (name === "_other" ? "all others"
  : h("a", { href: link("biz-types", name) }, name));

function tables() {
  const busiest = part("Busiest biz types", "last minute", (o) => o.busiest, (row) => row.bizType,
    "Nobody takes numbers now.", [
      ["Biz type", (row) => bizType(row.bizType)],
      ["Last 15 minutes", (row) => spark(row.points)],
      ["Per second", (row) => perSecond(row.numbersPerSecond), true],
      ["Refused", (row) => perSecond(row.refusedPerSecond), true],
    ], true);
  const refusals = part("Refusals", "last 15 minutes", (o) => o.refusals, (row) => row.code,
    "Nothing was refused.", [
      ["Why", ({ code }) => [meaning(code).what, " ", codeLink(code),
        h("div", { class: "soft" }, meaning(code).todo)]],
      ["In all", (row) => number(row.total), true],
      ["Per second", (row) => perSecond(row.perSecond), true],
    ], true);
  const runsOut = part("Runs out next", "at the present rate", (o) => o.runsOut.filter(soon),
    (row) => [row.bizType, row.plugin, row.what].join(" "), "Nothing runs out soon.", [
      ["Biz type", (row) => bizType(row.bizType)],
      ["What", (row) => `${things[row.what] || row.what}${row.plugin && ` (${row.plugin})`}`],
      ["Used", (row) => row.share !== null &&
        h("span", { class: "share" }, bar(row.share, urgency(row)), percent(row.share))],
      ["In", ({ lastsMs }) => lastsMs !== null &&
        (lastsMs < FAR ? duration(seconds(lastsMs)) : "more than 10 years"), true],
    ]);
  const inHand = part("In hand", "what nodes issue without the store", (o) => o.inHand,
    (row) => row.bizType, "No node has numbers in hand.", [
      ["Biz type", (row) => bizType(row.bizType)],
      ["Numbers", (row) => number(row.numbers), true],
      ["Step", (row) => number(row.step), true],
      ["Lasts", (row) => (row.lastsMs === null ? "not used now"
        : duration(seconds(row.lastsMs))), true],
    ], true);
  const nodes = part("Nodes", "", rowsOf, ({ node }) => node.id, "", nodeColumns);
  const pairs = h("div", { class: "columns" },
    h("div", busiest.element, runsOut.element), h("div", refusals.element, inHand.element));
  return {
    element: h("div", pairs, nodes.element),
    update: (o) => {
      pairs.hidden = o.bizTypes.total === 0;
      [busiest, refusals].forEach(({ element }) => { element.hidden = !o.metrics; });
      [busiest, refusals, runsOut, inHand, nodes].forEach((one) => one.update(o));
    },
  };
}

const things = {
  display: "IDs of this form", machineIds: "machine IDs", reservations: "room to reserve",
};

const DAY = 86_400_000;
const FAR = 3650 * DAY;
const soon = ({ lastsMs, share }) => share >= 0.5 || (lastsMs !== null && lastsMs < FAR);

function urgency({ lastsMs, share }) {
  const days = (lastsMs ?? Infinity) / DAY;
  return days < 1 || share >= 0.99 ? "bad" : days < 14 || share >= 0.9 ? "warn" : "";
}
