// @ts-check
/** One question to two profiles: what each finds, and where the other has it. */

import { choices, recall } from './api.js';
import { questionOf } from './ask.js';
import { announce, bar, by, fill, h, s } from './dom.js';
import { offer, restore, values } from './fields.js';
import { badge, failure } from './marks.js';
import { go, href } from './route.js';
import { count, millis, plural, score, when } from './text.js';

/** @typedef {import('./api.js').Answer} Answer */

const form = /** @type {HTMLFormElement} */ (by('compare-form'));
const body = by('compare-body');
const ROW = 62; // pixels; the lines between the lists rely on it
let asked = 0;

form.addEventListener('submit', (event) => {
  event.preventDefault();
  go(href('compare', values(form)));
});

/** @param {import('./route.js').Route} route */
export async function show({ params }) {
  const turn = ++asked;
  await offered(params);
  if (turn !== asked) return;
  if (!params.get('q'))
    return fill(body, h('p', { class: 'dim' }, 'The same question to two profiles, on the same generation.'));
  body.setAttribute('aria-busy', 'true');
  try {
    const [a, b] = sides(params);
    const question = questionOf(params);
    // One after the other: side by side each would take the other's time.
    const left = await recall({ ...question, profile: a });
    const right = await recall({ ...question, profile: b });
    if (turn === asked) fill(body, ...shown(left, right, params));
  } catch (error) {
    if (turn === asked) fill(body, failure(error));
  } finally {
    if (turn === asked) body.setAttribute('aria-busy', 'false');
  }
}

/**
 * @param {URLSearchParams} params
 * @returns {[string, string]}
 */
function sides(params) {
  return [params.get('a') || 'helix', params.get('b') || 'helix-paper'];
}

/** @param {URLSearchParams} params */
async function offered(params) {
  const [a, b] = sides(params);
  try {
    const there = await choices();
    for (const name of ['a', 'b']) {
      const select = /** @type {HTMLSelectElement} */ (form.elements.namedItem(name));
      select.replaceChildren(...there.profiles.map((one) => h('option', { value: one }, one)));
    }
    offer(form, 'project', there.projects);
  } catch {
    // The answer to the question tells.
  }
  restore(form, new URLSearchParams([...params.entries(), ['a', a], ['b', b]]));
}

/**
 * Places by item, the first of each.
 * @param {Answer} answer
 */
function placesOf(answer) {
  /** @type {Map<string, number>} */
  const found = new Map();
  answer.items.forEach((item, i) => found.has(item.id) || found.set(item.id, i));
  return found;
}

/**
 * @param {Answer} left
 * @param {Answer} right
 * @param {URLSearchParams} params
 */
function shown(left, right, params) {
  const [here, there] = [placesOf(left), placesOf(right)];
  const both = [...here.keys()].filter((id) => there.has(id));
  const all = new Set([...here.keys(), ...there.keys()]).size;
  announce(`${plural(both.length, 'item')} in both`);
  return [
    h(
      'p',
      { class: 'summary' },
      h('strong', {}, `${count(both.length)} of ${plural(all, 'item')} in both`),
      h(
        'span',
        { class: 'dim' },
        ` · generation ${left.snapshot}${left.snapshot === right.snapshot ? '' : ` and ${right.snapshot}`}`,
      ),
    ),
    figures(left, right),
    h(
      'div',
      { class: 'versus' },
      column(left, there, params, 'left'),
      lines(left, right, here, there),
      column(right, here, params, 'right'),
    ),
  ];
}

/**
 * @param {Answer} left
 * @param {Answer} right
 */
function figures(left, right) {
  const line = (
    /** @type {string} */ name,
    /** @type {number} */ one,
    /** @type {number} */ other,
    /** @type {(value: number) => string} */ as,
  ) => {
    const most = Math.max(one, other, 1e-9);
    const cell = (/** @type {number} */ value) => [
      h('td', { class: 'num' }, as(value)),
      h('td', { class: 'wide' }, h('span', { class: 'meter', 'aria-hidden': 'true' }, bar('level', value / most))),
    ];
    return h('tr', {}, h('th', { scope: 'row' }, name), ...cell(one), ...cell(other));
  };
  return h(
    'table',
    { class: 'panel figures' },
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        h('td', {}),
        h('th', { scope: 'col', colspan: 2 }, left.profile),
        h('th', { scope: 'col', colspan: 2 }, right.profile),
      ),
    ),
    h(
      'tbody',
      {},
      line('milliseconds, with its explanation', left.ms.total, right.ms.total, millis),
      line('tokens of the context', left.tokens, right.tokens, count),
      line('items in the context', left.packed.length, right.packed.length, count),
      line('candidates', left.trace.candidates.length, right.trace.candidates.length, count),
    ),
  );
}

