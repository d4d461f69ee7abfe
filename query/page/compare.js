// @ts-check
/** One question to two profiles: each one's items, with their places in the other list. */

import { getChoices, recallExplained } from './api.js';
import { readQuestion } from './question.js';
import { announce, bar, byId, fill, h, s } from './dom.js';
import { offerChoices, readValues, restore } from './fields.js';
import { badge, load } from './marks.js';
import { go, href, toItem } from './route.js';
import { capitalise, cleanLine, count, formatTime, millis, plural, score, share } from './text.js';

/** @typedef {import('./api.js').Explained} Explained */

const form = /** @type {HTMLFormElement} */ (byId('compare-form'));
const body = byId('compare-body');
const ROW = 62; // pixels; the style sheet sets the same height
let calls = 0;

form.addEventListener('submit', (event) => {
  event.preventDefault();
  go(href('compare', readValues(form)));
});

/** @param {import('./route.js').Route} route */
export async function show({ params }) {
  const call = ++calls;
  await fillForm(params);
  if (call !== calls) return;
  if (!params.get('q'))
    return fill(body, h('p', { class: 'dim' }, 'The same question to two profiles, on the same generation.'));
  await load(
    body,
    () => call === calls,
    async () => {
      const [a, b] = getProfiles(params);
      const question = readQuestion(params);
      // One at a time: together they would slow each other down.
      const left = await recallExplained({ ...question, profile: a });
      const right = await recallExplained({ ...question, profile: b });
      return call === calls ? compare(left, right, params) : [];
    },
  );
}

/**
 * @param {URLSearchParams} params
 * @returns {[string, string]}
 */
function getProfiles(params) {
  return [params.get('a') || 'helix', params.get('b') || 'helix-paper'];
}

/** @param {URLSearchParams} params */
async function fillForm(params) {
  const [a, b] = getProfiles(params);
  try {
    const choices = await getChoices();
    for (const name of ['a', 'b']) {
      const select = /** @type {HTMLSelectElement} */ (form.elements.namedItem(name));
      select.replaceChildren(...choices.profiles.map((one) => h('option', { value: one }, one)));
    }
    offerChoices(form, 'project', choices.projects);
  } catch {
    // The answer shows the error.
  }
  restore(form, new URLSearchParams([...params.entries(), ['a', a], ['b', b]]));
}

/**
 * Return each item's first place.
 * @param {Explained} answer
 */
function findPlaces(answer) {
  /** @type {Map<string, number>} */
  const places = new Map();
  answer.items.forEach((item, i) => places.has(item.id) || places.set(item.id, i));
  return places;
}

/**
 * @param {Explained} left
 * @param {Explained} right
 * @param {URLSearchParams} params
 */
function compare(left, right, params) {
  const [here, there] = [findPlaces(left), findPlaces(right)];
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
    makeTable(left, right),
    h(
      'div',
      { class: 'versus' },
      makeColumn(left, there, params, 'left'),
      drawLines(left, right, here, there),
      makeColumn(right, here, params, 'right'),
    ),
  ];
}

/**
 * @param {Explained} left
 * @param {Explained} right
 */
function makeTable(left, right) {
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
        h('th', { scope: 'col', class: 'num' }, left.profile),
        h('td', { class: 'wide' }),
        h('th', { scope: 'col', class: 'num' }, right.profile),
        h('td', { class: 'wide' }),
      ),
    ),
    h(
      'tbody',
      {},
      line('milliseconds, with the trace', left.ms.total, right.ms.total, millis),
      line('tokens of the context', left.tokens, right.tokens, count),
      line('items in the context', left.packed.length, right.packed.length, count),
      line('candidates', left.trace.candidates.length, right.trace.candidates.length, count),
    ),
  );
}

/**
 * @param {Explained} answer
 * @param {Map<string, number>} other places in the other list
 * @param {URLSearchParams} params
 * @param {'left' | 'right'} side
 */
function makeColumn(answer, other, params, side) {
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
        showMove(i, other.get(item.id), side),
        h('span', { class: 'mono', title: `relevance; score ${score(item.score)}` }, share(item.relevance)),
        badge(item.type),
        h('span', { class: 'dim' }, `${formatTime(item.time, item.time_quality)} ${item.speaker ?? ''}`),
        packed.has(i) ? h('span', { class: 'packed' }, 'in context') : null,
      ),
      h('a', { class: 'text', href: toItem(item), 'data-stop': true }, cleanLine(item.text)),
    );
  return h(
    'section',
    { class: 'panel', 'aria-labelledby': id },
    h('h2', { id }, h('a', { href: full }, answer.profile)),
    answer.degraded.length ? h('p', { class: 'notice warn' }, answer.degraded.join('; ')) : null,
    answer.skipped ? h('p', { class: 'notice warn' }, 'skipped: the question needs no memory') : null,
    answer.items.length
      ? h('ol', { class: 'items' }, ...answer.items.map(entry))
      : h('p', { class: 'empty' }, answer.notice ? `${capitalise(answer.notice)}.` : 'Nothing was found.'),
  );
}

/**
 * Show how many places higher or lower this list has an item than the other.
 * @param {number} here
 * @param {number | undefined} there
 * @param {'left' | 'right'} side
 */
function showMove(here, there, side) {
  const from = side === 'right' ? 'left' : 'right';
  if (there === undefined) return h('span', { class: 'moved only' }, 'only here');
  const rise = there - here;
  if (!rise) return h('span', { class: 'moved same', title: `the same place in the ${from} list` }, '=');
  const words = `${plural(Math.abs(rise), 'place')} ${rise > 0 ? 'higher' : 'lower'} than on the ${from}`;
  return h(
    'span',
    { class: `moved ${rise > 0 ? 'up' : 'down'}`, title: words },
    h('span', { 'aria-hidden': 'true' }, `${rise > 0 ? '+' : '−'}${Math.abs(rise)}`),
    h('span', { class: 'sr' }, words),
  );
}

/**
 * Draw a line from each item's left place to its right place.
 * @param {Explained} left
 * @param {Explained} right
 * @param {Map<string, number>} here
 * @param {Map<string, number>} there
 */
function drawLines(left, right, here, there) {
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
