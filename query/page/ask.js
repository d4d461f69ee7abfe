// @ts-check
/** The question and its answer: the items, and the trace of the recall. */

import { getChoices, recall } from './api.js';
import { showContext } from './context.js';
import { announce, byId, fill, h } from './dom.js';
import { countDropped, makeWhyNot, showDropped } from './dropped.js';
import { offerChoices, readValues, restore } from './fields.js';
import { listItems } from './items.js';
import { failure, notice, panel } from './marks.js';
import { go, href } from './route.js';
import { capitalise, count, day, millis, plural, share } from './text.js';
import { drawStages } from './waterfall.js';

/** @typedef {import('./api.js').Answer} Answer */

const form = /** @type {HTMLFormElement} */ (byId('ask-form'));
const body = byId('answer');
const MORE = ['min_relevance', 'since', 'until', 'as_of', 'ingested_as_of', 'session', 'entities', 'quality', 'rerank', 'current_only'];
let calls = 0;
let shown = ''; // the address whose answer is shown
/** @type {HTMLElement | null} */
let lastFocus = null; // within the answer

form.addEventListener('submit', (event) => {
  event.preventDefault();
  go(href('ask', readValues(form)));
});

byId('clear').addEventListener('click', () => {
  const { q } = readValues(form);
  go(href('ask', { q }));
  byId('q').focus();
});

form.addEventListener('input', showFilters);

/** Show and return the number of filters that are set. */
function showFilters() {
  const given = readValues(form);
  const more = MORE.filter((name) => given[name]).length;
  const set = byId('set');
  set.hidden = !more;
  set.textContent = `${more} set`;
  byId('clear').hidden = !Object.keys(given).some((name) => name !== 'q');
  return more;
}

body.addEventListener('focusin', (event) => {
  lastFocus = /** @type {HTMLElement} */ (event.target);
});

/** Return the last focused element of the answer, if it still exists. */
export function getFocus() {
  return lastFocus?.isConnected ? lastFocus : null;
}

/**
 * Ask the address's question. An answer that is already shown stays as it was.
 * @param {import('./route.js').Route} route
 */
export async function show({ params, entered }) {
  restore(form, params);
  if (showFilters()) /** @type {HTMLDetailsElement} */ (byId('more')).open = true;
  if (entered && shown && shown === params.toString()) return;
  shown = '';
  const call = ++calls;
  fillForm();
  if (!params.get('q')) return showOverview(call);
  setBusy(true);
  try {
    const question = readQuestion(params);
    const answer = await recall(question);
    if (call !== calls) return;
    showAnswer(answer, question);
    shown = params.toString();
  } catch (error) {
    if (call === calls) {
      fill(body, failure(error));
      announce('The request failed.');
    }
  } finally {
    if (call === calls) setBusy(false);
  }
}

/** @param {boolean} on */
function setBusy(on) {
  body.setAttribute('aria-busy', String(on));
  if (on && !body.hasChildNodes()) fill(body, h('p', { class: 'dim' }, '…'));
}

