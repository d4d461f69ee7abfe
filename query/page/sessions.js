// @ts-check
/** Sessions over time by project, and as a list by day. */

import { get, getChoices } from './api.js';
import { findSpan, getPlace, makeRuler } from './axis.js';
import { announce, byId, h, percent, s } from './dom.js';
import { offerChoices, readValues, restore } from './fields.js';
import { makeSession } from './home.js';
import { empty, load, pager } from './marks.js';
import { go, href } from './route.js';
import { capitalise, count, formatTime, plural, toMs } from './text.js';

/** @typedef {Record<string, any>} Session */

const PAGE = 100;
const FILTERS = ['project', 'since', 'until', 'as_of', 'ingested_as_of'];
const form = /** @type {HTMLFormElement} */ (byId('sessions-form'));
const body = byId('sessions-body');
let calls = 0;

form.addEventListener('submit', (event) => {
  event.preventDefault();
  go(href('sessions', readValues(form)));
});

/** @param {import('./route.js').Route} route */
export async function show({ params }) {
  const call = ++calls;
  restore(form, params);
  await load(body, () => call === calls, () => loadSessions(params));
}

/** @param {URLSearchParams} params */
async function loadSessions(params) {
  const within = Object.fromEntries(FILTERS.map((name) => [name, params.get(name)]));
  const offset = Number(params.get('offset')) || 0;
  const [found, choices] = await Promise.all([get('/v1/timeline', { ...within, offset, limit: PAGE }), getChoices()]);
  offerChoices(form, 'project', choices.projects);
  announce(plural(found.total, 'session'));
  if (!found.sessions.length) return [empty(found.notice ? `${capitalise(found.notice)}.` : 'No session is from that time.')];
  const end = offset + found.sessions.length;
  const text = `${count(offset + 1)} to ${count(end)} of ${plural(found.total, 'session')}, newest first`;
  return [
    drawLanes(found.sessions),
    ...listDays(found.sessions),
    pager({ offset, size: PAGE, end, total: found.total }, ['Newer', 'Older'], (to) => href('sessions', { ...within, offset: to }),
      h('span', { class: 'dim' }, text)),
  ];
}

/**
 * List sessions by the month in which they ended.
 * @param {Session[]} all
 */
function listDays(all) {
  /** @type {Map<string, Session[]>} */
  const groups = new Map();
  for (const one of all) {
    const month = one.ended ? one.ended.slice(0, 7) : '';
    groups.set(month, [...(groups.get(month) ?? []), one]);
  }
  return [...groups].map(([month, own]) => h('section', { class: 'group' }, h('h2', {}, nameMonth(month)), h('ul', { class: 'rows sessions' },
    own.map((one) => makeSession(one, true)))));
}

/** @param {string} month */
function nameMonth(month) {
  if (!month) return 'Undated';
  return new Date(`${month}-01T00:00:00Z`).toLocaleDateString('en', { month: 'long', year: 'numeric', timeZone: 'UTC' });
}

/**
 * Draw one lane per project and one mark per session, sized by its items. The list below says the same in words.
 * @param {Session[]} all
 */
function drawLanes(all) {
  const dated = all.filter((one) => one.began && one.ended);
  if (!dated.length) return null;
  const span = findSpan(dated.flatMap((one) => [toMs(String(one.began)), toMs(String(one.ended))]));
  const lanes = [...new Set(dated.map((one) => one.project))];
  const most = Math.max(...dated.map((one) => one.items));
  const lane = (/** @type {string} */ project) =>
    h(
      'div',
      { class: 'lane' },
      h('span', { class: 'lane-name' }, project),
      s(
        'svg',
        { class: 'lane-track', height: 34 },
        s('line', { x1: '0', x2: '100%', y1: 17, y2: 17 }),
        ...dated.filter((one) => one.project === project).map((one) => drawMark(one, span, most)),
      ),
    );
  return h(
    'div',
    { class: 'panel strip', 'aria-hidden': 'true' },
    h('div', { class: 'lane' }, h('span', {}), makeRuler(span)),
    ...lanes.map(lane),
  );
}

/**
 * @param {Session} one
 * @param {import('./axis.js').Span} span
 * @param {number} most
 */
function drawMark(one, span, most) {
  const [from, to] = [getPlace(span, toMs(String(one.began))), getPlace(span, toMs(String(one.ended)))];
  const radius = 4 + 9 * Math.sqrt(one.items / most);
  const label = s('title', {}, `${one.title ?? one.first}, ${formatTime(one.began)}, ${plural(one.items, 'item')}`);
  const open = () => go(href('session', { session: one.session }));
  return s(
    'g',
    { class: 'mark', onclick: open },
    label,
    s('line', { x1: percent(from), x2: percent(to), y1: 17, y2: 17 }),
    s('circle', { cx: percent((from + to) / 2), cy: 17, r: radius.toFixed(1) }),
  );
}