/**
 * @param {Answer} answer
 * @param {Map<string, number>} other where the other list has each
 * @param {URLSearchParams} params
 * @param {'left' | 'right'} side
 */
function column(answer, other, params, side) {
  const id = `versus-${side}`;
  const packed = new Set(answer.packed);
  const full = href('ask', {
    ...Object.fromEntries(params),
    a: '',
    b: '',
    profile: answer.profile === 'helix' ? '' : answer.profile,
  });
  const entry = (/** @type {import('./api.js').Item} */ item, /** @type {number} */ i) =>
    h(
      'li',
      { class: 'short-card' },
      h(
        'p',
        { class: 'head' },
        h('span', { class: 'rank' }, i + 1),
        moved(i, other.get(item.id), side),
        h('span', { class: 'mono' }, score(item.score)),
        badge(item.type),
        h('span', { class: 'dim' }, `${when(item.time)} ${item.speaker ?? ''}`),
        packed.has(i) ? h('span', { class: 'packed' }, 'in context') : null,
      ),
      h('a', { class: 'text', href: href('item', {}, item.id), 'data-stop': true }, item.text),
    );
  return h(
    'section',
    { class: 'panel', 'aria-labelledby': id },
    h('h2', { id }, h('a', { href: full }, answer.profile)),
    answer.degraded.length ? h('p', { class: 'notice warn' }, answer.degraded.join('; ')) : null,
    answer.skipped ? h('p', { class: 'notice warn' }, 'skipped: the question needs no memory') : null,
    answer.items.length
      ? h('ol', { class: 'items' }, ...answer.items.map(entry))
      : h('p', { class: 'empty' }, 'Nothing was found.'),
  );
}

/**
 * How much higher or lower the other list has it.
 * @param {number} here
 * @param {number | undefined} there
 * @param {'left' | 'right'} side
 */
function moved(here, there, side) {
  const from = side === 'right' ? 'left' : 'right';
  if (there === undefined) return h('span', { class: 'moved only' }, 'only here');
  const by = there - here; // places this list has it higher
  if (!by) return h('span', { class: 'moved same', title: `the ${from} list has it here, too` }, '=');
  const words = `${plural(Math.abs(by), 'place')} ${by > 0 ? 'higher' : 'lower'} than on the ${from}`;
  return h(
    'span',
    { class: `moved ${by > 0 ? 'up' : 'down'}`, title: words },
    h('span', { 'aria-hidden': 'true' }, `${by > 0 ? '+' : '−'}${Math.abs(by)}`),
    h('span', { class: 'sr' }, words),
  );
}

/**
 * From each item's place on the left to its place on the right.
 * @param {Answer} left
 * @param {Answer} right
 * @param {Map<string, number>} here
 * @param {Map<string, number>} there
 */
function lines(left, right, here, there) {
  const height = Math.max(left.items.length, right.items.length) * ROW;
  const middle = (/** @type {number} */ place) => (place + 0.5) * ROW;
  const both = [...here].filter(([id]) => there.has(id));
  const line = (/** @type {[string, number]} */ [id, place]) => {
    const to = /** @type {number} */ (there.get(id));
    const kind = to < place ? 'up' : to > place ? 'down' : 'same';
    const [y1, y2] = [middle(place), middle(to)];
    return s('path', { class: `move ${kind}`, d: `M0 ${y1}C30 ${y1} 30 ${y2} 60 ${y2}` });
  };
  return s(
    'svg',
    { class: 'lines', viewBox: `0 0 60 ${height || 1}`, width: 60, height: height || 1, 'aria-hidden': 'true' },
    ...both.map(line),
  );
}
