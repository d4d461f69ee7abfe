// @ts-check
/** Changes that an owner makes: pin, correct, forget with a preview and a receipt, keep a session out. */

import { post } from './api.js';
import { byId, fill, h, toast } from './dom.js';
import { failure, when } from './marks.js';
import { cut, plural } from './text.js';

/** @typedef {{id: string, session: string, text: string}} Item */

const box = /** @type {HTMLDialogElement} */ (byId('act-dialog'));

/**
 * Pin an item: it is at the top of every briefing of its project.
 * @param {Item} item
 */
export async function pin(item) {
  await post(`/v1/items/${encodeURIComponent(item.id)}/pin`, { by: 'user' });
  toast('Pinned. Briefings begin with it within seconds.');
}

/**
 * Open a dialog with a title, and close it with Escape or a button.
 * @param {string} title
 * @param {...import('./dom.js').Child} content
 */
function open(title, ...content) {
  fill(box, h('h2', { id: 'act-title', tabindex: '-1' }, title), ...content);
  if (!box.open) box.showModal();
  return box;
}

/** @param {string} [label] */
function makeClose(label = 'Cancel') {
  return h('button', { type: 'button', onclick: () => box.close() }, label);
}

/**
 * Replace an item by a better text.
 * @param {Item} item
 */
export function correct(item) {
  const field = h('textarea', { rows: '5', maxlength: '4000', required: true, 'aria-label': 'The correction' });
  const result = h('div', {});
  const form = h(
    'form',
    { onsubmit: async (/** @type {Event} */ event) => {
      event.preventDefault();
      try {
        await post(`/v1/items/${encodeURIComponent(item.id)}/correct`, { text: field.value, by: 'user' });
        box.close();
        toast('Corrected. The new text ranks above the old one within seconds.');
      } catch (error) {
        fill(result, failure(error));
      }
    } },
    h('blockquote', { class: 'quoted' }, cut(item.text, 400)),
    h('label', {}, 'What holds instead', field),
    result,
    h('p', { class: 'end' }, makeClose(), ' ', h('button', { class: 'primary' }, 'Replace it')),
  );
  open('Correct this item', form);
  field.focus();
}

/**
 * Forget one item, after a preview.
 * @param {Item} item
 */
export function forgetItem(item) {
  return preview('Forget this item?', { items: [item.id] });
}

/**
 * Forget a session, after a preview.
 * @param {string} session
 */
export function forgetSession(session) {
  return preview('Forget this session?', { session });
}

/**
 * Show what a deletion would remove, and carry it out when it is confirmed.
 * @param {string} title
 * @param {Record<string, unknown>} what
 */
async function preview(title, what) {
  const plan = await post('/v1/forget', what);
  const result = h('div', { role: 'status' });
  const more = plan.total - plan.items.length;
  const keep = what.session ? h('input', { type: 'checkbox', name: 'keep' }) : null;
  const forget = h('button', { type: 'button', class: 'danger', onclick: async () => {
    forget.disabled = true;
    fill(result, h('p', { class: 'dim' }, 'Forgetting: every file of the store is rewritten without it …'));
    try {
      // First, because a key sees nothing of the session afterwards.
      if (keep?.checked) await post('/v1/sessions/keep-out', { session: what.session, off: true });
      const done = await post('/v1/forget', { ...what, confirm: plan.confirm });
      window.dispatchEvent(new Event('changed'));
      showReceipt(done.receipt, Boolean(keep?.checked));
    } catch (error) {
      forget.disabled = false;
      fill(result, failure(error));
    }
  } }, `Forget ${plural(plan.total, 'item')}`);
  open(
    title,
    h('p', {}, `${plural(plan.total, 'item')} would be removed from every file of the store, for good.`),
    h('ul', { class: 'going' }, plan.items.map((/** @type {any} */ one) => h('li', {}, one.time ? [when(one.time), ' '] : null, cut(one.text, 140)))),
    more > 0 ? h('p', { class: 'dim' }, `and ${plural(more, 'more item')}`) : null,
    keep ? h('label', { class: 'check' }, keep, ' and keep what is said in this session from now on out of the store') : null,
    result,
    h('p', { class: 'end' }, makeClose(), ' ', forget),
  );
  box.querySelector('button')?.focus();
}

/**
 * @param {Record<string, any>} receipt
 * @param {boolean} isOut
 */
function showReceipt(receipt, isOut) {
  open(
    'Forgotten',
    h('p', {}, isOut ? 'It is gone, and the session stays out from now on.' : 'It is gone, and stays out when its log is read again.'),
    h('details', {}, h('summary', {}, 'The receipt'), h('pre', { tabindex: '0', role: 'region', 'aria-label': 'The receipt' }, JSON.stringify(receipt, null, 2))),
    h('p', { class: 'end' }, makeClose('Done')),
  );
  byId('act-title').focus();
  box.addEventListener('close', () => window.dispatchEvent(new HashChangeEvent('hashchange')), { once: true });
}

/**
 * Keep a session out of the store from now on, or let it in again.
 * @param {string} session
 * @param {boolean} off
 */
export async function keepOut(session, off) {
  const done = await post('/v1/sessions/keep-out', { session, off });
  toast(done.message);
  return Boolean(done.off);
}
