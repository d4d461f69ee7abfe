// @ts-check
/** Making elements. Text goes in as text: what is remembered was written by anybody, and is never read as HTML. */

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, unknown>} Props */

/**
 * An element. `class` and attributes by name; `on…` listens; null, undefined and false leave one out.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

/**
 * An element of SVG.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function s(tag, props = {}, ...children) {
  return filled(document.createElementNS('http://www.w3.org/2000/svg', tag), props, children);
}

/**
 * @template {Element} Made
 * @param {Made} made
 * @param {Props} props
 * @param {Child[]} children
 * @returns {Made}
 */
function filled(made, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) made.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else made.setAttribute(name, value === true ? '' : String(value));
  }
  made.append(...kept(children));
  return made;
}

/**
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
function kept(children) {
  const there = children.filter((one) => one !== null && one !== undefined && one !== false);
  return there.map((one) => (one instanceof Node ? one : String(one)));
}

/**
 * With a space between any two: what lies side by side would be read as one word.
 * @param {...Child} children
 * @returns {Child[]}
 */
export function spaced(...children) {
  return kept(children).flatMap((one, i) => (i ? [' ', one] : [one]));
}

/**
 * What stands in an element, anew.
 * @param {Element} into
 * @param {...Child} children
 */
export function fill(into, ...children) {
  into.replaceChildren(...kept(children));
}

/**
 * The element of an id.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function by(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element #${id}`);
  return found;
}

/**
 * A box as wide as a share of its track. By the CSSOM: the policy of this page lets no style attribute in.
 * @param {string} kind class names
 * @param {number} width 0 to 1
 * @param {number} [left] 0 to 1
 * @returns {HTMLElement}
 */
export function bar(kind, width, left) {
  const made = h('span', { class: kind });
  made.style.width = percent(width);
  if (left !== undefined) made.style.left = percent(left);
  return made;
}

/**
 * @param {number} share
 * @returns {string}
 */
export function percent(share) {
  return `${(100 * Math.min(1, Math.max(0, share))).toFixed(3)}%`;
}

/**
 * Tell who cannot see it what has changed.
 * @param {string} words
 */
export function announce(words) {
  by('live').textContent = words;
}

/**
 * Copy text; false where the browser does not let us.
 * @param {string} text
 * @returns {Promise<boolean>}
 */
export async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // not a secure context, or refused
  }
}
