// The addresses of pages: "#/biz-types/order/history?after=9".

/** The modules of pages: [name, whether it fits the parts, () => module]. The first counts. */
const routes = [
  ["overview", (parts) => parts.length === 0, () => import("./overview.js")],
  ["biz-types", (parts) => parts.length === 0, () => import("./biztypes.js")],
  ["biz-types", (parts) => parts.length === 2 && parts[1] === "edit", () => import("./editor.js")],
  ["biz-types", (parts) => parts.length >= 1, () => import("./biztype.js")],
  ["new", (parts) => parts.length === 0, () => import("./editor.js")],
  ["jobs", (parts) => parts.length <= 1, () => import("./jobs.js")],
  ["subscriptions", (parts) => parts.length <= 1, () => import("./subscriptions.js")],
  ["workers", (parts) => parts.length <= 1 || (parts.length === 2 && parts[1] === "edit"),
    () => import("./workers.js")],
  ["access", () => true, () => import("./access.js")],
];

/** Returns {name, parts, query, load} for a hash; load is undefined if there is no such page. */
export function parse(hash) {
  const [path, search = ""] = hash.replace(/^#?\/?/, "").split("?", 2);
  const [name = "", ...rest] = path.split("/").filter((part) => part !== "").map(decode);
  const found = routes.find(([route, fits]) => route === (name || "overview") && fits(rest));
  const query = new URLSearchParams(search);
  return { name: name || "overview", parts: rest, query, load: found?.[2] };
}

/** Returns the hash of a page: link("biz-types", "order", "history"). Parts are escaped. */
export function link(...parts) {
  return `#/${parts.map(encodeURIComponent).join("/")}`;
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a lone "%"
  }
}
