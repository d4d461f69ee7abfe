// @ts-check
/** What a caller may do with an item. Without the right for an action, nothing of it is shown. */

import { get, post } from './api.js';
import { copyText, h, toast } from './dom.js';
import { href } from './route.js';

/** @typedef {{key: boolean, principal: string | null, projects: string[] | null, scopes: string[]}} Rights */

/** @type {Promise<Rights> | null} */
let asked = null;
/** @type {Rights | null} */
let rights = null;

/** Return what the caller may do. */
export async function getRights() {
  asked ??= get('/v1/rights').then(
    (found) => {
      rights = found;
      return found;
    },
    (error) => {
      asked = null;
      throw error;
    },
  );
  return /** @type {Promise<Rights>} */ (asked);
}

/**
 * Return whether the caller has a right, as far as is known.
 * @param {string} scope
 */
export function may(scope) {
  return rights?.scopes.includes(scope) ?? false;
}

/**
 * Make the menu of an item; its entries are made when it opens.
 * @param {{id: string, session: string, text: string}} item
 */
export function makeMenu(item) {
  const inside = h('div', { class: 'menu-items' });
  const menu = h(
    'details',
    { class: 'menu', ontoggle: () => open(), onkeydown: (/** @type {KeyboardEvent} */ event) => moveInMenu(event, inside) },
    h('summary', { 'aria-label': 'Actions', title: 'Actions' }, '⋯'),
    inside,
  );
  function open() {
    if (!menu.open) return;
    if (!inside.hasChildNodes()) inside.append(...listEntries(item, menu));
    inside.classList.remove('up');
    inside.classList.toggle('up', inside.getBoundingClientRect().bottom > innerHeight);
    /** @type {HTMLElement | null} */ (inside.firstElementChild)?.focus();
  }
  return menu;
}

/**
 * Move the focus between the entries of a menu.
 * @param {KeyboardEvent} event
 * @param {HTMLElement} inside
 */
function moveInMenu(event, inside) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const entries = [...inside.children];
  if (!step || !entries.length) return;
  event.preventDefault();
  const at = entries.indexOf(/** @type {Element} */ (document.activeElement));
  /** @type {HTMLElement} */ (entries[(at + step + entries.length) % entries.length]).focus();
}

/**
 * @param {{id: string, session: string, text: string}} item
 * @param {HTMLDetailsElement} menu
 */
function listEntries(item, menu) {
  const entry = (/** @type {string} */ label, /** @type {() => unknown} */ act, kind = '') =>
    h('button', { type: 'button', class: kind, onclick: async () => {
      menu.open = false;
      menu.querySelector('summary')?.focus();
      try {
        await act();
      } catch (error) {
        toast(/** @type {Error} */ (error).message);
      }
    } }, label);
  const owner = async () => import('./owner.js');
  return [
    h('a', { href: href('graph', { item: item.id }) }, 'What it is connected to'),
    may('feedback') && entry('Helpful', () => sendFeedback(item, 'helpful')),
    may('feedback') && entry('Wrong', () => sendFeedback(item, 'wrong')),
    may('feedback') && entry('Mark as stale', () => sendFeedback(item, 'stale')),
    may('remember') && entry('Pin', async () => (await owner()).pin(item)),
    may('remember') && entry('Correct …', async () => (await owner()).correct(item)),
    entry('Copy id', async () => toast((await copyText(item.id)) ? `Copied ${item.id}` : `This browser refused to copy ${item.id}`)),
    may('forget') && entry('Forget …', async () => (await owner()).forgetItem(item), 'bad'),
    may('forget') && entry('Forget the session …', async () => (await owner()).forgetSession(item.session), 'bad'),
  ].filter((one) => one !== false);
}

/**
 * @param {{id: string}} item
 * @param {string} kind
 */
async function sendFeedback(item, kind) {
  await post('/v1/feedback', { item: item.id, kind });
  toast(`Noted: ${kind}`);
}