/** What there is to choose from. Without it the fields are as they are, and the question says what is wrong. */
async function fillForm() {
  try {
    const choices = await getChoices();
    for (const name of /** @type {const} */ (['project', 'type', 'speaker']))
      offerChoices(form, name, choices[`${name}s`]);
    offerProfiles(choices.profiles);
  } catch {
    // The answer shows the error.
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
 * Read the arguments of a recall from the address.
 * @param {URLSearchParams} params
 * @returns {import('./api.js').Json}
 */
export function readQuestion(params) {
  /** @type {import('./api.js').Json} */
  const question = { query: params.get('q') ?? '' };
  const filters = ['project', 'type', 'speaker', 'session', 'since', 'until', 'as_of', 'ingested_as_of'];
  const words = [...filters, 'profile', 'mode', 'quality', 'rerank', 'now'];
  for (const name of words) if (params.get(name)) question[name] = params.get(name);
  for (const name of ['k', 'budget', 'look_back', 'min_relevance']) if (params.get(name)) question[name] = Number(params.get(name));
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
function showAnswer(answer, question) {
  const n = answer.trace.candidates.length;
  const left = countDropped(answer);
  fill(
    body,
    h(
      'div',
      { class: 'main-column' },
      h('h2', { class: 'sr' }, 'Items'),
      ...listNotices(answer),
      h(
        'p',
        { class: 'summary' },
        h('strong', {}, plural(answer.items.length, 'item')),
        ` of ${plural(n, 'candidate')} in ${millis(answer.ms.total)} ms`,
        h(
          'span',
          { class: 'dim' },
          ` · ${share(answer.answered)} likely to help · ${answer.profile} · generation ${answer.snapshot}`,
        ),
      ),
      ...(answer.items.length ? listItems(answer) : explainEmpty(answer)),
    ),
    h(
      'aside',
      { class: 'side', 'aria-label': 'Trace' },
      panel('Stages', 'stages-title', ...drawStages(answer)),
      panel('Context', 'context-title', ...showContext(answer)),
      panel(`Left out${left && `: ${left}`}`, 'left-title', ...showDropped(answer)),
      panel('Why not?', 'why-not-title', makeWhyNot(question)),
    ),
  );
  announce(
    answer.skipped
      ? 'Skipped: the question needs no memory.'
      : `${plural(answer.items.length, 'item')} in ${millis(answer.ms.total)} ms`,
  );
}

/** @param {Answer} answer */
function listNotices(answer) {
  const skip = answer.trace.stages.find((stage) => stage.stage === 'route')?.skip_score;
  return [
    answer.degraded.length
      ? notice(
          'warn',
          h('strong', {}, 'Degraded. '),
          'Parts of the recall were not possible: ',
          h('ul', {}, ...answer.degraded.map((one) => h('li', {}, one))),
        )
      : null,
    answer.items.length && !answer.relevant
      ? notice(
          'warn',
          h('strong', {}, 'Nothing relevant. '),
          `The answer is ${share(answer.answered)} likely to help; these items are only the nearest.`,
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
function explainEmpty(answer) {
  if (answer.skipped) return [];
  if (answer.notice) return [h('p', { class: 'empty' }, `${capitalise(answer.notice)}.`)];
  const route = answer.trace.stages.find((stage) => stage.stage === 'route');
  const none = route && !route.rows_out;
  return [h('p', { class: 'empty' }, none ? 'The filters leave nothing to search.' : 'Nothing was found.')];
}

/**
 * Show the store's content before the first question.
 * @param {number} call
 */
async function showOverview(call) {
  setBusy(true);
  try {
    const choices = await getChoices();
    if (call !== calls) return;
    fill(body, choices.items ? makeOverview(choices) : explainEmptyStore());
    if (Object.keys(readValues(form)).length) byId('q').focus(); // a filter is set, so the question comes next
  } catch (error) {
    if (call === calls) fill(body, failure(error));
  } finally {
    if (call === calls) setBusy(false);
  }
}

/** @param {import('./api.js').Choices} choices */
function makeOverview(choices) {
  const span = choices.first && choices.last ? `, ${day(choices.first)} to ${day(choices.last)}` : '';
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
    h('h2', { id: 'there' }, `${plural(choices.items, 'item')} in ${plural(choices.sessions, 'session')}${span}`),
    h(
      'div',
      { class: 'columns' },
      kinds('Projects', 'project', choices.projects),
      kinds('Types', 'type', choices.types),
      kinds('Speakers', 'speaker', choices.speakers),
    ),
  );
}

function explainEmptyStore() {
  return notice(
    'warn',
    h('strong', {}, 'Nothing is stored yet. '),
    'Give it transcripts: ',
    h('code', {}, 'helix ingest PATH --store STORE'),
    '. New generations appear without a restart.',
  );
}
