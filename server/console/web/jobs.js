// Jobs: many numbers, issued in the background.

import { del, get, path, post } from "./api.js";
import { bar } from "./chart.js";
import { h, put, refill } from "./dom.js";
import {
  askAndDo, atField, attempt, onceOnly, pages, plain, sender, soft, timeField, watching,
} from "./forms.js";
import { link } from "./routes.js";
import {
  button, codeLink, empty, facts, field, linkButton, notice, page, select, status,
  table, whileBusy,
} from "./ui.js";
import { duration, number, percent, rate, sentence, time } from "./words.js";

const home = [["Jobs", "#/jobs"]];
const at = (id) => path`/jobs/${id}`;
const named = ({ name, id }) => name || id.slice(0, 8);
const ended = ({ endedAt }) => Boolean(endedAt);

/** Returns the address of the form for a new job of a biz type, or of its jobs. */
export const jobsOf = (bizType, query = {}) => `#/jobs?${new URLSearchParams({ ...query, bizType })}`;

/** Shows the jobs, or one: #/jobs, #/jobs?bizType=order, #/jobs?new=1, #/jobs/{job}. */
export async function show(main, { parts: [id], query }, ctx) {
  const bizType = query.get("bizType") ?? "";
  if (id !== undefined) return showJob(main, id, ctx);
  if (query.has("new")) return put(main, page("New job", { crumbs: home }, jobForm(bizType, ctx)));
  return showJobs(main, bizType, ctx);
}

/** Returns the sign and the words for how a job is. */
export const stateInWords = ({ state, at: begins }, now = Date.now()) => {
  if (state === "queued" && Date.parse(begins) > now) return ["off", "waits for its time"];
  return [{ running: "info", done: "good", failed: "bad" }[state] ?? "off", state];
};

/** Sorts jobs: those that run, those that wait, and those that have ended, the newest first. */
export const inOrder = (jobs) => {
  const rank = (job) => (job.state === "running" ? 0 : ended(job) ? 2 : 1);
  return [...jobs].sort((a, b) => rank(a) - rank(b) || b.createdAt.localeCompare(a.createdAt));
};

const stateOf = (job) => status(...stateInWords(job));
const progressOf = ({ done, count, state }) => h("span", { class: "share" },
  bar(done / count, { failed: "bad", cancelled: "off" }[state]), percent(done / count));
const speed = (job) => job.startedAt && rate(job.rate);
const left = ({ secondsLeft }) => (secondsLeft === undefined ? null : duration(secondsLeft));

const showJobs = (main, bizType, ctx) => {
  const [list, trouble] = [h("div"), h("div")];
  put(main, page(bizType ? `Jobs of ${bizType}` : "Jobs", {
    lead: "A job issues many numbers in the background. Its result can be downloaded.",
    crumbs: bizType && home,
    actions: linkButton("New job", bizType ? jobsOf(bizType, { new: 1 }) : "#/jobs?new=1", { kind: "primary" }),
  }, ctx.may("read") || notice("info", "Only jobs that this token made are listed."), trouble, list));
  let shown = null; // the page of the list that is shown: {after, rows}
  const load = async (after, background) =>
    (await get("/jobs", { query: { bizType, after, limit: 100 }, background, signal: ctx.signal })).data;
  pages(list, async (after) => ({ after, ...await load(after) }), ({ after, jobs }) => {
    const rows = jobTable(jobs);
    shown = { after, rows };
    return rows;
  });
  ctx.every(3000, watching(ctx, trouble, async () => {
    const now = shown;
    if (now) now.rows.update(inOrder((await load(now.after, true)).jobs));
  }));
};

const jobTable = (jobs) => table({
  caption: "List of jobs",
  columns: [
    { title: "Job", cell: (job) => h("a", { href: link("jobs", job.id) }, named(job)) },
    { title: "Biz type", cell: (job) => h("a", { href: link("biz-types", job.bizType) }, job.bizType) },
    { title: "State", cell: stateOf },
    { title: "Progress", cell: progressOf },
    { title: "Issued", number: true, cell: (job) => number(job.done) },
    { title: "Of", number: true, cell: (job) => number(job.count) },
    { title: "Rate", number: true, cell: speed },
    { title: "Left", number: true, cell: left },
    { title: "Node", cell: (job) => job.node },
  ],
  rows: inOrder(jobs), key: (job) => job.id,
  none: empty("No jobs.", h("p", "A job issues up to 1,000,000,000 numbers. It survives the loss of any node.")),
});

const showJob = (main, id, ctx) => {
  const [lead, actions, trouble, figures] = [h("span"), h("div", { class: "actions" }), h("div"), h("div")];
  let shown = ""; // the state that the buttons are for
  const look = watching(ctx, trouble, async () => {
    const job = (await get(at(id), { background: true, signal: ctx.signal })).data;
    refill(lead, job.name);
    refill(figures, factsOf(job));
    if (shown !== job.state) put(actions, actionsOf(job, trouble, look, ctx));
    shown = job.state;
  });
  put(main, page(`Job ${id.slice(0, 8)}`, { crumbs: home, lead, actions }, trouble, figures));
  ctx.every(2000, look);
};

