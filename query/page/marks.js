// @ts-check
/** Elements that several views share: types, notices, pages, bars of scores. */

import { bar, fill, h } from './dom.js';
import { toItem } from './route.js';
import { day, formatAge, formatDay, formatTime, score, share, shortenSession, wordRelevance } from './text.js';

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
 * Show a time as its distance from now, with the exact time as its title.
 * @param {string | null | undefined} iso
 * @param {string | null} [quality]
 */
export function when(iso, quality) {
  if (!iso) return h('span', { class: 'when' }, 'undated');
  const exact = `${formatTime(iso, quality)} UTC`;
  return h('time', { class: 'when', datetime: iso, title: exact }, quality === 'file' ? `by ${day(iso)}` : formatAge(iso));
}

/** @typedef {{voice?: string, speaker?: string | null, role?: string}} Voiced */

/**
 * Return the name of who said an item: a speaker, the user, an agent or a tool; empty for a document.
 * @param {Voiced} item
 */
export function nameVoice(item) {
  const role = item.role === 'user' ? 'you' : item.role === 'document' ? '' : item.role;
  return item.voice ?? item.speaker ?? role ?? '';
}

/**
 * Return the name of a role or a speaker.
 * @param {string} by
 */
export function nameBy(by) {
  return by === 'user' ? 'you' : by === 'assistant' ? 'the agent' : by;
}

/**
 * Show who said an item, with a dot in the colour of the role.
 * @param {Voiced} item
 */
export function voice(item) {
  const name = nameVoice(item);
  if (!name) return null;
  return h('span', { class: item.speaker ? `who hue-${hash(name) % 6}` : `who role-${item.role ?? 'user'}` }, name);
}

/** @param {string} text */
function hash(text) {
  let sum = 0;
  for (const letter of text) sum = (sum * 31 + (letter.codePointAt(0) ?? 0)) % 65_521;
  return sum;
}

/**
 * Return the title of an item's session; without one its project and day.
 * @param {{title?: string | null, project: string, time: string | null, session: string}} item
 */
export function nameSession(item) {
  if (item.title) return item.title;
  return item.time ? `${item.project}, ${formatDay(item.time)}` : `${item.project}, ${shortenSession(item.session)}`;
}

/**
 * Show a relevance as words and a bar.
 * @param {number} value 0 to 1
 */
export function relevance(value) {
  const words = wordRelevance(value);
  return h(
    'span',
    { class: `relevance rel-${words.replace(' ', '-')}`, title: `relevance ${share(value)}` },
    h('span', { class: 'sr' }, 'relevance: '),
    meter(value),
    h('span', { class: words === 'unlikely' ? 'sr' : null }, ` ${words}`),
  );
}

/**
 * Show what replaced an item; nothing for a current one.
 * @param {import('./api.js').Replacement | null | undefined} later
 */
export function showReplacement(later) {
  if (!later) return null;
  return h(
    'p',
    { class: 'replaced' },
    h('a', { href: toItem(later) }, 'Replaced'),
    later.time ? [' ', when(later.time)] : null,
    ' by: ',
    h('q', {}, later.text),
  );
}

/**
 * Show a state without content: a title and the next step.
 * @param {string} title
 * @param {...Child} more
 */
export function empty(title, ...more) {
  return h('div', { class: 'empty' }, h('p', { class: 'empty-title' }, title), more.length ? h('p', {}, ...more) : null);
}

/** Show grey lines where content is on its way. */
export function skeleton(lines = 6) {
  const line = () => h('span', { class: 'bone' });
  return h('div', { class: 'skeleton', 'aria-hidden': 'true' }, ...Array.from({ length: lines }, line));
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
  if (!body.hasChildNodes()) fill(body, skeleton());
  try {
    const content = await work();
    if (isCurrent()) fill(body, ...content);
  } catch (error) {
    const isOffline = /** @type {any} */ (error).status === 0; // a line above says so, and what is there stays
    if (!isCurrent() || (isOffline && body.querySelector(':not(.skeleton, .bone)'))) return;
    fill(body, isOffline ? empty('Nothing was loaded yet', 'It appears here as soon as the server answers. Check that ', h('code', {}, 'helix serve'), ' runs.') : failure(error));
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

/** Explain a store without items. */
export function explainEmptyStore() {
  return empty(
    'Nothing is stored yet',
    'Give it the sessions of your agents: ',
    h('code', { class: 'command' }, 'helix init'),
    ' or any transcript: ',
    h('code', { class: 'command' }, 'helix ingest PATH'),
    ' What comes in appears here without a restart.',
  );
}
