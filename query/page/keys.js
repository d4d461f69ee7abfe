// @ts-check
/** What single keys do, outside of fields. They can be turned off. */

import { by, fill, h } from './dom.js';
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
  ['/', 'to the question'],
  ['Enter', 'asks; opens and closes an item'],
  ['j, k', 'to the next, the previous item; arrows do the same in a list'],
  ['o', 'opens what the focus is on'],
  ['g then a, t, f, c, s', 'to Ask, Timeline, Facts, Compare, Status'],
  ['Esc', 'leaves a field; closes an item, a session, this'],
  ['?', 'these keys'],
];
const SOON = 1500; // milliseconds in which the second of two keys has to come

const box = /** @type {HTMLDialogElement} */ (by('keys-dialog'));
const on = /** @type {HTMLInputElement} */ (by('keys-on'));
let went = -Infinity;
let moves = 0;

/** Listen. */
export function listen() {
  fill(
    by('keys-list'),
    ...LIST.map(([key, does]) =>
      h('tr', {}, h('th', { scope: 'row' }, ...key.split(', ').flatMap(caps)), h('td', {}, does)),
    ),
  );
  try {
    on.checked = localStorage.getItem(NAME) !== 'off';
    on.addEventListener('change', () => localStorage.setItem(NAME, on.checked ? 'on' : 'off'));
  } catch {
    // Storage is off in this browser: it holds until the page is left.
  }
  by('help').addEventListener('click', () => box.showModal());
  document.addEventListener('keydown', pressed);
  window.addEventListener('hashchange', () => {
    moves += 1;
  });
}

/** @param {string} keys */
function caps(keys) {
  return keys.split(' ').map((key) => (key === 'then' ? 'then ' : h('kbd', {}, key)));
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (
    event.defaultPrevented ||
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    document.querySelector('dialog[open]')
  )
    return;
  const done = event.key === 'Escape' ? close() : inField() ? down(event.key) : on.checked ? act(event.key) : false;
  if (done) event.preventDefault();
}

function inField() {
  const at = document.activeElement;
  return (
    at instanceof HTMLTextAreaElement ||
    at instanceof HTMLSelectElement ||
    (at instanceof HTMLInputElement && at.type !== 'checkbox')
  );
}

/**
 * From the question down to what was found.
 * @param {string} key
 */
function down(key) {
  const at = document.activeElement;
  return key === 'ArrowDown' && at instanceof HTMLInputElement && at.type === 'search' && !at.list && move(1);
}

/**
 * @param {string} key
 * @returns {boolean} whether that key means something
 */
function act(key) {
  const second = performance.now() - went < SOON;
  went = -Infinity;
  if (second && key in VIEWS) return open(VIEWS[key]);
  const inList = document.activeElement?.hasAttribute('data-stop');
  switch (key) {
    case 'g':
      went = performance.now();
      return true;
    case '/':
      return question();
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
function open(view) {
  go(href(view));
  return true;
}

/** The question of this view, or else the one of all. */
function question() {
  const here = document.documentElement.dataset.view;
  const field = [...document.querySelectorAll('input[type=search]')].find((one) => one.closest('section')?.id === here);
  if (!field) open('ask');
  const to = /** @type {HTMLInputElement} */ (field ?? by('q'));
  to.focus();
  to.select();
  return true;
}

/**
 * @param {1 | -1} step
 * @returns {boolean} whether there is anything to move to
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

/** Leave a field, close an item, go back from what was opened. */
function close() {
  const at = /** @type {HTMLElement | null} */ (document.activeElement);
  if (inField()) {
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
  else /** @type {HTMLElement} */ (back).click(); // it was opened by its address
  return true;
}
