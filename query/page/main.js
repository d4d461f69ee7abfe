// @ts-check
/** The shown view, and the parts that all views share. Each view's code loads when it is first shown. */

import { getRights } from './actions.js';
import { getChoices, reportUnreachable } from './api.js';
import { byId, fill, h } from './dom.js';
import { listen } from './keys.js';
import { failure } from './marks.js';
import { listenToMoment, showMoment } from './moment.js';
import { getLastQuestion, href, parseRoute, rememberQuestion } from './route.js';
import { listenToSearch, showQuestion } from './search.js';
import { plural } from './text.js';

/** @typedef {{show: (route: import('./route.js').Route) => unknown, getFocus?: () => HTMLElement | null}} View */

/** @type {Record<string, () => Promise<View>>} */
const VIEWS = {
  home: () => import('./home.js'),
  ask: () => import('./ask.js'),
  session: () => import('./session.js'),
  sessions: () => import('./sessions.js'),
  decisions: () => import('./decisions.js'),
  subject: () => import('./subject.js'),
  people: () => import('./people.js'),
  files: () => import('./people.js'),
  graph: () => import('./map.js'),
  compare: () => import('./compare.js'),
  status: () => import('./status.js'),
};
const PARENTS = /** @type {Record<string, string>} */ ({ session: 'sessions', subject: 'decisions' });
const THEMES = ['system', 'light', 'dark'];
const RETRY = 3000; // milliseconds until a server that did not answer is asked again
const root = document.documentElement;
let turn = 0;
/** @type {Map<string, View>} */
const loaded = new Map();

/**
 * Show the view of the address.
 * @param {boolean} hasMoved the address changed: a new view takes the focus
 */
async function showRoute(hasMoved) {
  const now = ++turn;
  const where = parseRoute(location.hash);
  const name = Object.hasOwn(VIEWS, where.view) ? where.view : 'home';
  const isNew = root.dataset.view !== name;
  root.dataset.view = name;
  if (name !== 'ask') showQuestion('');
  if (name === 'ask') rememberQuestion(location.hash);
  const main = byId('main');
  main.setAttribute('aria-busy', 'true');
  const known = loaded.get(name);
  if (!known) showPlace(name, where.params);
  try {
    const view = known ?? (await VIEWS[name]().catch(explainLoading));
    loaded.set(name, view);
    if (now !== turn) return;
    const work = view.show({ ...where, view: name, entered: hasMoved && isNew }); // its request leaves first
    if (known) showPlace(name, where.params);
    if (hasMoved && isNew) focusView(name, view);
    await work;
  } catch (error) {
    const body = document.querySelector(`#${name}-body, #${name === 'ask' ? 'answer' : name}`);
    if (now === turn && body) fill(body, failure(error));
  } finally {
    if (now === turn) main.setAttribute('aria-busy', 'false');
  }
}

/**
 * Show in the title, the links and the head of the page where it is.
 * @param {string} name
 * @param {URLSearchParams} params
 */
function showPlace(name, params) {
  showTitle(name, params);
  markLinks(name);
  showMoment(params);
}

/**
 * Explain why a view's code does not load: the browser's words do not name the server.
 * @param {Error} error
 * @returns {never}
 */
function explainLoading(error) {
  if (error instanceof TypeError) reportUnreachable();
  throw error;
}

/**
 * @param {string} name
 * @param {URLSearchParams} params
 */
function showTitle(name, params) {
  const about = params.get('q') ?? params.get('name') ?? '';
  const title = byId(`${name}-title`).textContent ?? '';
  document.title = `${about ? `${about} · ` : ''}${title} · Helix`;
}

/** @param {string} name */
function markLinks(name) {
  document.querySelector('.brand')?.setAttribute('href', href('home'));
  for (const link of document.querySelectorAll('[data-to]')) {
    const to = /** @type {HTMLAnchorElement} */ (link);
    const view = String(to.dataset.to);
    if (view === (PARENTS[name] ?? name)) {
      to.setAttribute('aria-current', 'page');
      revealLink(to);
    } else to.removeAttribute('aria-current');
    to.href = view === 'ask' && name !== 'ask' ? getLastQuestion() : href(view);
  }
}

/**
 * Scroll the strip of views, which a narrow window has, to a link.
 * @param {HTMLElement} link
 */
function revealLink(link) {
  const strip = /** @type {HTMLElement} */ (link.closest('nav'));
  const [left, right] = [link.offsetLeft, link.offsetLeft + link.offsetWidth];
  if (left < strip.scrollLeft || right > strip.scrollLeft + strip.clientWidth) strip.scrollLeft = left - 40;
}

/**
 * Focus the view's last element, or its title; the field for questions keeps the focus.
 * @param {string} name
 * @param {View} view
 */
function focusView(name, view) {
  if (document.activeElement === byId('q')) return;
  const last = view.getFocus?.();
  if (last) return last.focus();
  byId(`${name}-title`).focus({ preventScroll: true });
  scrollTo(0, 0);
}

/** Set up the theme: the system's unless the user chose one. */
function setUpTheme() {
  const button = byId('theme');
  const label = () => {
    const text = `Theme: ${root.dataset.theme ?? 'system'}`;
    button.setAttribute('aria-label', text);
    button.title = text;
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

/** Show the served generation below the views. */
async function showServing() {
  try {
    const choices = await getChoices();
    fill(byId('serving'), plural(choices.items, 'item'), h('br'), `generation ${choices.snapshot}`);
  } catch {
    // The view shows the error.
  }
}

/** Say when the server does not answer, and ask again until it does. */
function watchServer() {
  const line = byId('offline');
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  const retry = async () => {
    clearTimeout(timer);
    const lives = await fetch('/healthz').then((response) => response.ok, () => false);
    if (lives) {
      line.hidden = true;
      void showRoute(false);
    } else timer = setTimeout(retry, RETRY);
  };
  window.addEventListener('reached', (event) => {
    const isReached = /** @type {CustomEvent<boolean>} */ (event).detail;
    if (isReached === line.hidden) return;
    line.hidden = isReached;
    if (isReached) return clearTimeout(timer);
    fill(line, 'The server does not answer. What you see stays; it is asked again every few seconds. ',
      h('button', { type: 'button', onclick: retry }, 'Try now'));
    timer = setTimeout(retry, RETRY);
  });
}

byId('skip').addEventListener('click', (event) => {
  event.preventDefault(); // the hash names the view
  byId('main').focus();
});
window.addEventListener('hashchange', () => showRoute(true));
window.addEventListener('generation', showServing);
setUpTheme();
listen();
listenToSearch();
listenToMoment();
watchServer();
getRights().catch(() => null); // a view that needs them says why they are missing
void showRoute(false);
void showServing();
