// @ts-check
/** The answer to the question of the address: the items first, their conversation next to them, the reasons on demand. */

import { getRights } from './actions.js';
import { getChoices, recall, recallExplained } from './api.js';
import { showChips } from './chips.js';
import { announce, byId, fill, h } from './dom.js';
import { loadMarkdown } from './markdown.js';
import { empty, explainEmptyStore, failure, meter, notice, skeleton } from './marks.js';
import { showPassage } from './passage.js';
import { FILTERS, readQuestion, toValues } from './question.js';
import { listItems } from './result.js';
import { href } from './route.js';
import { showQuestion } from './search.js';
import { capitalise, count, millis, plural, share, wordRelevance } from './text.js';

/** @typedef {import('./api.js').Answer} Answer */

const body = byId('answer');
const list = h('div', { class: 'main-column' });
const pane = h('aside', { class: 'pane', 'aria-label': 'The conversation of the chosen item' });
const IDLE = 180; // milliseconds without a new answer before the conversation loads
let shown = ''; // the address whose answer is shown
let wanted = ''; // the address that is asked, or was last
let asking = false;
let isCurrent = false; // the shown answer was one, and nothing has been changed since
/** @type {HTMLElement | null} */
let lastFocus = null; // within the answer
/** @type {ReturnType<typeof setTimeout> | undefined} */
let idle;

window.addEventListener('changed', () => {
  isCurrent = false;
  fill(list, skeleton(8)); // what is gone is not shown, nor asked for
  fill(pane);
  pane.hidden = true;
});
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
  const q = params.get('q') ?? '';
  showQuestion(q);
  if (entered && isCurrent && shown === params.toString()) return;
  if (!q) {
    wanted = shown = '';
    showChips(params);
    fill(body, empty('Ask a question', 'The answer appears while you type: an error, a path, a name, or a whole sentence.'));
    return;
  }
  wanted = params.toString();
  body.setAttribute('aria-busy', 'true');
  if (!body.contains(list)) {
    showChips(params);
    fill(list, skeleton(8));
    fill(body, list, pane);
  }
  if (asking) return;
  shown = ''; // the same question again: it was sent, or something changed
  await askLatest();
}

/** Ask what is wanted, one question at a time: what is typed meanwhile comes next, and nothing in between. */
async function askLatest() {
  asking = true;
  try {
    while (wanted && shown !== wanted) {
      const now = wanted;
      const params = new URLSearchParams(now);
      try {
        const [answer] = await Promise.all([recall(readQuestion(params)), loadMarkdown(), getRights()]);
        if (!wanted) return;
        isCurrent = true;
        showAnswer(answer, params);
      } catch (error) {
        if (!wanted) return;
        isCurrent = false;
        if (/** @type {any} */ (error).status === 0 && list.querySelector('.result')) return; // a line above says so
        showChips(params);
        fill(list, failure(error));
        fill(pane);
        pane.hidden = true;
        announce('The request failed.');
      }
      shown = now;
    }
  } finally {
    asking = false;
    body.setAttribute('aria-busy', 'false');
  }
}

/**
 * @param {Answer} answer
 * @param {URLSearchParams} params
 */
function showAnswer(answer, params) {
  showChips(params, answer.trace.hints);
  const getExplained = makeExplainer(readQuestion(params));
  const items = listItems(answer, { choose, getExplained });
  fill(
    list,
    h('h2', { class: 'sr' }, 'Items'),
    showDegraded(answer),
    showVerdict(answer, params, getExplained),
    items,
    answer.skipped ? null : makeReasons(answer, params, getExplained),
  );
  announce(describe(answer));
  clearTimeout(idle);
  fill(pane);
  const first = answer.relevant ? answer.items[0] : undefined;
  if (first) idle = setTimeout(() => choose(first.id), IDLE);
  else pane.hidden = true;
}

/**
 * Make a function that returns the answer with what every stage did, requested when it is first needed.
 * @param {import('./api.js').Json} question
 * @returns {() => Promise<import('./api.js').Explained>}
 */
function makeExplainer(question) {
  /** @type {Promise<import('./api.js').Explained> | null} */
  let found = null;
  return () => {
    found ??= recallExplained(question).catch((error) => {
      found = null; // the next one asks again
      throw error;
    });
    return found;
  };
}

/** @param {Answer} answer */
function describe(answer) {
  if (answer.skipped) return 'Skipped: the question needs no memory.';
  if (answer.items.length && !answer.relevant) return `Nothing relevant; the ${plural(answer.items.length, 'nearest item', 'nearest items')} in ${millis(answer.ms.total)} ms`;
  return `${plural(answer.items.length, 'item')} in ${millis(answer.ms.total)} ms`;
}

/**
 * Show a result's conversation: in the pane, or below the result where there is no room for one.
 * @param {string} id
 */
