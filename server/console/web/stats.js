// What the plugin stats counts.

import { path } from "./api.js";
import { h, put } from "./dom.js";
import { live, soft } from "./forms.js";
import { busy, facts, section, table } from "./ui.js";
import { meaning, number, perSecond, time } from "./words.js";

const stats = ({ issued, requests, lastAt, since, rates, refused }) => {
  const rate = (title, name) => ({ title, number: true, cell: ([w]) => perSecond(rates[w][name]) });
  return [
    facts([
      ["Numbers issued", number(issued)],
      ["Requests answered", number(requests)],
      ["Issued last", lastAt ? time(lastAt) : "not yet"],
      ["Counted since", time(since)],
    ]),
    table({
      caption: "Per second", captionHidden: false,
      columns: [
        { title: "Over the last", cell: ([, text]) => text },
        rate("Numbers", "issued"), rate("Requests", "requests"), rate("Refused", "refused"),
      ],
      rows: [["1m", "1 minute"], ["5m", "5 minutes"], ["15m", "15 minutes"]],
    }),
    table({
      caption: "Refused requests", captionHidden: false,
      columns: [
        { title: "Why", cell: ([code]) => meaning(code).what },
        { title: "Code", cell: ([code]) => h("code", code) },
        { title: "Requests", number: true, cell: ([, n]) => number(n) },
      ],
      rows: Object.entries(refused).sort((a, b) => b[1] - a[1]),
      none: soft("Nothing was refused."),
    }),
  ];
};

/** Shows the tab Stats of a biz type. */
export const showStats = (pane, it, ctx) => {
  const figures = h("div", { class: "stack" }, busy());
  put(pane, section("Stats", {
    lead: "Of the node that answers, since it started or got the present definition. Behind a "
      + "balancer that is another one each time.",
  }, figures));
  live(ctx, figures, path`/biz-types/${it.name}/stats`, stats);
};
