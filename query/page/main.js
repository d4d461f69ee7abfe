// @ts-check
/** Which view is shown, and what is the same in all of them. */

import { choices } from './api.js';
import * as ask from './ask.js';
import * as compare from './compare.js';
import { by } from './dom.js';
import * as facts from './facts.js';
import * as item from './item.js';
import { listen } from './keys.js';
import { asked, parse, remember } from './route.js';
import * as status from './status.js';
import { plural } from './text.js';
import * as timeline from './timeline.js';

/** @type {Record<string, {show: (route: import('./route.js').Route) => unknown, left?: () => HTMLElement | null}>} */
const VIEWS = { ask, item, timeline, facts, compare, status };
const THEMES = ['system', 'light', 'dark'];
const root = document.documentElement;

/**
 * Show what the address says.
 * @param {boolean} moved from another view: then the focus goes along
 */
function route(moved) {
  const where = parse(location.hash);
  const name = where.view in VIEWS ? where.view : 'ask';
  const other = root.dataset.view !== name;
  root.dataset.view = name;
  const title = by(`${name}-title`).textContent ?? '';
  const about = where.params.get('q') ?? where.params.get('entity') ?? where.params.get('session') ?? '';
  document.title = `${about ? `${about} · ` : ''}${title} · Helix`;
  if (name === 'ask') remember(location.hash);
  for (const link of document.querySelectorAll('[data-to]')) {
    const to = /** @type {HTMLAnchorElement} */ (link);
    if (to.dataset.to === name) to.setAttribute('aria-current', 'page');
    else to.removeAttribute('aria-current');
    if (to.dataset.to === 'ask') to.href = name === 'ask' ? '#/ask' : asked();
  }
  VIEWS[name].show({ ...where, entered: moved && other });
  if (moved && other) enter(name);
}

/**
 * The focus goes to where the view was left, or else to its title.
 * @param {string} name
 */
function enter(name) {
  const left = VIEWS[name].left?.();
  if (left) return left.focus();
  by(`${name}-title`).focus({ preventScroll: true });
  scrollTo(0, 0);
}

/** The theme: of the system unless chosen. */
function themes() {
  const button = by('theme');
  const told = () => {
    const now = root.dataset.theme ?? 'system';
    button.textContent = `Theme: ${now}`;
  };
  button.addEventListener('click', () => {
    const next = THEMES[(THEMES.indexOf(root.dataset.theme ?? 'system') + 1) % THEMES.length];
    if (next === 'system') delete root.dataset.theme;
    else root.dataset.theme = next;
    try {
      localStorage.setItem('helix.theme', next);
    } catch {
      // Storage is off in this browser: it holds until the page is left.
    }
    told();
  });
  told();
}

/** What is served, in the head of the page. */
async function serving() {
  try {
    const there = await choices();
    by('serving').textContent = `generation ${there.snapshot} · ${plural(there.items, 'item')}`;
  } catch {
    // The view says what is wrong.
  }
}

by('skip').addEventListener('click', (event) => {
  event.preventDefault(); // the hash says which view is shown
  by('main').focus();
});
window.addEventListener('hashchange', () => route(true));
window.addEventListener('generation', serving);
themes();
listen();
route(false);
serving();