function choose(id) {
  clearTimeout(idle);
  for (const card of list.querySelectorAll('.result')) card.classList.toggle('chosen', /** @type {HTMLElement} */ (card).dataset.item === id);
  pane.hidden = false;
  if (getComputedStyle(pane).display === 'none') return;
  idle = setTimeout(() => showPassage(pane, id, getWords(id)), pane.hasChildNodes() ? 60 : 0);
}

/** @param {string} id */
function getWords(id) {
  const card = /** @type {HTMLElement | null} */ (list.querySelector(`.result[data-item="${CSS.escape(id)}"]`));
  return (card?.dataset.words ?? '').split('\n').filter(Boolean);
}

/** @param {Answer} answer */
function showDegraded(answer) {
  if (!answer.degraded.length) return null;
  const reasons = h('ul', {}, ...answer.degraded.map((one) => h('li', {}, one)));
  return notice('warn', h('strong', {}, 'Degraded. '), 'Parts of the recall were not possible: ', reasons);
}

/**
 * Say how likely the answer helps, or why there is none.
 * @param {Answer} answer
 * @param {URLSearchParams} params
 * @param {() => Promise<import('./api.js').Explained>} getExplained
 */
function showVerdict(answer, params, getExplained) {
  if (answer.skipped)
    return empty(
      'This question needs no memory',
      'Nothing was searched. A filter forces a search: choose a project, a type, a speaker or a time.',
    );
  if (!answer.items.length) return explainEmpty(answer, params, getExplained);
  const words = wordRelevance(answer.answered);
  const cost = h('span', { class: 'cost nowrap' }, `${plural(answer.items.length, 'item')} · ${millis(answer.ms.total)} ms`);
  if (answer.relevant)
    return h('p', { class: 'verdict', title: `${share(answer.answered)} likely to help` }, meter(answer.answered), ' ', h('span', { class: 'nowrap' }, `An answer is ${words} here`), ' ', cost);
  return h(
    'div',
    { class: 'verdict nothing' },
    h('p', { class: 'empty-title' }, 'Nothing relevant'),
    h('p', {}, `This memory most likely has no answer (${share(answer.answered)}). The nearest items are below, dimmed.`),
    makeWider(params),
  );
}

/**
 * Offer the question without its filters.
 * @param {URLSearchParams} params
 */
function makeWider(params) {
  const given = FILTERS.filter((name) => name !== 'now' && params.get(name));
  if (!given.length) return null;
  const rest = Object.fromEntries(Object.entries(toValues(params)).filter(([name]) => !given.includes(name)));
  return h('p', {}, h('a', { href: href('ask', rest) }, 'Ask without filters'));
}

/**
 * @param {Answer} answer
 * @param {URLSearchParams} params
 * @param {() => Promise<import('./api.js').Explained>} getExplained
 */
function explainEmpty(answer, params, getExplained) {
  if (answer.notice) return empty(`${capitalise(answer.notice)}.`, makeWider(params));
  const place = h('div', {}, empty('Nothing was found.', makeWider(params)));
  void explainNothing(place, params, getExplained);
  return place;
}

/**
 * Say how to begin, where nothing is stored yet, or that filters leave nothing.
 * @param {HTMLElement} place
 * @param {URLSearchParams} params
 * @param {() => Promise<import('./api.js').Explained>} getExplained
 */
async function explainNothing(place, params, getExplained) {
  try {
    const [choices, { trace }] = await Promise.all([getChoices(), getExplained()]);
    const route = trace.stages.find((stage) => stage.stage === 'route');
    if (!choices.items) fill(place, explainEmptyStore());
    else if (route && !route.rows_out) fill(place, empty('The filters leave nothing to search.', makeWider(params)));
  } catch {
    // "Nothing was found" is true all the same.
  }
}

/**
 * Make the explanation of the whole answer, which is built when it is opened.
 * @param {Answer} answer
 * @param {URLSearchParams} params
 * @param {() => Promise<import('./api.js').Explained>} getExplained
 */
function makeReasons(answer, params, getExplained) {
  const inside = h('div', { class: 'reasons' });
  let isShown = false;
  const details = h(
    'details',
    { class: 'how', id: 'how', ontoggle: async () => {
      if (!details.open || isShown) return;
      fill(inside, skeleton(4));
      try {
        const [{ explainAnswer }, explained] = await Promise.all([import('./reasons.js'), getExplained()]);
        fill(inside, ...explainAnswer(explained, readQuestion(params)));
        isShown = true;
        details.scrollIntoView({ block: 'start' });
      } catch (error) {
        fill(inside, failure(error));
      }
    } },
    h('summary', {}, 'How this was found: ', h('span', { class: 'dim' }, `${count(answer.tokens)} tokens of context, generation ${answer.snapshot}`)),
    inside,
  );
  return details;
}
