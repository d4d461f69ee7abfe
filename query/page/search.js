// @ts-check
/** The field for questions, on every view: an answer appears while its question is typed. */

import { byId } from './dom.js';
import { go, href, parseRoute, replace } from './route.js';

const form = /** @type {HTMLFormElement} */ (byId('ask-form'));
const field = /** @type {HTMLInputElement} */ (byId('q'));

/** Start to listen. */
export function listenToSearch() {
  field.addEventListener('input', () => follow(false));
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    follow(true);
  });
}

/**
 * Show the answer to what is in the field. The first letter opens the view; later ones change its address in place.
 * @param {boolean} isWhole the question was sent, not only typed
 */
function follow(isWhole) {
  const route = parseRoute(location.hash);
  const q = field.value.trim();
  if (route.view !== 'ask') {
    if (q) go(href('ask', { q }));
    return;
  }
  const hash = href('ask', { ...Object.fromEntries(route.params), q, ignored: keepIgnored(q, route.params) });
  if (isWhole) go(hash);
  else replace(hash);
}

/**
 * Keep the ignored words that the question still has.
 * @param {string} q
 * @param {URLSearchParams} params
 */
function keepIgnored(q, params) {
  const words = (params.get('ignored') ?? '').split('|');
  return words.filter((one) => one && q.toLowerCase().includes(one.toLowerCase())).join('|');
}

/**
 * Show the question of the address, unless the user is typing another one.
 * @param {string} q
 */
export function showQuestion(q) {
  if (document.activeElement === field && field.value.trim() === q) return;
  field.value = q;
}
