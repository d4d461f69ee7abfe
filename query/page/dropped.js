// @ts-check
/** What was left out, by the stage that did it, and why; and the same asked of any one item. */

import { look, recall } from './api.js';
import { announce, by, fill, h } from './dom.js';
import { failure } from './marks.js';
import { href } from './route.js';
import { count, cut, plural, score } from './text.js';

/**
 * @typedef {import('./api.js').Answer} Answer
 * @typedef {import('./api.js').Candidate} Candidate
 * @typedef {{stage: string, says: string, n: number, ones: Candidate[]}} Group
 */

const STEP = 6;

/** @param {Answer} answer */
export function dropped(answer) {
  const groups = grouped(answer);
  if (answer.skipped) return [h('p', { class: 'dim' }, 'Nothing was searched.')];
  if (!groups.length)
    return [h('p', { class: 'dim' }, 'Nothing: all that was found is in the answer and in the context.')];
  return groups.map((group) => (group.ones.length ? opened(group) : told(group)));
}

/**
 * From the first stage to the last.
 * @param {Answer} answer
 * @returns {Group[]}
 */
export function grouped(answer) {
  const { stages, candidates } = answer.trace;
  const route = stages.find((stage) => stage.stage === 'route');
  const allowed = route?.rows_out ?? 0;
  const shown = new Set(answer.items.map((item) => item.id));
  const packed = new Set(answer.packed.map((i) => answer.items[i].id));
  const cut = candidates.filter((one) => one.dropped);
  const behind = candidates.filter((one) => !one.dropped && !shown.has(one.id));
  const last = answer.items.at(-1);
  const full = candidates.filter((one) => !one.dropped && shown.has(one.id) && !packed.has(one.id));
  const missed = allowed - new Set(candidates.map((one) => one.id)).size;
  /** @type {Group[]} */
  const groups = [
    { stage: 'route', says: 'outside the filters', n: (route?.rows_in ?? 0) - allowed, ones: [] },
    { stage: 'retrieve', says: 'found by no list', n: candidates.length ? missed : 0, ones: [] },
    ...[...new Set(cut.map(stageOf))].map((stage) => {
      const ones = cut.filter((one) => stageOf(one) === stage);
      return { stage, says: 'each says why', n: ones.length, ones };
    }),
    {
      stage: 'rank',
      says: last ? `behind the last item shown, which has ${score(last.score)}` : 'behind',
      n: behind.length,
      ones: behind,
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
function line(group) {
  return [h('strong', {}, group.stage), ` ${count(group.n)} `, h('span', { class: 'dim' }, group.says)];
}

/** @param {Group} group */
function told(group) {
  return h('p', { class: 'left' }, ...line(group));
}

/**
 * A group with its candidates. Their texts are asked for when it is opened, a few at a time.
 * @param {Group} group
 */
function opened(group) {
  const entries = h('ul', { class: 'left-out' });
  const more = h('button', { type: 'button', class: 'quiet', onclick: () => next() }, 'Show more');
  let at = 0;
  function next() {
    const ones = group.ones.slice(at, at + STEP);
    at += ones.length;
    const made = ones.map(entry);
    entries.append(...made);
    more.hidden = at >= group.ones.length;
    if (at > STEP) made[0]?.querySelector('button')?.focus();
  }
  const details = h(
    'details',
    { class: 'left', ontoggle: () => details.open && !at && next() },
    h('summary', {}, ...line(group)),
    entries,
    more,
  );
  return details;
}

/** @param {Candidate} one */
function entry(one) {
  const text = h('span', { class: 'preview dim' }, '…');
  look(one.id).then(
    (found) => fill(text, cut(found.text, 120)),
    (error) => fill(text, error.message),
  );
  const reason = one.dropped?.slice(stageOf(one).length + 2);
  return h(
    'li',
    {},
    h('span', { class: 'mono dim' }, `#${one.rank} ${score(one.score)} `),
    h('a', { class: 'mono', href: href('item', {}, one.id) }, one.id),
    ' ',
    h(
      'button',
      { type: 'button', class: 'quiet', 'aria-label': `Why not ${one.id}?`, onclick: () => pick(one.id) },
      'Why not?',
    ),
    text,
    reason && h('span', { class: 'reason' }, reason),
  );
}

/** @param {string} id */
function pick(id) {
  const field = /** @type {HTMLInputElement} */ (by('why-not-id'));
  field.value = id;
  field.form?.requestSubmit();
}

/**
 * The box that asks of one item why it is not in the answer.
 * @param {import('./api.js').Json} question the arguments of this recall
 */
export function whyNot(question) {
  const field = h('input', {
    id: 'why-not-id',
    class: 'mono',
    maxlength: '64',
    spellcheck: 'false',
    placeholder: 'f1a3fa0659075602',
    'aria-describedby': 'why-not-said',
  });
  const said = h('output', { id: 'why-not-said', for: 'why-not-id' });
  const form = h(
    'form',
    {
      class: 'why-not',
      autocomplete: 'off',
      onsubmit: async (/** @type {Event} */ event) => {
        event.preventDefault();
        const id = field.value.trim();
        if (!id) return field.focus();
        said.textContent = '…';
        try {
          const answer = await recall({ ...question, why_not: id });
          fill(said, h('span', { class: 'mono dim' }, `${id} `), answer.trace.why_not);
          announce(answer.trace.why_not ?? '');
        } catch (error) {
          fill(said, failure(error));
        }
      },
    },
    h('label', {}, 'Item id ', field),
    h('button', {}, 'Why not?'),
    said,
  );
  return form;
}

/**
 * How many are left out, for a heading.
 * @param {Answer} answer
 */
export function leftOut(answer) {
  const n = grouped(answer).reduce((sum, group) => sum + group.n, 0);
  return n ? plural(n, 'item') : '';
}
