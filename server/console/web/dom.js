// Elements without markup in strings. All text becomes text nodes, so nothing that a user wrote can
// become an element: this is the console's defence against injected scripts.

/** Set as properties: the attribute is only the first value. */
const properties = ["value", "checked", "disabled"];

/**
 * Returns an HTML element. props may be left out. They are attributes (true: "", null and false:
 * none), class (a text, or an array that may contain false), on (listeners by event), data and
 * aria. Children are nodes, texts, numbers and arrays of them; null and booleans are skipped.
 */
export function h(tag, props, ...children) {
  return make(document.createElement(tag), props, children);
}

/** Returns an SVG element: as h. */
export function svg(tag, props, ...children) {
  return make(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

/** Replaces the children of parent, and returns parent. */
export function put(parent, ...children) {
  parent.replaceChildren(...flat(children));
  return parent;
}

/**
 * As put, but leaves equal children alone: focus and selection stay, screen readers say nothing.
 */
export function refill(parent, ...children) {
  const fresh = put(parent.cloneNode(), children);
  if (!parent.isEqualNode(fresh)) {
    put(parent, ...fresh.childNodes);
  }
}

/** Appends children to parent, and returns parent. */
export function add(parent, ...children) {
  parent.append(...flat(children));
  return parent;
}

/** Returns the nodes and texts among children. */
function flat(children) {
  return [children].flat(Infinity)
    .filter((child) => child !== null && child !== undefined && typeof child !== "boolean")
    .map((child) => (child instanceof Node ? child : String(child)));
}

/** Sets attributes of node if they differ: as the props of h, without on, data and aria. */
export function set(node, props) {
  Object.entries(props).forEach(([name, value]) => attribute(node, name, value));
  return node;
}

let ids = 0;

/** Returns an ID for an element that no other element of this page has. */
export function newId(prefix = "id") {
  ids++;
  return `${prefix}-${ids}`;
}

function make(node, props, children) {
  if (props instanceof Node || Array.isArray(props) || typeof (props ?? {}) !== "object") {
    children = [props, children];
    props = null;
  }
  const { on = {}, data = {}, aria = {}, ...rest } = props || {};
  add(node, children); // before the value of a select
  set(node, rest);
  Object.entries(data).forEach(([name, value]) => attribute(node, `data-${name}`, value));
  Object.entries(aria).forEach(([name, value]) => {
    attribute(node, `aria-${name}`, typeof value === "boolean" ? String(value) : value);
  });
  Object.entries(on).forEach(([event, f]) => f && node.addEventListener(event, f));
  return node;
}

function attribute(node, name, value) {
  if (/^on/i.test(name)) {
    throw new TypeError(`listeners are in "on": ${name}`);
  }
  if (name === "class" && Array.isArray(value)) {
    value = value.filter(Boolean).join(" ") || null;
  }
  if (properties.includes(name) && name in node) {
    node[name] = value ?? (name === "value" ? "" : false);
  } else if (value === null || value === undefined || value === false) {
    node.removeAttribute(name);
  } else if (node.getAttribute(name) !== String(value === true ? "" : value)) {
    node.setAttribute(name, value === true ? "" : value);
  }
}
