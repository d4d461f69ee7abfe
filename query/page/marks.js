// @ts-check
/** Small things that several views show: a type, who spoke and when, shares of a score. */

import { bar, h } from './dom.js';
import { cut, nameOf, score } from './text.js';
import { href } from './route.js';

/** @typedef {import('./dom.js').Child} Child */

/** What a score is the sum of, in the order of the profile's weights; a later step may add or take. */
export const SHARES = ['sim', 'recency', 'salience', 'confidence', 'graph', 'rerank', 'superseded'];

/** @param {string} type */
export function badge(type) {
  return h('span', { class: `type type-${type}` }, type);
}

/**
 * What stands in a panel.
 * @param {string} title
 * @param {string} id
 * @param {...Child} children
 */
export function panel(title, id, ...children) {
  return h('section', { class: 'panel', 'aria-labelledby': id }, h('h2', { id }, title), ...children);
}

/**
 * A table of a name and a value a row.
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
 * What is to be told before everything else.
 * @param {'good' | 'warn' | 'bad'} kind
 * @param {...Child} children
 */
export function notice(kind, ...children) {
  return h('div', { class: `notice ${kind}`, role: kind === 'bad' ? 'alert' : null }, ...children);
}

/**
 * What went wrong, in the server's words.
 * @param {unknown} error
 */
export function failure(error) {
  const status = /** @type {any} */ (error).status;
  const words = error instanceof Error ? error.message : String(error);
  return notice('bad', h('strong', {}, status ? `${status}: ` : ''), words);
}

/**
 * The session and the turns an item is from, as a link.
 * @param {{session: string, turns: string[]}} item
 */
export function origin(item) {
  const whole = `${item.session}#${item.turns.join(',')}`;
  const label = `${cut(item.session, 20)}#${nameOf(item.turns)}`;
  return h('a', { class: 'mono origin', href: href('timeline', { session: item.session }), title: whole }, label);
}

/**
 * The shares of a score, side by side: as long as the score is of the best one. What was taken off hangs behind.
 * @param {Record<string, number>} shares
 * @param {number} best
 */
export function shareBar(shares, best) {
  const given = SHARES.filter((name) => shares[name]);
  const off = given.reduce((sum, name) => sum + Math.max(0, -shares[name]), 0);
  const plus = given.filter((name) => shares[name] > 0);
  const whole = plus.reduce((sum, name) => sum + shares[name], 0);
  const said = given.map((name) => `${name} ${score(shares[name])}`).join(', ');
  return h(
    'div',
    { class: 'shares', role: 'img', 'aria-label': `shares of the score: ${said || 'none'}` },
    ...plus.map((name) => bar(`share sig-${name}`, shares[name] / best)),
    off ? bar('taken', Math.min(off, whole) / best, Math.max(0, whole - off) / best) : null,
  );
}

/**
 * Colours by name.
 * @param {string[]} names
 * @param {boolean} taken something was taken off
 */
export function legend(names, taken) {
  const entry = (/** @type {string} */ name, kind = `sig-${name}`) =>
    h('li', {}, h('span', { class: `swatch ${kind}` }), name);
  return h(
    'ul',
    { class: 'legend', 'aria-label': 'What a score is the sum of' },
    ...names.map((name) => entry(name)),
    taken && entry('taken off', 'minus'),
  );
}

/**
 * A value between 0 and the largest, as a bar.
 * @param {number} share
 * @param {string} [kind]
 */
export function meter(share, kind = '') {
  return h('span', { class: 'meter', 'aria-hidden': 'true' }, bar(`level ${kind}`, share));
}
