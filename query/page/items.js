// @ts-check
/** The ranked items: what each is, and what its score is made of. */

import { fill, h, spaced } from './dom.js';
import { badge, legend, meter, origin, SHARES, shareBar } from './marks.js';
import { largest, legsOf, signals } from './signals.js';
import { base, score, when } from './text.js';
import { why } from './why.js';

/**
 * @typedef {import('./api.js').Answer} Answer
 * @typedef {import('./api.js').Candidate} Candidate
 * @typedef {import('./api.js').Item} Item
 */

/**
 * The list, with its legend.
 * @param {Answer} answer
 */
export function list(answer) {
  const candidates = answer.trace.candidates;
  const found = new Map(candidates.map((one) => [`${one.id} ${one.score}`, one]));
  const best = Math.max(1e-9, ...answer.items.map((item) => item.score));
  const most = largest(candidates);
  const legs = legsOf(answer.trace.stages);
  const packed = new Set(answer.packed);
  const given = answer.items.map((item) => found.get(`${item.id} ${item.score}`)?.shares ?? {});
  const shown = SHARES.filter((name) => given.some((shares) => shares[name]));
  const taken = given.some((shares) => Object.values(shares).some((share) => share < 0));
  const cards = answer.items.map((item, i) => {
    const candidate = found.get(`${item.id} ${item.score}`);
    return card(item, i + 1, candidate, { best, most, legs, of: candidates.length, packed: packed.has(i) });
  });
  return [
    shown.length ? legend(shown, taken) : null,
    h('ol', { class: 'items', 'aria-label': 'Items, best first' }, ...cards),
  ];
}

/** @typedef {{best: number, most: Map<string, number>, legs: Set<string>, of: number, packed: boolean}} Among */

/**
 * @param {Item} item
 * @param {number} rank
 * @param {Candidate | undefined} candidate
 * @param {Among} among
 */
function card(item, rank, candidate, among) {
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
    ...spaced(
      h('span', { class: 'rank' }, rank),
      h('span', { class: 'score mono' }, score(item.score)),
      badge(item.type),
      h('span', { class: 'dim' }, when(item.time)),
      item.speaker && h('span', { class: 'who' }, item.speaker),
      among.packed && h('span', { class: 'packed' }, 'in context'),
    ),
  );
  function toggle() {
    panel.hidden = !panel.hidden;
    head.setAttribute('aria-expanded', String(!panel.hidden));
    if (!panel.hidden && !panel.hasChildNodes()) fill(panel, ...why(item, candidate, among));
  }
  return h(
    'li',
    { class: 'card', id: `rank-${rank}`, 'data-item': item.id },
    head,
    h('p', { class: 'text' }, item.text),
    candidate && bars(item, candidate, among),
    h('p', { class: 'from' }, origin(item), h('span', { class: 'dim' }, ` ${item.project} · ${base(item.source)}`)),
    panel,
  );
}

/**
 * What the score is the sum of; of a recipe that does not add, its signals side by side.
 * @param {Item} item
 * @param {Candidate} candidate
 * @param {Among} among
 */
function bars(item, candidate, among) {
  if (Object.keys(candidate.shares).length) return shareBar(candidate.shares, among.best);
  const fractions = signals(candidate).filter(([name]) => among.most.get(name) && !among.legs.has(name));
  const one = (/** @type {[string, number]} */ [name, value]) =>
    h(
      'span',
      {},
      `${name} `,
      meter(Math.abs(value) / (among.most.get(name) ?? 1)),
      h('span', { class: 'mono' }, score(value)),
    );
  return h('div', { class: 'signals' }, ...spaced(...fractions.map(one)));
}
