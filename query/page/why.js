// @ts-check
/** The explanation of an item's rank: its ranks, signals and shares. */

import { bar, h } from './dom.js';
import { legend, meter, pairs, SHARES, shareBar } from './marks.js';
import { findLargest, findLegs, listSignals } from './signals.js';
import { count, score } from './text.js';

/**
 * @typedef {import('./api.js').Candidate} Candidate
 * @typedef {import('./api.js').Item} Item
 * @typedef {{best: number, most: Map<string, number>, legs: Set<string>, total: number}} Scale
 */

/**
 * Explain an item.
 * @param {Item} item
 * @param {import('./api.js').Explained} answer
 */
export function explain(item, answer) {
  const { candidates, stages } = answer.trace;
  const best = Math.max(1e-9, ...answer.items.map((one) => one.score));
  const scale = { best, most: findLargest(candidates), legs: findLegs(stages), total: candidates.length };
  const candidate = findCandidate(item, candidates);
  const why = item.why;
  return [
    candidate && sayRanks(candidate, scale),
    candidate && drawScore(candidate, scale),
    h('details', {}, h('summary', {}, 'All numbers'), h(
      'div',
      { class: 'columns' },
      h(
        'div',
        {},
        candidate && listRanks(candidate, scale, why.vouched),
        showParts('Salience', why.salience_parts ?? {}),
        why.fact && showFact(why.fact, item.text),
      ),
      candidate && listValues(candidate, scale),
      candidate && showParts('Similarity', candidate.parts),
      why.queries?.length &&
        h(
          'div',
          {},
          h('h3', {}, 'Questions a model wrote for it'),
          h('ul', {}, ...why.queries.map((/** @type {string} */ one) => h('li', {}, one))),
        ),
    )),
  ];
}

/**
 * Find an item's candidate. Two facts of one item share its id, and a score moves a little with the clock.
 * @param {Item} item
 * @param {Candidate[]} candidates
 */
function findCandidate(item, candidates) {
  const away = (/** @type {Candidate} */ one) => Math.abs(one.score - item.score);
  return candidates.filter((one) => one.id === item.id).sort((one, other) => away(one) - away(other))[0];
}

const LEGS = /** @type {Record<string, string>} */ ({
  dense: 'by its meaning', bm25: 'by its words', doc2query: 'by questions written for it', facts: 'by a fact it states',
  sparse: 'by related words', titles: 'by its title',
});

/**
 * Say in a sentence how a candidate was found.
 * @param {Candidate} candidate
 * @param {Scale} scale
 */
function sayRanks(candidate, scale) {
  const found = listSignals(candidate).filter(([name, value]) => scale.legs.has(name) && value !== null);
  const parts = found.map(([name, value]) => `${LEGS[name] ?? `by ${name}`} (place ${value})`);
  const how = parts.length ? `Found ${parts.join(' and ')}` : 'Found through what it is connected to';
  return h('p', { class: 'said' }, `${how}; place ${candidate.rank} of ${count(scale.total)} by its score.`);
}

/**
 * Draw the parts of a score; for a recipe that does not add them, its signals in a row.
 * @param {Candidate} candidate
 * @param {Scale} scale
 */
function drawScore(candidate, scale) {
  const given = SHARES.filter((name) => candidate.shares[name]);
  if (given.length) return h('div', {}, shareBar(candidate.shares, scale.best), legend(given, given.some((name) => candidate.shares[name] < 0)));
  const fractions = listSignals(candidate).filter(([name]) => scale.most.get(name) && !scale.legs.has(name));
  return h('p', { class: 'legend signals' }, fractions.map(([name, value]) => [h('span', {}, `${name} `, meter(Math.abs(value) / (scale.most.get(name) ?? 1)), ` ${score(value)}`), ' ']));
}

/**
 * @param {Candidate} candidate
 * @param {Scale} scale
 * @param {string | null} vouched
 */
function listRanks(candidate, scale, vouched) {
  const legs = listSignals(candidate).filter(([name]) => scale.legs.has(name));
  /** @type {[string, string][]} */
  const rows = legs.map(([name, value]) => [name, value === null ? 'not found' : `#${value}`]);
  rows.push(['by score', `#${candidate.rank} of ${count(scale.total)}`]);
  if (vouched) rows.push(['vouched for by', vouched]);
  return h('div', {}, h('h3', {}, 'Ranks'), pairs(rows));
}

/**
 * @param {Candidate} candidate
 * @param {Scale} scale
 */
function listValues(candidate, scale) {
  const added = Object.keys(candidate.shares).length > 0;
  const rows = listSignals(candidate).filter(([name, value]) => !scale.legs.has(name) && value !== null);
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
        value !== null && scale.most.get(name) ? meter(Math.abs(value) / (scale.most.get(name) ?? 1)) : null,
      ),
      added && h('td', { class: 'num' }, name in candidate.shares ? formatSigned(candidate.shares[name]) : ''),
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
function formatSigned(value) {
  return `${value < 0 ? '−' : '+'}${score(Math.abs(value))}`;
}

/**
 * Show the parts of a value, the largest first, as a bar and by name.
 * @param {string} title
 * @param {Record<string, number>} parts
 */
function showParts(title, parts) {
  const entries = Object.entries(parts)
    .filter(([, value]) => value)
    .sort(([, one], [, other]) => Math.abs(other) - Math.abs(one));
  if (!entries.length) return null;
  const whole = entries.reduce((sum, [, value]) => sum + Math.abs(value), 0);
  const colour = (/** @type {number} */ i) => `part-${i % 8}`;
  return h(
    'div',
    {},
    h('h3', {}, `${title} is made of`),
    h(
      'div',
      { class: 'shares', 'aria-hidden': 'true' },
      ...entries.map(([, value], i) => bar(`share ${value < 0 ? 'minus' : colour(i)}`, Math.abs(value) / whole)),
    ),
    pairs(
      entries.map(([name, value], i) => [
        name,
        h('span', { class: 'part' }, h('span', { class: `swatch ${value < 0 ? 'minus' : colour(i)}` }), formatSigned(value)),
      ]),
    ),
  );
}

/**
 * @param {Record<string, any> | string} one a sentence, or its parts with their validity
 * @param {string} text the sentence of the parts
 */
function showFact(one, text) {
  if (typeof one === 'string') return h('div', {}, h('h3', {}, 'The fact it states'), h('p', {}, one));
  const until = one.until ? ` until ${one.until}` : '';
  return h(
    'div',
    {},
    h('h3', {}, 'The fact it states'),
    h('p', {}, text),
    h('p', { class: 'dim' }, `since ${one.since}${until}${one.over ? ', no longer' : ''}`),
  );
}
