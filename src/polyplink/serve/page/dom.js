// Trees of elements, and how a fresh tree replaces a shown one: only what differs is touched, so
// that focus, scrolling, open folds and loaded pictures stay as they are.
//
// Text reaches the page as text nodes and attributes alone, never as markup.

const SVG = "http://www.w3.org/2000/svg";
const DRAWN = new Set(["svg", "rect"]);
// Elements are made in a document that loads nothing; pictures are fetched once they are shown.
const inert = document.implementation.createHTMLDocument("");

/** An element. Attributes that are false, null or undefined are left out; true is "". */
export function h(tag, attributes = {}, ...children) {
  const element = DRAWN.has(tag) ? inert.createElementNS(SVG, tag) : inert.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === false || child === null || child === undefined) continue;
    element.append(child instanceof Node ? child : inert.createTextNode(String(child)));
  }
  return element;
}

/** A text whose commands, between backticks, are marked as code. */
export const withCode = (text) =>
  text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));

/** A list of warnings; nothing without any. */
export const warningList = (label, lines) =>
  lines.length > 0 && h("ul", { class: "warn", "aria-label": label },
    lines.map((line) => h("li", {}, withCode(line))));

const made = new Map();

/** A part of the page: built anew only where `parts`, what it is made of, have changed. */
export function reused(tag, key, parts, build) {
  const now = JSON.stringify(parts);
  if (made.get(key) === now && document.querySelector(`[data-key="${key}"]`)) {
    return h(tag, { "data-key": key, "data-reused": true });
  }
  made.set(key, now);
  const element = build();
  element.setAttribute("data-key", key);
  return element;
}

/** Show `children` inside `root`, keeping what is alike and what has the focus. */
export function show(root, ...children) {
  const focused = document.activeElement?.id;
  patchChildren(root, h("div", {}, ...children));
  place(root);
  if (focused && document.activeElement?.id !== focused) {
    document.getElementById(focused)?.focus({ preventScroll: true });
  }
}

/** Apply data-left and data-width, in percent: the content policy allows no style attributes. */
function place(root) {
  for (const element of root.querySelectorAll("[data-left]")) {
    element.style.left = `${element.dataset.left}%`;
    if (element.dataset.width) element.style.width = `${element.dataset.width}%`;
  }
}

const keyOf = (node) => node.dataset?.key || node.id || null;
const alike = (one, other) => one.nodeName === other.nodeName && keyOf(one) === keyOf(other);

function patch(old, fresh) {
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  if (fresh.hasAttribute("data-reused")) return;
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    const kept = name === "style" || (name === "open" && old.nodeName === "DETAILS");
    if (!kept && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
  if (fresh.hasAttribute("data-own")) return; // whoever owns its inside fills it
  if (old.type === "checkbox") old.checked = fresh.hasAttribute("checked");
  patchChildren(old, fresh);
  if (old.nodeName === "SELECT") old.value = fresh.value;
}

function patchChildren(old, fresh) {
  const keyed = new Map();
  for (const child of old.children) if (keyOf(child)) keyed.set(keyOf(child), child);
  let at = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = keyOf(next);
    let match = key ? keyed.get(key) : at;
    if (match && !alike(match, next)) match = null;
    if (!match) {
      old.insertBefore(next, at);
      continue;
    }
    if (match === at) at = at.nextSibling;
    else old.insertBefore(match, at);
    patch(match, next);
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}
