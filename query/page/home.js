// @ts-check
/** Home: the newest sessions by project, what holds, what is open, what changed this week, and questions to try. */

import { get } from './api.js';
import { byId, h } from './dom.js';
import { explainEmptyStore, load, nameBy, when } from './marks.js';
import { href, toItem } from './route.js';
import { capitalise, cleanLine, cut, day, plural } from './text.js';

/** @typedef {Record<string, any>} Json */

const body = byId('home-body');
const LATER = 400; // milliseconds until more questions are known: each is asked before it is shown
const PER_PROJECT = 4; // sessions
const FEW = 4; // projects that have a heading each
let calls = 0;

/** @param {import('./route.js').Route} route */
export async function show({ params }) {
  const call = ++calls;
  await load(body, () => call === calls, async () => {
    const home = await get('/v1/home', { project: params.get('project'), as_of: params.get('as_of') });
    if (home.questions.length < 4) setTimeout(() => call === calls && addTries(params), LATER);
    return home.items ? [makeHello(home), makeTries(home.questions), makeColumns(home)] : [explainEmptyStore()];
  });
}

/** @param {URLSearchParams} params */
async function addTries(params) {
  const home = await get('/v1/home', { project: params.get('project'), as_of: params.get('as_of') }).catch(() => null);
  if (home) body.querySelector('.tries')?.replaceWith(makeTries(home.questions));
}

/** @param {Json} home */
function makeHello(home) {
  const span = home.first && home.last ? `, ${day(home.first)} to ${day(home.last)}` : '';
  return h('div', {},
    h('p', { class: 'hello' }, home.project ? `What do you want to know about ${home.project}?` : 'What do you want to know?'),
    h('p', { class: 'dim' }, `${plural(home.items, 'item')} from ${plural(home.sessions, 'session')}${span}`,
      home.as_of ? `, as it was on ${day(home.as_of)}` : ''));
}

/** @param {{text: string}[]} questions */
function makeTries(questions) {
  if (!questions.length) return h('div', { class: 'tries' });
  return h('ul', { class: 'tries', 'aria-label': 'Questions to try' },
    questions.map((one) => h('li', {}, h('a', { href: href('ask', { q: one.text }), 'data-stop': true }, one.text))));
}

/** @param {Json} home */
function makeColumns(home) {
  return h('div', { class: 'home-grid' },
    h('div', {}, makeSection('Recent sessions', 'recent', href('sessions', { project: home.project }), listSessions(home.recent)),
      makeSection(nameWeek(home.week), 'week', '', listWeek(home.week))),
    h('div', {}, makeSection('What holds', 'holds', href('decisions', { project: home.project }), listHolds(home.holds)),
      makeSection('Open ends', 'open', '', listOpen(home.open))));
}

/**
 * @param {string} title
 * @param {string} id
 * @param {string} all address of the whole list
 * @param {import('./dom.js').Child} content
 */
function makeSection(title, id, all, content) {
  if (!content) return null;
  return h('section', { 'aria-labelledby': `${id}-title` },
    h('div', { class: 'over' }, h('h2', { id: `${id}-title` }, title), all ? h('a', { href: all, 'aria-label': `All: ${title.toLowerCase()}` }, 'All') : null), content);
}

/** @param {Json[]} sessions */
function listSessions(sessions) {
  /** @type {Map<string, Json[]>} */
  const groups = new Map();
  for (const one of sessions) groups.set(one.project, [...(groups.get(one.project) ?? []), one]);
  if (groups.size > FEW) return h('ul', { class: 'rows' }, sessions.map((one) => makeSession(one, true)));
  return [...groups].map(([project, own]) => h('div', { class: 'group' },
    h('h3', {}, h('a', { class: 'quiet-link', href: href('home', { project }) }, project)),
    h('ul', { class: 'rows' }, own.slice(0, PER_PROJECT).map((one) => makeSession(one)))));
}

/**
 * @param {Json} one
 * @param {boolean} [withProject]
 */
