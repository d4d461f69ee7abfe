// @ts-check
/** Why an item is where it is: its ranks, its signals and what they add; and what can be done with it. */

import { post } from './api.js';
import { announce, bar, copied, h } from './dom.js';
import { meter, pairs, SHARES } from './marks.js';
import { href } from './route.js';
import { signals } from './signals.js';
import { count, score } from './text.js';

/**
 * @typedef {import('./api.js').Candidate} Candidate
 * @typedef {import('./api.js').Item} Item
 * @typedef {import('./items.js').Among} Among
 */

/**
 * Everything that is known of an item, and what can be done with it.
 * @param {Item} item
 * @param {Candidate | undefined} candidate
 * @param {Among} among
 */
export function why(item, candidate, among) {
  const said = item.why;
  return [
    h(
      'div',
      { class: 'columns' },
      h(
        'div',
        {},
        candidate && ranks(candidate, among, said.vouched),
        made('Salience', said.salience_parts ?? {}),
        said.fact && fact(said.fact),
      ),
      candidate && values(candidate, among),
      candidate && made('Similarity', candidate.parts),
      said.queries?.length &&
        h(
          'div',
          {},
          h('h3', {}, 'Questions a model wrote for it'),
          h('ul', {}, ...said.queries.map((/** @type {string} */ one) => h('li', {}, one))),
        ),
    ),
    actions(item),
  ];
}

/**
 * @param {Candidate} candidate
 * @param {Among} among
 * @param {string | null} vouched
 */
function ranks(candidate, among, vouched) {
  const legs = signals(candidate).filter(([name]) => among.legs.has(name));
  /** @type {[string, string][]} */
  const rows = legs.map(([name, value]) => [name, value === null ? 'not found' : `#${value}`]);
  rows.push(['by score', `#${candidate.rank} of ${count(among.of)}`]);
  if (vouched) rows.push(['vouched for by', vouched]);
  return h('div', {}, h('h3', {}, 'Ranks'), pairs(rows));
}

/**
 * @param {Candidate} candidate
 * @param {Among} among
 */
function values(candidate, among) {
  const added = Object.keys(candidate.shares).length > 0;
  const rows = signals(candidate).filter(([name, value]) => !among.legs.has(name) && value !== null);
  const later = SHARES.filter((name) => candidate.shares[name] && !(name in candidate));
  const swatch = (/** @type {string} */ name) =>
    h('span', { class: `swatch ${candidate.shares[name] < 0 ? 'minus' : `sig-${name}`}` });
  const row = (/** @type {string} */ name, /** @type {number | null} */ value) =>
    h(
      'tr',
      {},
      h('th', { scope: 'row' }, added && SHARES.includes(name) && swatch(name), name),
      h('td', { class: 'num' }, value === null ? '' : score(value)),
      h(
        'td',
        { class: 'wide' },
        value !== null && among.most.get(name) ? meter(Math.abs(value) / (among.most.get(name) ?? 1)) : null,
      ),
      added && h('td', { class: 'num' }, name in candidate.shares ? signed(candidate.shares[name]) : ''),
    );
  return h(
    'div',
    {},
    h('h3', {}, 'Signals'),
    h(
      'table',
      { class: 'values' },
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', { scope: 'col' }, 'signal'),
          h('th', { scope: 'col', class: 'num' }, 'value'),
          h('td', {}),
          added && h('th', { scope: 'col', class: 'num' }, 'adds'),
        ),
      ),
      h('tbody', {}, ...rows.map(([name, value]) => row(name, value)), ...later.map((name) => row(name, null))),
      added &&
        h(
          'tfoot',
          {},
          h(
            'tr',
            {},
            h('th', { scope: 'row' }, 'score'),
            h('td', {}),
            h('td', {}),
            h('td', { class: 'num' }, score(candidate.score)),
          ),
        ),
    ),
  );
}

/** @param {number} value */
function signed(value) {
  return `${value < 0 ? '−' : '+'}${score(Math.abs(value))}`;
}

/**
 * What a value is the sum of, the largest first: stacked, and by name.
 * @param {string} title
 * @param {Record<string, number>} parts
 */
function made(title, parts) {
  const sorted = Object.entries(parts)
    .filter(([, value]) => value)
    .sort(([, one], [, other]) => Math.abs(other) - Math.abs(one));
  if (!sorted.length) return null;
  const whole = sorted.reduce((sum, [, value]) => sum + Math.abs(value), 0);
  const colour = (/** @type {number} */ i) => `part-${i % 8}`;
  return h(
    'div',
    {},
    h('h3', {}, `${title} is made of`),
    h(
      'div',
      { class: 'shares', 'aria-hidden': 'true' },
      ...sorted.map(([, value], i) => bar(`share ${value < 0 ? 'minus' : colour(i)}`, Math.abs(value) / whole)),
    ),
    pairs(
      sorted.map(([name, value], i) => [
        name,
        h('span', { class: 'part' }, h('span', { class: `swatch ${value < 0 ? 'minus' : colour(i)}` }), signed(value)),
      ]),
    ),
  );
}

/** @param {Record<string, any> | string} one a sentence, or its parts with their validity */
function fact(one) {
  if (typeof one === 'string') return h('div', {}, h('h3', {}, 'The fact it states'), h('p', {}, one));
  const until = one.until ? ` until ${one.until}` : '';
  return h(
    'div',
    {},
    h('h3', {}, 'The fact it states'),
    h('p', {}, `${one.subject} ${String(one.relation).replaceAll('_', ' ')} ${one.object} ${one.qualifier}`.trim()),
    h('p', { class: 'dim' }, `since ${one.since}${until}${one.over ? ', no longer' : ''}`),
  );
}

/**
 * Where one can go from an item, and what one can say of it.
 * @param {{id: string, session: string}} item
 * @param {boolean} [opened] it is open already
 */
export function actions(item, opened = false) {
  const done = h('span', { class: 'dim', role: 'status' });
  const tell = (/** @type {string} */ kind) => async () => {
    try {
      await post('/v1/feedback', { item: item.id, kind });
      done.textContent = `noted: ${kind}`;
    } catch (error) {
      done.textContent = /** @type {Error} */ (error).message;
    }
  };
  const copy = async () => {
    done.textContent = (await copied(item.id))
      ? `copied ${item.id}`
      : `this browser lets nothing be copied: ${item.id}`;
    announce(done.textContent);
  };
  return h(
    'p',
    { class: 'actions' },
    !opened && h('a', { class: 'button', href: href('item', {}, item.id) }, 'Open'),
    !opened && h('a', { class: 'button', href: href('item', { show: 'graph' }, item.id) }, 'Neighbourhood'),
    h('a', { class: 'button', href: href('timeline', { session: item.session }) }, 'Session'),
    h('button', { type: 'button', onclick: tell('helpful') }, 'Helpful'),
    h('button', { type: 'button', onclick: tell('wrong') }, 'Wrong'),
    h('button', { type: 'button', onclick: copy }, 'Copy id'),
    done,
  );
}
