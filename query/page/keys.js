// @ts-check
/** Keyboard shortcuts outside of fields. They can be turned off. */

import { byId, fill, h } from './dom.js';
import { go, href } from './route.js';

const NAME = 'helix.keys';
const VIEWS = /** @type {Record<string, string>} */ ({
  h: 'home',
  a: 'ask',
  s: 'sessions',
  d: 'decisions',
  p: 'people',
  f: 'files',
  g: 'graph',
  c: 'compare',
  t: 'status',
});
const LIST = [
  ['/', 'go to the question'],
  ['Ctrl K', 'go to a view, a session, a person, a file'],
  ['Enter', 'ask; open the chosen item in its session'],
  ['j, k', 'next, previous item; arrows do the same in a list'],
  ['o', 'open the focused element'],
  ['w', 'why the item is at its place'],
  ['x', 'what can be done with the item'],
  ['m', 'the moment that the page shows'],
  ['g then a letter', 'h Home, a Answer, s Sessions, d Decisions, p People, f Files, g Graph, c Compare, t Status'],
  ['Esc', 'leave a field; close a part, a dialog; leave a session'],
  ['?', 'show these keys'],
];
const SOON = 1500; // milliseconds for the second of two keys

const box = /** @type {HTMLDialogElement} */ (byId('keys-dialog'));
const on = /** @type {HTMLInputElement} */ (byId('keys-on'));
let prefixTime = -Infinity; // of the last g
let moves = 0;

/** Start to listen for keys. */
export function listen() {
  fill(
    byId('keys-list'),
    ...LIST.map(([key, does]) =>
      h('tr', {}, h('th', { scope: 'row' }, ...key.split(', ').flatMap(makeCaps)), h('td', {}, does)),
    ),
  );
  try {
    on.checked = localStorage.getItem(NAME) !== 'off';
    on.addEventListener('change', () => localStorage.setItem(NAME, on.checked ? 'on' : 'off'));
  } catch {
    // This browser stores nothing, so the choice lasts until the page is left.
  }
  byId('help').addEventListener('click', showKeys);
  byId('palette-open').addEventListener('click', showPalette);
  document.addEventListener('keydown', handleKey);
  window.addEventListener('hashchange', (event) => {
    if (event.isTrusted) moves += 1; // not an address that was changed in place
  });
}

function showKeys() {
  box.showModal();
  box.scrollTop = 0; // the button that has the focus is at its end
}

/** @param {string} keys */
function makeCaps(keys) {
  return keys === 'g then a letter' ? [h('kbd', {}, 'g'), ' then a letter'] : keys.split(' ').map((key) => h('kbd', {}, key));
}

async function showPalette() {
  const { openPalette } = await import('./palette.js');
  await openPalette();
}

/** @param {KeyboardEvent} event */
function handleKey(event) {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k' && !document.querySelector('dialog[open]')) {
    event.preventDefault();
    return void showPalette();
  }
  if (
    event.defaultPrevented ||
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    document.querySelector('dialog[open]')
  )
    return;
  const done = event.key === 'Escape' ? close() : isInField() ? leaveQuestion(event.key) : on.checked ? act(event.key) : false;
  if (done) event.preventDefault();
}

function isInField() {
  const at = document.activeElement;
  return (
    at instanceof HTMLTextAreaElement ||
    at instanceof HTMLSelectElement ||
    (at instanceof HTMLInputElement && at.type !== 'checkbox')
  );
}

/**
 * Move from the question down to the items.
 * @param {string} key
 */
function leaveQuestion(key) {
  const at = document.activeElement;
  return key === 'ArrowDown' && at instanceof HTMLInputElement && at.id === 'q' && move(1);
}

/**
 * Do a key's action.
 * @param {string} key
 * @returns {boolean} whether the key has one
 */
function act(key) {
  const second = performance.now() - prefixTime < SOON;
  prefixTime = -Infinity;
  if (second && key in VIEWS) return openView(VIEWS[key]);
  const inList = document.activeElement?.hasAttribute('data-stop');
  switch (key) {
    case 'g':
      prefixTime = performance.now();
      return true;
    case '/':
      return focusQuestion();
    case '?':
      showKeys();
      return true;
    case 'j':
      return move(1);
    case 'k':
      return move(-1);
    case 'ArrowDown':
      return Boolean(inList) && move(1);
    case 'ArrowUp':
      return Boolean(inList) && move(-1);
    case 'o':
      if (inList) /** @type {HTMLElement} */ (document.activeElement).click();
      return Boolean(inList);
    case 'w':
      return press('[data-why]');
    case 'x':
      return press('.menu > summary');
    case 'm':
      byId('moment').click();
      return true;
    default:
      return false;
  }
}

/** @param {string} view */
function openView(view) {
  go(href(view));
  return true;
}

/** Focus the field for questions. */
function focusQuestion() {
  const field = /** @type {HTMLInputElement} */ (byId('q'));
  field.focus();
  field.select();
  return true;
}

/**
 * Press a control of the item that has the focus, else of the chosen one.
 * @param {string} selector
 */
function press(selector) {
  const item = document.activeElement?.closest('.result, .turn') ?? document.querySelector('.result.chosen');
  const control = /** @type {HTMLElement | null} */ (item?.querySelector(selector) ?? null);
  control?.click();
  return Boolean(control);
}

/**
 * Move the focus to the next or previous stop.
 * @param {1 | -1} step
 * @returns {boolean} whether there is one
 */
function move(step) {
  const stops = /** @type {HTMLElement[]} */ (
    [...document.querySelectorAll('[data-stop]')].filter((one) => one.checkVisibility())
  );
  const inside = document.activeElement?.closest('.result')?.querySelector('[data-stop]');
  const current = inside ?? document.activeElement;
  const at = stops.indexOf(/** @type {HTMLElement} */ (current));
  const to = stops[at < 0 ? (step > 0 ? 0 : stops.length - 1) : Math.min(stops.length - 1, Math.max(0, at + step))];
  to?.focus();
  to?.closest('.result, li, tr')?.scrollIntoView({ block: 'nearest' });
  return Boolean(to);
}

/** Leave a field, close an item, or leave a view. */
function close() {
  const at = /** @type {HTMLElement | null} */ (document.activeElement);
  if (isInField()) {
    at?.blur();
    return true;
  }
  const menu = /** @type {HTMLDetailsElement | null} */ (at?.closest('details.menu[open]') ?? document.querySelector('details.menu[open]'));
  if (menu) {
    menu.open = false;
    menu.querySelector('summary')?.focus();
    return true;
  }
  const item = at?.closest('.result');
  const why = /** @type {HTMLElement | null} */ (item?.querySelector('[data-why][aria-expanded=true]') ?? null);
  if (why) {
    why.click();
    /** @type {HTMLElement | null} */ (item?.querySelector('[data-stop]'))?.focus();
    return true;
  }
  const back = [...document.querySelectorAll('[data-close]')].find((one) => one.checkVisibility());
  if (!back) return false;
  if (moves) history.back();
  else /** @type {HTMLElement} */ (back).click(); // the view was opened by its address
  return true;
}
