// @ts-check
/** The question and its answer: the items, and how they were found. */

import { choices, recall } from './api.js';
import { context } from './context.js';
import { announce, by, fill, h } from './dom.js';
import { dropped, leftOut, whyNot } from './dropped.js';
import { offer, restore, values } from './fields.js';
import { list } from './items.js';
import { failure, notice, panel } from './marks.js';
import { go, href } from './route.js';
import { count, day, millis, plural } from './text.js';
import { waterfall } from './waterfall.js';

/** @typedef {import('./api.js').Answer} Answer */

const form = /** @type {HTMLFormElement} */ (by('ask-form'));
const body = by('answer');
const MORE = ['since', 'until', 'as_of', 'session', 'entities', 'rerank', 'current_only'];
let asked = 0;
let answered = ''; // the address whose answer is shown
/** @type {HTMLElement | null} */
let last = null; // where the focus was in it

form.addEventListener('submit', (event) => {
  event.preventDefault();
  go(href('ask', values(form)));
});

by('clear').addEventListener('click', () => {
  const { q } = values(form);
  go(href('ask', { q }));
  by('q').focus();
});

form.addEventListener('input', told);

/** Say how many filters are set. */
function told() {
  const given = values(form);
  const more = MORE.filter((name) => given[name]).length;
  const set = by('set');
  set.hidden = !more;
  set.textContent = `${more} set`;
  by('clear').hidden = !Object.keys(given).some((name) => name !== 'q');
  return more;
}

body.addEventListener('focusin', (event) => {
  last = /** @type {HTMLElement} */ (event.target);
});

/** Where the answer was left, if it is still there. */
export function left() {
  return last?.isConnected ? last : null;
}

/**
 * What the address asks. Whoever comes back to an answer finds it as it was.
 * @param {import('./route.js').Route} route
 */
export async function show({ params, entered }) {
  restore(form, params);
  if (told()) /** @type {HTMLDetailsElement} */ (by('more')).open = true;
  if (entered && answered && answered === params.toString()) return;
  answered = '';
  const turn = ++asked;
  offered();
  if (!params.get('q')) return welcome(turn);
  busy(true);
  try {
    const question = questionOf(params);
    const answer = await recall(question);
    if (turn !== asked) return;
    shown(answer, question);
    answered = params.toString();
  } catch (error) {
    if (turn === asked) {
      fill(body, failure(error));
      announce('That did not work.');
    }
  } finally {
    if (turn === asked) busy(false);
  }
}

/** @param {boolean} on */
function busy(on) {
  body.setAttribute('aria-busy', String(on));
  if (on && !body.hasChildNodes()) fill(body, h('p', { class: 'dim' }, '…'));
}

/** What there is to choose from. Without it the fields are as they are, and the question says what is wrong. */
async function offered() {
  try {
    const there = await choices();
    for (const name of /** @type {const} */ (['project', 'type', 'speaker'])) offer(form, name, there[`${name}s`]);
    offerProfiles(there.profiles);
  } catch {
    // The answer to the question tells.
  }
}

/** @param {string[]} names */
function offerProfiles(names) {
  const select = /** @type {HTMLSelectElement} */ (form.elements.namedItem('profile'));
  const now = select.value;
  select.replaceChildren(...names.map((name) => h('option', { value: name === 'helix' ? '' : name }, name)));
  select.value = now;
  if (select.value !== now) select.append(h('option', { value: now, selected: true }, now));
}

/**
 * The arguments of a recall, from the address.
 * @param {URLSearchParams} params
 * @returns {import('./api.js').Json}
 */
export function questionOf(params) {
  /** @type {import('./api.js').Json} */
  const question = { query: params.get('q') ?? '' };
  for (const name of ['project', 'type', 'speaker', 'session', 'since', 'until', 'as_of', 'profile', 'rerank', 'now']) {
    if (params.get(name)) question[name] = params.get(name);
  }
  for (const name of ['k', 'budget']) if (params.get(name)) question[name] = Number(params.get(name));
  if (params.get('current_only')) question.current_only = true;
  const entities = (params.get('entities') ?? '')
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean);
  if (entities.length) question.entities = entities;
  return question;
}

/**
 * @param {Answer} answer
 * @param {import('./api.js').Json} question
 */