const factsOf = (job) => [
  job.error && notice("bad", h("strong", sentence(job.error.detail)), h("p", "Code ", codeLink(job.error.code))),
  facts([
    ["State", stateOf(job)],
    ["Progress", progressOf(job)],
    ["Issued", `${number(job.done)} of ${number(job.count)}`],
    job.startedAt && ["Rate", speed(job)],
    left(job) && ["Time left", left(job)],
    job.node && ["Node", job.node],
    ["Biz type", h("a", { href: link("biz-types", job.bizType) }, job.bizType)],
    job.key && ["Key", job.key],
    ["Format", job.format],
    [job.startedAt ? "Began" : "Begins", time(job.startedAt ?? job.at)],
    job.endedAt && ["Ended", time(job.endedAt)],
    job.expiresAt && ["Kept until", time(job.expiresAt)],
    job.every && ["Again", `each ${job.every}, by the clock of ${job.timeZone}`],
    job.missed > 0 && ["Missed", `${number(job.missed)}, because no node ran or there was no room`],
    job.schedule && ["Schedule", h("a", { href: link("jobs", job.schedule) }, job.schedule.slice(0, 8))],
    ["ID", h("code", job.id)],
  ]),
];

const actionsOf = (job, trouble, look, ctx) => {
  const why = ctx.may("admin") || ctx.mayIssue(job.bizType, job.key) ? "" : ctx.why("admin");
  if (!ended(job)) return button("Cancel…", { kind: "danger", why, click: () => cancel(job, look) });
  const remove = async () => { if (await removeJob(job)) ctx.go("#/jobs"); };
  return [
    job.done > 0 && button(job.state === "done" ? "Download" : "Download what there is", {
      kind: "primary", why, click: () => attempt(trouble, () => download(job)),
    }),
    button("Remove…", { kind: "danger", why, click: remove }),
  ];
};

/** Has the browser save a result, which does not pass through the page. */
const download = async (job) => {
  const result = `${at(job.id)}/result`;
  const query = { partial: job.state !== "done" || null };
  // Signs in again and says what is wrong: the browser would only say that it failed.
  await get(result, { query, as: "text", headers: { Range: "bytes=0-0" } });
  h("a", { href: `console/api${result}${query.partial ? "?partial=true" : ""}`, download: "" }).click();
};

const cancel = (job, look) => askAndDo({
  title: `Cancel the job ${named(job)}?`, yes: "Cancel the job", no: "Go on", kind: "danger",
  text: h("p", job.every ? "It makes no further jobs. Those that it has made go on."
    : "It issues no further numbers. Those that it has issued are used up, and can be downloaded."),
  action: async () => {
    // Without the query it would remove a job that has ended meanwhile.
    await del(at(job.id), { query: { ended: false } }).catch((error) => {
      if (error.code !== "job_ended") throw error;
    });
    await look();
    return true;
  },
});

const removeJob = (job) => askAndDo({
  title: `Remove the job ${named(job)}?`, yes: "Remove", kind: "danger",
  text: h("p", "Its result is gone then. The numbers are used up."),
  action: async () => {
    await del(at(job.id), { query: { ended: true } }).catch((error) => {
      if (error.code !== "unknown_job") throw error; // somebody else removed it
    });
    return true;
  },
});

const formats = [["text", "Text: an ID a line"], ["csv", "CSV with the header id"], ["jsonl", 'JSON lines: {"id":"…"}']];

const periods = [["", "Only once"], ["day", "Each day"], ["week", "Each week"], ["month", "Each month"]];

const jobForm = (bizType, ctx) => {
  const fields = {
    bizType: plain("Biz type", "bizType", { required: true, value: bizType }),
    key: plain("Key", "key", { help: "If the biz type counts for each key." }),
    count: plain("How many", "count", { required: true, type: "number", min: 1, max: 1e9 }),
    format: field({ label: "Format", name: "format", input: select(formats) }),
    at: timeField("Begins", "at", "", { help: "At the earliest. Without a time it begins now." }),
    every: field({ label: "Again", name: "every", input: select(periods) }),
    timeZone: plain("Time zone", "timeZone", {
      value: Intl.DateTimeFormat().resolvedOptions().timeZone, help: "Of a job that is made again: its clock shows the same time.",
    }),
    name: plain("Name", "name", { maxlength: 100, help: "For people, and for the file that is downloaded." }),
  };
  const entered = () => Object.fromEntries(Object.entries(fields)
    .map(([name, one]) => [name, name === "count" ? Number(one.value()) : one.value()])
    .filter(([name, value]) => value !== "" && (name !== "timeZone" || fields.every.value())));
  const begun = JSON.stringify(entered());
  ctx.unsaved(() => JSON.stringify(entered()) !== begun);
  const [trouble, submit, once] = [h("div"), sender("Create"), onceOnly()];
  const { bizType: of, count, key } = fields;
  const failed = atField({
    ...fields, invalid_biz_type: of, unknown_biz_type: of, disabled: of, invalid_count: count, invalid_key: key,
  }, "Create it again with the same values: there is one job in the end.");
  const send = (event) => {
    event.preventDefault();
    Object.values(fields).forEach((one) => one.problem(""));
    whileBusy(submit, () => attempt(trouble, async () => {
      const job = entered();
      const { data } = await post("/jobs", job, { headers: once(job) });
      once.done();
      ctx.unsaved(null);
      ctx.go(link("jobs", data.id));
    }, failed));
  };
  return h("form", { class: "stack", on: { submit: send } },
    soft("The numbers are real: nobody else gets them, and nothing takes them back."),
    Object.values(fields).map((one) => one.element), trouble,
    h("div", { class: "actions" }, submit, linkButton("Cancel", "#/jobs")));
};
