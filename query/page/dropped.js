// @ts-check
/** The candidates that an answer leaves out, by stage, with the reason; and the same for any one item. */

import { getItem, recallExplained } from './api.js';
import { announce, byId, fill, h } from './dom.js';
import { failure } from './marks.js';
import { toItem } from './route.js';
import { count, cut, plural, score } from './text.js';

/**
 * @typedef {import('./api.js').Explained} Explained
 * @typedef {import('./api.js').Candidate} Candidate
 * @typedef {{stage: string, says: string, n: number, ones: Candidate[]}} Group
 */

const STEP = 6;

/**
 * Show the groups of candidates that an answer leaves out.
 * @param {Explained} answer
 */
export function showDropped(answer) {
  const groups = groupDropped(answer);
  if (answer.skipped) return [h('p', { class: 'dim' }, 'Nothing was searched.')];
  if (!groups.length)
    return [h('p', { class: 'dim' }, 'Nothing: every candidate is in the answer and in the context.')];
  return groups.map((group) => (group.ones.length ? makeDetails(group) : makeLine(group)));
}

/**
 * Group the candidates that are left out, from the first stage to the last.
 * @param {Explained} answer
 * @returns {Group[]}
 */
export function groupDropped(answer) {
  const { stages, candidates } = answer.trace;
  const route = stages.find((stage) => stage.stage === 'route');
  const allowed = route?.rows_out ?? 0;
  const shown = new Set(answer.items.map((item) => item.id));
  const every = [...answer.items, ...answer.beyond];
  const packed = new Set(answer.packed.map((i) => every[i].id));
  const cut = candidates.filter((one) => one.dropped && !packed.has(one.id));
  const lower = candidates.filter((one) => !one.dropped && !shown.has(one.id) && !packed.has(one.id));
  const last = answer.items.at(-1);
  const full = candidates.filter((one) => !one.dropped && shown.has(one.id) && !packed.has(one.id));
  const missed = allowed - new Set(candidates.map((one) => one.id)).size;
  /** @type {Group[]} */
  const groups = [
    { stage: 'route', says: 'outside the filters', n: (route?.rows_in ?? 0) - allowed, ones: [] },
    { stage: 'retrieve', says: 'in no list', n: candidates.length ? missed : 0, ones: [] },
    ...[...new Set(cut.map(stageOf))].map((stage) => {
      const ones = cut.filter((one) => stageOf(one) === stage);
      return { stage, says: 'each with its reason', n: ones.length, ones };
    }),
    {
      stage: 'rank',
      says: last ? `below the last shown item, at ${score(last.score)}` : 'below',
      n: lower.length,
      ones: lower,
    },
    { stage: 'pack', says: `no room in ${count(answer.budget)} tokens`, n: full.length, ones: full },
  ];
  return groups.filter((group) => group.n > 0);
}

/** @param {Candidate} one */
function stageOf(one) {
  return String(one.dropped).split(': ', 1)[0];
}

/** @param {Group} group */
function describe(group) {
  return [h('strong', {}, group.stage), ` ${count(group.n)} `, h('span', { class: 'dim' }, group.says)];
}

/** @param {Group} group */
function makeLine(group) {
  return h('p', { class: 'left' }, ...describe(group));
}

/**
 * Make a group that opens. Its candidates' texts load when it opens, a few at a time.
 * @param {Group} group
 */
function makeDetails(group) {
  const entries = h('ul', { class: 'left-out' });
  const more = h('button', { type: 'button', class: 'quiet', onclick: () => next() }, 'Show more');
  let at = 0;
  function next() {
    const ones = group.ones.slice(at, at + STEP);
    at += ones.length;
    const rows = ones.map(makeEntry);
    entries.append(...rows);
    more.hidden = at >= group.ones.length;
    if (at > STEP) rows[0]?.querySelector('button')?.focus();
  }
  const details = h(
    'details',
    { class: 'left', ontoggle: () => details.open && !at && next() },
    h('summary', {}, ...describe(group)),
    entries,
    more,
  );
  return details;
}

/** @param {Candidate} one */
function makeEntry(one) {
  const text = h('span', { class: 'preview dim' }, '…');
  getItem(one.id).then(
    (item) => fill(text, cut(item.text, 120)),
    (error) => fill(text, error.message),
  );
  const reason = one.dropped?.slice(stageOf(one).length + 2);
  return h(
    'li',
    {},
    h('span', { class: 'mono dim' }, `#${one.rank} ${score(one.score)} `),
    h('a', { class: 'mono', href: toItem(one) }, one.id),
    ' ',
    h(
      'button',
      { type: 'button', class: 'quiet', 'aria-label': `Why not ${one.id}?`, onclick: () => askWhyNot(one.id) },
      'Why not?',
    ),
    text,
    reason && h('span', { class: 'reason' }, reason),
    one.replaced && h('span', { class: 'reason' }, one.replaced),
  );
}

/** @param {string} id */
function askWhyNot(id) {
  const field = /** @type {HTMLInputElement} */ (byId('why-not-id'));
  field.value = id;
  field.form?.requestSubmit();
}

/**
 * Make the form that asks why an item is not in the answer.
 * @param {import('./api.js').Json} question the arguments of this recall
 */
export function makeWhyNot(question) {
  const field = h('input', {
    id: 'why-not-id',
    class: 'mono',
    maxlength: '64',
    spellcheck: 'false',
    placeholder: 'f1a3fa0659075602',
    'aria-describedby': 'why-not-said',
  });
  const reply = h('output', { id: 'why-not-said', for: 'why-not-id' });
  const form = h(
    'form',
    {
      class: 'why-not',
      autocomplete: 'off',
      onsubmit: async (/** @type {Event} */ event) => {
        event.preventDefault();
        const id = field.value.trim();
        if (!id) return field.focus();
        reply.textContent = '…';
        try {
          const answer = await recallExplained({ ...question, why_not: id });
          fill(reply, h('span', { class: 'mono dim' }, `${id} `), answer.trace.why_not);
          announce(answer.trace.why_not ?? '');
        } catch (error) {
          fill(reply, failure(error));
        }
      },
    },
    h('label', {}, 'Item id ', field),
    h('button', {}, 'Why not?'),
    reply,
  );
  return form;
}

/**
 * Count the candidates that are left out, for a heading.
 * @param {Explained} answer
 */
export function countDropped(answer) {
  const n = groupDropped(answer).reduce((sum, group) => sum + group.n, 0);
  return n ? plural(n, 'item') : '';
}