function shown(answer, question) {
  const n = answer.trace.candidates.length;
  const left = leftOut(answer);
  fill(
    body,
    h(
      'div',
      { class: 'main-column' },
      h('h2', { class: 'sr' }, 'Items'),
      ...notices(answer),
      h(
        'p',
        { class: 'summary' },
        h('strong', {}, plural(answer.items.length, 'item')),
        ` of ${plural(n, 'candidate')} in ${millis(answer.ms.total)} ms`,
        h('span', { class: 'dim' }, ` · ${answer.profile} · generation ${answer.snapshot}`),
      ),
      ...(answer.items.length ? list(answer) : nothing(answer)),
    ),
    h(
      'aside',
      { class: 'side', 'aria-label': 'How it was found' },
      panel('Stages', 'stages-title', ...waterfall(answer)),
      panel('Context', 'context-title', ...context(answer)),
      panel(`Left out${left && `: ${left}`}`, 'left-title', ...dropped(answer)),
      panel('Why not?', 'why-not-title', whyNot(question)),
    ),
  );
  announce(
    answer.skipped
      ? 'Skipped: the question needs no memory.'
      : `${plural(answer.items.length, 'item')} in ${millis(answer.ms.total)} ms`,
  );
}

/** @param {Answer} answer */
function notices(answer) {
  const skip = answer.trace.stages.find((stage) => stage.stage === 'route')?.skip_score;
  return [
    answer.degraded.length
      ? notice(
          'warn',
          h('strong', {}, 'Degraded. '),
          'Not all that was asked for could be done: ',
          h('ul', {}, ...answer.degraded.map((one) => h('li', {}, one))),
        )
      : null,
    answer.skipped
      ? notice(
          'warn',
          h('strong', {}, 'Skipped. '),
          `This question needs no memory${skip ? ` (score ${skip.toFixed(2)})` : ''}, so nothing was searched. `,
          'A filter forces a search: choose a project, a type, a speaker or a time.',
        )
      : null,
  ];
}

/** @param {Answer} answer */
function nothing(answer) {
  if (answer.skipped) return [];
  const route = answer.trace.stages.find((stage) => stage.stage === 'route');
  const none = route && !route.rows_out;
  return [h('p', { class: 'empty' }, none ? 'The filters leave nothing to search.' : 'Nothing was found.')];
}

/**
 * Before the first question: what there is.
 * @param {number} turn
 */
async function welcome(turn) {
  busy(true);
  try {
    const there = await choices();
    if (turn !== asked) return;
    fill(body, there.items ? overview(there) : empty());
    if (Object.keys(values(form)).length) by('q').focus(); // a filter was chosen: what is asked of it?
  } catch (error) {
    if (turn === asked) fill(body, failure(error));
  } finally {
    if (turn === asked) busy(false);
  }
}

/** @param {import('./api.js').Choices} there */
function overview(there) {
  const span = there.first && there.last ? `, ${day(there.first)} to ${day(there.last)}` : '';
  const kinds = (
    /** @type {string} */ title,
    /** @type {string} */ name,
    /** @type {Record<string, number>} */ counts,
  ) => {
    const entries = Object.entries(counts).slice(0, 12);
    const link = (/** @type {[string, number]} */ [value, n]) =>
      h('li', {}, h('a', { href: href('ask', { [name]: value }) }, value), h('span', { class: 'dim' }, ` ${count(n)}`));
    return entries.length ? h('div', {}, h('h3', {}, title), h('ul', { class: 'plain' }, ...entries.map(link))) : null;
  };
  return h(
    'section',
    { class: 'panel overview', 'aria-labelledby': 'there' },
    h('h2', { id: 'there' }, `${plural(there.items, 'item')} in ${plural(there.sessions, 'session')}${span}`),
    h(
      'div',
      { class: 'columns' },
      kinds('Projects', 'project', there.projects),
      kinds('Types', 'type', there.types),
      kinds('Speakers', 'speaker', there.speakers),
    ),
  );
}

function empty() {
  return notice(
    'warn',
    h('strong', {}, 'Nothing is stored yet. '),
    'Give it transcripts: ',
    h('code', {}, 'helix ingest PATH --store STORE'),
    '. What is published is taken without a restart.',
  );
}
