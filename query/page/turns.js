// @ts-check
/** Turns of a conversation: what people and agents say, with the calls of tools folded. */

import { h } from './dom.js';
import { render } from './markdown.js';
import { badge, nameVoice, showReplacement, voice, when } from './marks.js';
import { toItem } from './route.js';
import { alignListing, cut, formatAge, formatDay, formatTime, getBaseName } from './text.js';

/**
 * @typedef {import('./api.js').Stored} Stored
 * @typedef {{tool: string, target: string}} Call
 * @typedef {Record<string, any>} Step
 */

const CALL = /^\[([A-Za-z][^\]\n]{0,60})\][ \t]?(.*)$/;
const SHOWN = 3000; // characters of a turn before "show all"
const SHORT = 160;

/**
 * Split an agent's text into prose and calls of tools, each on a line of its own such as `[Bash] make test`.
 * @param {string} text
 * @returns {{prose: string, calls: Call[]}}
 */
export function splitCalls(text) {
  /** @type {string[]} */
  const prose = [];
  /** @type {Call[]} */
  const calls = [];
  let fenced = false;
  for (const line of text.split('\n')) {
    if (/^\s*(?:```|~~~)/.test(line)) fenced = !fenced;
    const call = fenced ? null : CALL.exec(line);
    if (call) calls.push({ tool: call[1], target: call[2] });
    else prose.push(line);
  }
  return { prose: prose.join('\n').trim(), calls };
}

/**
 * Make the turns of a passage, in reading order; runs of calls and results become one fold.
 * @param {Stored[]} items
 * @param {{here?: string, words?: string[], steps?: Record<string, Step[]>, fixes?: Map<string, Step>, decided?: Set<string>,
 *   act?: (item: Stored) => import('./dom.js').Child, day?: string}} [options] `day`: of the turn before the first
 */
export function makeTurns(items, options = {}) {
  /** @type {HTMLElement[]} */
  const out = [];
  /** @type {Stored[]} */
  let run = [];
  /** @type {Call[]} */
  let asked = []; // calls of the turn before the run
  const flush = () => {
    if (run.length) out.push(makeFold(run, asked, options));
    run = [];
  };
  let day = options.day ?? '';
  for (const item of items) {
    const own = item.time && item.time_quality !== 'file' ? item.time.slice(0, 10) : day;
    if (own !== day) {
      flush();
      out.push(h('li', { class: 'day' }, h('time', { datetime: own }, formatDay(own))));
      day = own;
    }
    const isWork = item.role === 'tool' || (item.role === 'assistant' && !splitCalls(item.text).prose);
    if (isWork) {
      run.push(item);
    } else {
      flush();
      out.push(makeTurn(item, options));
      asked = item.role === 'assistant' ? splitCalls(item.text).calls : [];
    }
  }
  flush();
  return out;
}

/**
 * Remove the heading of a day that is already above.
 * @param {Element} list
 */
export function dropRepeatedDays(list) {
  let day = '';
  for (const heading of list.querySelectorAll(':scope > .day > time')) {
    const own = heading.getAttribute('datetime') ?? '';
    if (own === day) heading.parentElement?.remove();
    day = own;
  }
}

/**
 * @param {Stored} item
 * @param {Parameters<typeof makeTurns>[1]} options
 */
function makeTurn(item, options = {}) {
  const { prose, calls } = item.role === 'assistant' ? splitCalls(item.text) : { prose: item.text, calls: [] };
  const here = item.id === options.here;
  const side = item.role === 'user' && !item.speaker ? 'turn mine' : 'turn';
  return h(
    'li',
    { class: here ? `${side} here` : side, id: `turn-${item.id}`, 'aria-current': here ? 'true' : null },
    makeHead(item, options),
    item.title && item.role === 'document' ? h('p', { class: 'dim small' }, item.title) : null,
    makeText(prose, options.words, SHOWN, item.role !== 'document'),
    listCalls(calls),
    showReplacement(item.replaced_by),
  );
}

/** @param {Call[]} calls */
function listCalls(calls) {
  return calls.map((call) => h('p', { class: 'call' }, h('b', {}, call.tool), ' ', h('code', {}, cut(call.target, SHORT))));
}

/**
 * @param {Stored} item
 * @param {Parameters<typeof makeTurns>[1]} options
 */
function makeHead(item, options = {}) {
  return h(
    'p',
    { class: 'turn-head' },
    voice(item),
    ' ',
    h('a', { class: 'quiet-link', href: toItem(item), 'data-stop': true, 'data-item': item.id,
      'aria-label': `turn of ${nameVoice(item) || 'a document'}: ${cut(item.text, 60)}` }, clock(item)),
    options.decided?.has(item.id) ? [' ', badge('decision')] : null,
    options.act ? [' ', options.act(item)] : null,
  );
}

/**
 * Show the time of a turn within its day; the day is above.
 * @param {Stored} item
 */
function clock(item) {
  if (!item.time || item.time_quality === 'file') return when(item.time, item.time_quality);
  return h('time', { class: 'when', datetime: item.time, title: `${formatTime(item.time)} UTC, ${formatAge(item.time)}` }, item.time.slice(11, 16));
}

/**
 * Show a text as Markdown; a long one up to a point, with a button for the rest.
 * @param {string} text
 * @param {string[]} [words]
 * @param {number} [most]
 * @param {boolean} [breaks]
 */
export function makeText(text, words = [], most = SHOWN, breaks = true) {
  const box = h('div', { class: 'text' }, cut(text, most));
  const long = text.length > most * 1.2;
  void render(box, long ? `${text.slice(0, most)}…` : text, words, breaks);
  if (!long) return box;
  const more = h('button', { type: 'button', class: 'quiet more-text', onclick: () => {
    more.remove();
    void render(box, text, words, breaks);
  } }, 'Show all');
  return h('div', {}, box, more);
}

/**
 * Fold a run of calls and results: what ran, and what failed.
 * @param {Stored[]} run
 * @param {Call[]} asked calls of the turn before it
 * @param {Parameters<typeof makeTurns>[1]} options
 */
function makeFold(run, asked, options = {}) {
  const calls = run.flatMap((item) => (item.role === 'assistant' ? splitCalls(item.text).calls : []));
  const steps = run.flatMap((item) => options.steps?.[item.id] ?? []);
  const failed = steps.filter((step) => step.outcome === 'failed');
  const here = run.some((item) => item.id === options.here);
  const tools = [...new Set(calls.map((call) => call.tool))].slice(0, 4);
  const first = run[0].role === 'tool' ? [`Result${asked.length ? ` of ${[...new Set(asked.map((call) => call.tool))].join(', ')}` : ''}`] : [];
  const names = [...first, ...tools].join(', ');
  const targets = calls.map((call) => getBaseName(call.target.trim())).filter(Boolean);
  const n = Math.max(1, calls.length);
  const fixed = run.some((item) => options.fixes?.get(item.id));
  const details = h(
    'details',
    { class: failed.length ? 'fold failed' : 'fold', open: here },
    h(
      'summary',
      { 'data-stop': true, 'data-item': run[0].id },
      h('b', {}, names),
      h('span', { class: 'dim' }, n > 1 ? ` ${n} calls ` : ' ', h('code', {}, cut(targets.join(' · ') || run[0].text, 72))),
      failed.length ? h('span', { class: 'flag bad' }, fixed ? 'failed, fixed later' : 'failed') : null,
    ),
    h('ol', { class: 'work' }, run.map((item) => makeWork(item, options))),
  );
  return h('li', { class: here ? 'turn tools here' : 'turn tools' }, details);
}

/**
 * @param {Stored} item
 * @param {Parameters<typeof makeTurns>[1]} options
 */
function makeWork(item, options = {}) {
  const own = options.steps?.[item.id] ?? [];
  const fix = options.fixes?.get(item.id);
  const bad = own.some((step) => step.outcome === 'failed');
  return h(
    'li',
    { id: `turn-${item.id}`, class: `${bad ? 'bad ' : ''}${item.id === options.here ? 'here' : ''}`,
      'aria-current': item.id === options.here ? 'true' : null },
    h('p', { class: 'turn-head' }, h('span', { class: 'dim' }, item.role === 'tool' ? 'result' : 'call'), ' ',
      clock(item),
      own.filter((step) => step.exit_code).map((step) => h('span', { class: 'flag bad' }, `exit ${step.exit_code}`)),
      own.filter((step) => step.tests).map((step) => h('span', { class: 'flag' }, `${step.tests[0]} passed, ${step.tests[1]} failed`)),
      own.flatMap((step) => step.commits ?? []).map((commit) => h('span', { class: 'flag' }, `commit ${String(commit).slice(0, 10)}`)),
      options.act ? [' ', options.act(item)] : null),
    item.role === 'tool' ? makeOutput(item.text, options.words) : listCalls(splitCalls(item.text).calls),
    fix ? h('p', { class: 'fix' }, fix.line || 'Fixed later: ', ' ',
      fix.shown ? h('a', { href: toItem({ id: fix.shown, session: item.session }) }, 'where it passed') : null,
      fix.changes?.length ? [', ', h('a', { href: toItem({ id: fix.changes[fix.changes.length - 1], session: item.session }) }, 'the change')] : null) : null,
  );
}

/**
 * Show the output of a tool as it is.
 * @param {string} text
 * @param {string[]} [words]
 */
function makeOutput(text, words = []) {
  const box = h('pre', { class: 'output', tabindex: '0', role: 'group', 'aria-label': 'Output' }, cut2(alignListing(text), SHOWN));
  if (words.length) void import('./markdown.js').then(({ markWords }) => markWords(box, words));
  return box;
}

/**
 * @param {string} text
 * @param {number} most
 */
function cut2(text, most) {
  return text.length <= most ? text : `${text.slice(0, most)}…`;
}