export function makeSession(one, withProject = false) {
  const decided = one.decided ?? [];
  return h('li', {},
    h('a', { class: 'title', href: href('session', { session: one.session }), 'data-stop': true }, cut(cleanLine(one.title || one.first || one.session), 100)),
    one.session.includes('~') ? h('span', { class: 'flag' }, 'branch') : null,
    h('p', { class: 'line' }, when(one.ended ?? one.file_time, one.ended ? null : 'file'),
      [one.agent ?? (one.speakers ?? []).slice(0, 3).join(', '), plural(one.items, 'item'), withProject && one.project].filter(Boolean).map((text) => ` · ${text}`)),
    decided.map((/** @type {Json} */ entry) => h('p', { class: 'decided-line' }, h('span', { class: 'flag decided' }, 'decided'), ' ',
      h('a', { class: 'plain', href: toItem({ id: entry.item, session: one.session }) }, cut(cleanLine(entry.text), 110)))));
}

/** @param {Json} week */
function nameWeek(week) {
  return Date.parse(week.until) > Date.now() - 2 * 86_400_000 ? 'This week' : `The week until ${day(week.until)}`;
}

/** @param {Json} week */
function listWeek(week) {
  if (!week.items) return h('p', { class: 'dim' }, 'Nothing came in.');
  return [
    h('p', { class: 'dim' }, `${plural(week.sessions, 'session')}, ${plural(week.items, 'item')}`),
    h('ul', { class: 'rows' },
      week.replaced.map((/** @type {Json} */ one) => h('li', {}, h('a', { class: 'plain', href: toItem({ id: one.item, session: one.session }) }, one.topic ? `${one.topic}: ` : '', cut(String(one.now ?? ''), 110)), ' ',
        one.was ? h('span', { class: 'then' }, cut(one.was, 80)) : null)),
      week.decided.map((/** @type {Json} */ one) => h('li', {}, h('a', { class: 'plain', href: toItem({ id: one.item, session: one.session }) }, cut(cleanLine(one.text), 130)), h('p', { class: 'line' }, when(one.since))))),
  ];
}

/** @param {Json} holds */
function listHolds(holds) {
  const rules = holds.rules.map((/** @type {Json} */ one) => h('li', {},
    h('a', { class: 'plain', href: toItem({ id: one.item, session: one.session }) }, cut(cleanLine(one.text), 160)),
    h('p', { class: 'line' }, h('span', { class: 'flag' }, one.kind), ' ', sayBy(one.by), when(one.since))));
  const decisions = holds.decisions.map((/** @type {Json} */ one) => makeDecision(one));
  if (!rules.length && !decisions.length) return h('p', { class: 'dim' }, 'No decision, rule or preference is known yet.');
  return h('ul', { class: 'rows' }, rules, decisions);
}

/**
 * @param {Json} one
 * @param {boolean} [withProject]
 */
export function makeDecision(one, withProject = true) {
  const before = one.replaced?.[0];
  return h('li', {},
    one.topic ? h('a', { class: 'title', href: href('subject', { name: one.topic }) }, capitalise(cleanLine(one.topic))) : null,
    h('div', {}, h('a', { class: 'plain', href: toItem({ id: one.item, session: one.session }), 'data-stop': true }, cut(cleanLine(one.text), 200))),
    before && (before.value || before.text) ? h('p', { class: 'line' }, 'before: ', h('span', { class: 'then' }, cut(before.value || before.text, 90))) : null,
    h('p', { class: 'line' }, sayBy(one.by), when(one.since), withProject && one.project ? ` · ${one.project}` : ''));
}

/** @param {Json[]} open */
function listOpen(open) {
  if (!open.length) return h('p', { class: 'dim' }, 'The last sessions left nothing open.');
  const kinds = /** @type {Record<string, string>} */ ({ failed: 'still fails', asked: 'not answered', left: 'left to do' });
  return h('ul', { class: 'rows' }, open.map((one) => h('li', {},
    h('a', { class: 'plain', href: toItem({ id: one.item, session: one.session }) }, cut(cleanLine(one.text), 180)),
    h('p', { class: 'line' }, h('span', { class: one.kind === 'failed' ? 'flag bad' : 'flag' }, kinds[one.kind]), ' ', when(one.time), one.project ? ` · ${one.project}` : ''))));
}

/**
 * Say who said something, before what follows; nothing for a document.
 * @param {string | null} by
 */
export function sayBy(by) {
  return by && by !== 'document' ? `${nameBy(by)} · ` : '';
}
