// The events of a biz type.

import { h, put } from "./dom.js";
import { pages, plain, queryForm, read } from "./forms.js";
import { button, empty, section, table } from "./ui.js";
import { number, time } from "./words.js";

/** Shows the tab Events of a biz type. */
export const showEvents = (pane, it, ctx) => {
  const list = h("div");
  const from = it.query.get("after") ?? "";
  const after = plain("After position", "after", {
    type: "number", min: 0, value: from, help: "Without one: the newest 50.",
  });
  const load = async (given) => {
    let behind = given;
    if (given === "") { // the newest ones; those of an earlier page may be gone
      const { last } = await read(ctx, "/events", { bizType: it.name, limit: 1 });
      behind = last > 50 ? last - 50 : null;
    }
    const page = await read(ctx, "/events", { bizType: it.name, after: behind, limit: 50 }).catch((error) => {
      if (given !== "" || error.code !== "events_gone") throw error;
      return read(ctx, "/events", { bizType: it.name, limit: 50 });
    });
    return { ...page, next: page.events.length === 50 && String(page.next) };
  };
  const again = pages(list, load, ({ events }) => table({
    caption: "Events, oldest first",
    columns: [
      { title: "Position", number: true, cell: (e) => number(e.position) },
      { title: "Time", cell: (e) => time(e.at) },
      { title: "Type", cell: (e) => e.type },
      { title: "Counter", cell: (e) => [e.key, e.period].filter(Boolean).join(" ") },
      { title: "What", class: "prose", cell: (e) => h("code", JSON.stringify(e.data)) },
    ],
    rows: events, key: (e) => String(e.position),
    none: empty("No events.", h("p", "An event appears within some seconds.")),
  }), from);
  put(pane, section("Events", {
    lead: "The newest ones, in their order.", actions: button("Refresh", { click: () => again() }),
  }, queryForm(it, "events", ctx, [after]), list));
};
