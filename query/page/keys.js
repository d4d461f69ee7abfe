// @ts-check
/** Keyboard shortcuts outside of fields. They can be turned off. */

import { byId, fill, h } from './dom.js';
import { go, href } from './route.js';

const NAME = 'helix.keys';
const VIEWS = /** @type {Record<string, string>} */ ({
  a: 'ask',
  t: 'timeline',
  f: 'facts',
  c: 'compare',
  s: 'status',
});
const LIST = [
  ['/', 'go to the question'],
  ['Enter', 'ask; open or close an item'],
  ['j, k', 'next, previous item; arrows do the same in a list'],
  ['o', 'open the focused element'],
  ['g then a, t, f, c, s', 'go to Ask, Timeline, Facts, Compare, Status'],
  ['Esc', 'leave a field; close an item, a session, a dialog'],
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
  byId('help').addEventListener('click', () => box.showModal());
  document.addEventListener('keydown', handleKey);
  window.addEventListener('hashchange', () => {
    moves += 1;
  });
}

/** @param {string} keys */
function makeCaps(keys) {
  return keys.split(' ').map((key) => (key === 'then' ? 'then ' : h('kbd', {}, key)));
}

/** @param {KeyboardEvent} event */
function handleKey(event) {
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
  return key === 'ArrowDown' && at instanceof HTMLInputElement && at.type === 'search' && !at.list && move(1);
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
      box.showModal();
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
    default:
      return false;
  }
}

/** @param {string} view */
function openView(view) {
  go(href(view));
  return true;
}

/** Focus the question of this view, or the main one. */
function focusQuestion() {
  const here = document.documentElement.dataset.view;
  const field = [...document.querySelectorAll('input[type=search]')].find((one) => one.closest('section')?.id === here);
  if (!field) openView('ask');
  const to = /** @type {HTMLInputElement} */ (field ?? byId('q'));
  to.focus();
  to.select();
  return true;
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
  const current = document.activeElement?.closest('.card')?.querySelector('[data-stop]') ?? document.activeElement;
  const at = stops.indexOf(/** @type {HTMLElement} */ (current));
  const to = stops[at < 0 ? (step > 0 ? 0 : stops.length - 1) : Math.min(stops.length - 1, Math.max(0, at + step))];
  to?.focus();
  to?.closest('.card, li, tr')?.scrollIntoView({ block: 'nearest' });
  return Boolean(to);
}

/** Leave a field, close an item, or leave a view. */
function close() {
  const at = /** @type {HTMLElement | null} */ (document.activeElement);
  if (isInField()) {
    at?.blur();
    return true;
  }
  const head = /** @type {HTMLElement | null} */ (
    at?.closest('.card')?.querySelector('.head[aria-expanded=true]') ?? null
  );
  if (head) {
    head.click();
    head.focus();
    return true;
  }
  const back = [...document.querySelectorAll('[data-close]')].find((one) => one.checkVisibility());
  if (!back) return false;
  if (moves) history.back();
  else /** @type {HTMLElement} */ (back).click(); // the view was opened by its address
  return true;
}
