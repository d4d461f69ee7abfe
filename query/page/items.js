// @ts-check
/** The ranked items, each with the parts of its score. */

import { fill, h, withSpaces } from './dom.js';
import { badge, legend, meter, origin, SHARES, shareBar, showReplacement } from './marks.js';
import { findLargest, findLegs, listSignals } from './signals.js';
import { formatTime, getBaseName, score, share } from './text.js';
import { explain } from './why.js';

/**
 * @typedef {import('./api.js').Answer} Answer
 * @typedef {import('./api.js').Candidate} Candidate
 * @typedef {import('./api.js').Item} Item
 */

/**
 * Make the list of items, with its legend.
 * @param {Answer} answer
 */
export function listItems(answer) {
  const candidates = answer.trace.candidates;
  const byScore = new Map(candidates.map((one) => [`${one.id} ${one.score}`, one]));
  const best = Math.max(1e-9, ...answer.items.map((item) => item.score));
  const most = findLargest(candidates);
  const legs = findLegs(answer.trace.stages);
  const packed = new Set(answer.packed);
  const given = answer.items.map((item) => byScore.get(`${item.id} ${item.score}`)?.shares ?? {});
  const shown = SHARES.filter((name) => given.some((shares) => shares[name]));
  const subtracted = given.some((shares) => Object.values(shares).some((share) => share < 0));
  const cards = answer.items.map((item, i) => {
    const candidate = byScore.get(`${item.id} ${item.score}`);
    return makeCard(item, i + 1, candidate, { best, most, legs, total: candidates.length, packed: packed.has(i) });
  });
  return [
    shown.length ? legend(shown, subtracted) : null,
    h('ol', { class: answer.relevant ? 'items' : 'items nearest', 'aria-label': 'Items, best first' }, ...cards),
  ];
}

/** @typedef {{best: number, most: Map<string, number>, legs: Set<string>, total: number, packed: boolean}} Scale */

/**
 * @param {Item} item
 * @param {number} rank
 * @param {Candidate | undefined} candidate
 * @param {Scale} scale
 */
function makeCard(item, rank, candidate, scale) {
  const panel = h('div', { class: 'why', id: `why-${rank}`, hidden: true });
  const head = h(
    'button',
    {
      type: 'button',
      class: 'head',
      'data-stop': true,
      'aria-expanded': 'false',
      'aria-controls': panel.id,
      onclick: () => toggle(),
    },
    ...withSpaces(
      h('span', { class: 'rank' }, rank),
      h('span', { class: 'score mono', title: `relevance; score ${score(item.score)}` }, share(item.relevance)),
      badge(item.type),
      h('span', { class: 'dim' }, formatTime(item.time, item.time_quality)),
      item.speaker && h('span', { class: 'who' }, item.speaker),
      scale.packed && h('span', { class: 'packed' }, 'in context'),
    ),
  );
  function toggle() {
    panel.hidden = !panel.hidden;
    head.setAttribute('aria-expanded', String(!panel.hidden));
    if (!panel.hidden && !panel.hasChildNodes()) fill(panel, ...explain(item, candidate, scale));
  }
  return h(
    'li',
    { class: 'card', id: `rank-${rank}`, 'data-item': item.id },
    head,
    h('p', { class: 'text' }, item.text),
    showReplacement(item.replaced_by),
    candidate && drawScore(item, candidate, scale),
    h('p', { class: 'from' }, origin(item), h('span', { class: 'dim' }, ` ${item.project} · ${getBaseName(item.source)}`)),
    panel,
  );
}

/**
 * Draw the parts of a score; for a recipe that does not add them, its signals in a row.
 * @param {Item} item
 * @param {Candidate} candidate
 * @param {Scale} scale
 */
function drawScore(item, candidate, scale) {
  if (Object.keys(candidate.shares).length) return shareBar(candidate.shares, scale.best);
  const fractions = listSignals(candidate).filter(([name]) => scale.most.get(name) && !scale.legs.has(name));
  const one = (/** @type {[string, number]} */ [name, value]) =>
    h(
      'span',
      {},
      `${name} `,
      meter(Math.abs(value) / (scale.most.get(name) ?? 1)),
      h('span', { class: 'mono' }, score(value)),
    );
  return h('div', { class: 'signals' }, ...withSpaces(...fractions.map(one)));
}
