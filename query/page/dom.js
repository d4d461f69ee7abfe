// @ts-check
/** DOM elements. Text stays text: anyone may have written a memory, so it is never parsed as HTML. */

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */
/** @typedef {Record<string, unknown>} Props */

/**
 * Make an element. `on…` adds a listener; null, undefined and false leave an attribute out.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, props = {}, ...children) {
  return finish(document.createElement(tag), props, children);
}

/**
 * Make an SVG element.
 * @template {keyof SVGElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[Tag]}
 */
export function s(tag, props = {}, ...children) {
  return finish(document.createElementNS('http://www.w3.org/2000/svg', tag), props, children);
}

/**
 * @template {Element} Made
 * @param {Made} made
 * @param {Props} props
 * @param {Child[]} children
 * @returns {Made}
 */
function finish(made, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) made.addEventListener(name.slice(2), /** @type {EventListener} */ (value));
    else made.setAttribute(name, value === true ? '' : String(value));
  }
  made.append(...toNodes(children));
  return made;
}

/**
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
function toNodes(children) {
  const present = children.flat(3).filter((one) => one !== null && one !== undefined && one !== false);
  return present.map((one) => (one instanceof Node ? one : String(one)));
}

/**
 * Put a space between every two children; screen readers would join adjacent ones into one word.
 * @param {...Child} children
 * @returns {Child[]}
 */
export function withSpaces(...children) {
  return toNodes(children).flatMap((one, i) => (i ? [' ', one] : [one]));
}

/**
 * Replace the content of an element.
 * @param {Element} into
 * @param {...Child} children
 */
export function fill(into, ...children) {
  into.replaceChildren(...toNodes(children));
}

/**
 * Return the element with an id.
 * @param {string} id
 * @returns {HTMLElement}
 */
export function byId(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`no element #${id}`);
  return element;
}

/**
 * Make a bar that fills a share of its track. The width is set byId script: the page's policy forbids style attributes.
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

/** Wait for the next frame: what was added is rendered, and not painted yet. */
export function nextFrame() {
  return new Promise((done) => requestAnimationFrame(done));
}

/**
 * Announce a change to screen readers.
 * @param {string} words
 */
export function announce(words) {
  byId('live').textContent = words;
}

/**
 * Copy text; return false if the browser refuses.
 * @param {string} text
 * @returns {Promise<boolean>}
 */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false; // an insecure context, or refused
  }
}

/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/**
 * Show a short message for some seconds, and announce it.
 * @param {string} words
 */
export function toast(words) {
  const line = byId('toast');
  line.textContent = words;
  line.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(() => {
    line.hidden = true;
  }, 6000);
}
