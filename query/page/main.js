// @ts-check
/** The shown view, and the parts that all views share. */

import { getChoices } from './api.js';
import * as ask from './ask.js';
import * as compare from './compare.js';
import { byId } from './dom.js';
import * as facts from './facts.js';
import * as item from './item.js';
import { listen } from './keys.js';
import { getLastQuestion, parseRoute, rememberQuestion } from './route.js';
import * as status from './status.js';
import { plural } from './text.js';
import * as timeline from './timeline.js';

/** @type {Record<string, {show: (route: import('./route.js').Route) => unknown, getFocus?: () => HTMLElement | null}>} */
const VIEWS = { ask, item, timeline, facts, compare, status };
const THEMES = ['system', 'light', 'dark'];
const root = document.documentElement;

/**
 * Show the view of the address.
 * @param {boolean} hasMoved the address changed: a new view takes the focus
 */
function showRoute(hasMoved) {
  const where = parseRoute(location.hash);
  const name = where.view in VIEWS ? where.view : 'ask';
  const isNew = root.dataset.view !== name;
  root.dataset.view = name;
  const title = byId(`${name}-title`).textContent ?? '';
  const about = where.params.get('q') ?? where.params.get('entity') ?? where.params.get('session') ?? '';
  document.title = `${about ? `${about} · ` : ''}${title} · Helix`;
  if (name === 'ask') rememberQuestion(location.hash);
  for (const link of document.querySelectorAll('[data-to]')) {
    const to = /** @type {HTMLAnchorElement} */ (link);
    if (to.dataset.to === name) to.setAttribute('aria-current', 'page');
    else to.removeAttribute('aria-current');
    if (to.dataset.to === 'ask') to.href = name === 'ask' ? '#/ask' : getLastQuestion();
  }
  VIEWS[name].show({ ...where, entered: hasMoved && isNew });
  if (hasMoved && isNew) focusView(name);
}

/**
 * Focus the view's last element, or its title.
 * @param {string} name
 */
function focusView(name) {
  const last = VIEWS[name].getFocus?.();
  if (last) return last.focus();
  byId(`${name}-title`).focus({ preventScroll: true });
  scrollTo(0, 0);
}

/** Set up the theme: the system's unless the user chose one. */
function setUpTheme() {
  const button = byId('theme');
  const label = () => {
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
      // This browser stores nothing, so the theme lasts until the page is left.
    }
    label();
  });
  label();
}

/** Show the served generation in the head of the page. */
async function showServing() {
  try {
    const choices = await getChoices();
    byId('serving').textContent = `generation ${choices.snapshot} · ${plural(choices.items, 'item')}`;
  } catch {
    // The view shows the error.
  }
}

byId('skip').addEventListener('click', (event) => {
  event.preventDefault(); // the hash names the view
  byId('main').focus();
});
window.addEventListener('hashchange', () => showRoute(true));
window.addEventListener('generation', showServing);
setUpTheme();
listen();
showRoute(false);
showServing();
