// @ts-check
/** Elements that several views share: types, notices, pages, bars of scores. */

import { bar, fill, h } from './dom.js';
import { cut, day, formatTurns, score } from './text.js';
import { href } from './route.js';

/** @typedef {import('./dom.js').Child} Child */

/** The parts of a score, in the order of the profile's weights; a later step may add or subtract. */
export const SHARES = ['sim', 'recency', 'salience', 'confidence', 'graph', 'superseded', 'reading', 'rerank'];

/**
 * Show an item's type.
 * @param {string} type
 */
export function badge(type) {
  return h('span', { class: `type type-${type}` }, type);
}

/**
 * Make a panel with a title.
 * @param {string} title
 * @param {string} id
 * @param {...Child} children
 */
export function panel(title, id, ...children) {
  return h('section', { class: 'panel', 'aria-labelledby': id }, h('h2', { id }, title), ...children);
}

/**
 * Make a table of names and values.
 * @param {[string, Child][]} rows
 */
export function pairs(rows) {
  return h(
    'dl',
    { class: 'pairs' },
    ...rows.map(([name, value]) => h('div', {}, h('dt', {}, name), h('dd', {}, value))),
  );
}

/**
 * Make a notice above everything else.
 * @param {'good' | 'warn' | 'bad'} kind
 * @param {...Child} children
 */
export function notice(kind, ...children) {
  return h('div', { class: `notice ${kind}`, role: kind === 'bad' ? 'alert' : null }, ...children);
}

/**
 * Show an error, in the server's words.
 * @param {unknown} error
 */
export function failure(error) {
  const status = /** @type {any} */ (error).status;
  const words = error instanceof Error ? error.message : String(error);
  return notice('bad', h('strong', {}, status ? `${status}: ` : ''), words);
}

/**
 * Link to an item's session and turns.
 * @param {{session: string, turns: string[]}} item
 */
export function origin(item) {
  const whole = `${item.session}#${item.turns.join(',')}`;
  const label = `${cut(item.session, 20)}#${formatTurns(item.turns)}`;
  return h('a', { class: 'mono origin', href: href('timeline', { session: item.session }), title: whole }, label);
}

/**
 * Show what replaced an item; nothing for a current one.
 * @param {import('./api.js').Replacement | null} later
 */
export function showReplacement(later) {
  if (!later) return null;
  const link = h('a', { class: 'mono', href: href('item', {}, later.id) }, later.id);
  const when = later.time ? ` ${day(later.time)}` : '';
  return h('p', { class: 'replaced dim small' }, `Replaced${when} by `, link, `: ${later.text}`);
}

/**
 * Draw the shares of a score in one bar, scaled to the best score. A subtracted part is hatched at its end.
 * @param {Record<string, number>} shares
 * @param {number} best
 */
export function shareBar(shares, best) {
  const given = SHARES.filter((name) => shares[name]);
  const off = given.reduce((sum, name) => sum + Math.max(0, -shares[name]), 0);
  const plus = given.filter((name) => shares[name] > 0);
  const whole = plus.reduce((sum, name) => sum + shares[name], 0);
  const text = given.map((name) => `${name} ${score(shares[name])}`).join(', ');
  return h(
    'div',
    { class: 'shares', role: 'img', 'aria-label': `shares of the score: ${text || 'none'}` },
    ...plus.map((name) => bar(`share sig-${name}`, shares[name] / best)),
    off ? bar('taken', Math.min(off, whole) / best, Math.max(0, whole - off) / best) : null,
  );
}

/**
 * Explain the colours.
 * @param {string[]} names
 * @param {boolean} subtracted whether a score has a subtracted part
 */
export function legend(names, subtracted) {
  const entry = (/** @type {string} */ name, kind = `sig-${name}`) =>
    h('li', {}, h('span', { class: `swatch ${kind}` }), name);
  return h(
    'ul',
    { class: 'legend', 'aria-label': 'Parts of a score' },
    ...names.map((name) => entry(name)),
    subtracted && entry('subtracted', 'minus'),
  );
}

/**
 * Draw a value between 0 and the largest as a bar.
 * @param {number} share
 * @param {string} [kind]
 */
export function meter(share, kind = '') {
  return h('span', { class: 'meter', 'aria-hidden': 'true' }, bar(`level ${kind}`, share));
}

/**
 * Show a busy state while `work` makes the content, then the content or the error. An outdated call shows nothing.
 * @param {HTMLElement} body
 * @param {() => boolean} isCurrent
 * @param {() => Promise<Child[]>} work
 */
export async function load(body, isCurrent, work) {
  body.setAttribute('aria-busy', 'true');
  try {
    const content = await work();
    if (isCurrent()) fill(body, ...content);
  } catch (error) {
    if (isCurrent()) fill(body, failure(error));
  } finally {
    if (isCurrent()) body.setAttribute('aria-busy', 'false');
  }
}

/**
 * Link to the pages before and after the shown one.
 * @param {{offset: number, size: number, end: number, total: number}} page
 * @param {[string, string]} labels
 * @param {(offset: number | '') => string} toHref
 * @param {Child} [text]
 */
export function pager({ offset, size, end, total }, labels, toHref, text = null) {
  const link = (/** @type {string} */ label, /** @type {number} */ to) =>
    h('a', { class: 'button', href: toHref(to || '') }, label);
  if (!text && !offset && end >= total) return null;
  return h(
    'p',
    { class: 'pages' },
    text,
    offset ? link(labels[0], Math.max(0, offset - size)) : null,
    end < total ? link(labels[1], end) : null,
  );
}
