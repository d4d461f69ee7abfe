// @ts-check
/** Sessions over time by project, and one session in reading order. */

import { get, getChoices } from './api.js';
import { findSpan, getPlace, makeRuler } from './axis.js';
import { announce, bar, byId, h, percent, s } from './dom.js';
import { offerChoices, readValues, restore } from './fields.js';
import { listTurns } from './item.js';
import { load, pager, panel } from './marks.js';
import { go, href } from './route.js';
import { capitalise, count, cut, formatTime, getBaseName, plural, toMs } from './text.js';

/**
 * @typedef {{session: string, project: string, title: string | null, source: string, began: string | null,
 *   ended: string | null, items: number, types: Record<string, number>, speakers: string[], first: string}} Session
 * @typedef {{total: number, offset: number, sessions: Session[], notice: string | null}} Sessions
 */

const PAGE = 100;
const TURNS = 100;
const TIMES = ['as_of', 'ingested_as_of'];
const FILTERS = ['project', 'since', 'until', ...TIMES];
const form = /** @type {HTMLFormElement} */ (byId('timeline-form'));
const title = byId('timeline-title');
const body = byId('timeline-body');
let calls = 0;

form.addEventListener('submit', (event) => {
  event.preventDefault();
  go(href('timeline', readValues(form)));
});

/** @param {import('./route.js').Route} route */
export async function show({ params }) {
  const call = ++calls;
  const session = params.get('session');
  form.hidden = Boolean(session);
  title.textContent = session ? 'Session' : 'Timeline';
  restore(form, params);
  await load(
    body,
    () => call === calls,
    () => (session ? loadSession(session, params) : loadSessions(params)),
  );
}

/** @param {URLSearchParams} params */
async function loadSessions(params) {
  const within = Object.fromEntries(FILTERS.map((name) => [name, params.get(name)]));
  const offset = Number(params.get('offset')) || 0;
  const [found, choices] = await Promise.all([
    get('/v1/timeline', { ...within, offset, limit: PAGE }),
    getChoices(),
  ]);
  offerChoices(form, 'project', choices.projects);
  announce(plural(found.total, 'session'));
  const empty = found.notice ? `${capitalise(found.notice)}.` : 'No session is from that time.';
  if (!found.sessions.length) return [h('p', { class: 'empty' }, empty)];
  const end = offset + found.sessions.length;
  const text = `${count(offset + 1)} to ${count(end)} of ${plural(found.total, 'session')}, newest first`;
  return [
    drawLanes(found.sessions),
    makeTable(found.sessions),
    pager(
      { offset, size: PAGE, end, total: found.total },
      ['Newer', 'Older'],
      (to) => href('timeline', { ...within, offset: to }),
      h('span', { class: 'dim' }, text),
    ),
  ];
}

/**
 * Draw one lane per project and one mark per session, sized by its items. The table below says the same in words.
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
  const label = s('title', {}, `${getTitle(one)}, ${formatTime(one.began)}, ${plural(one.items, 'item')}`);
  const open = () => go(href('timeline', { session: one.session }));
  return s(
    'g',
    { class: 'mark', onclick: open },
    label,
    s('line', { x1: percent(from), x2: percent(to), y1: 17, y2: 17 }),
    s('circle', { cx: percent((from + to) / 2), cy: 17, r: radius.toFixed(1) }),
  );
}

/** @param {Session} one */
function getTitle(one) {
  return one.title ?? one.session;
}

/** @param {Session[]} all */
function makeTable(all) {
  const most = Math.max(...all.map((one) => one.items));
  const head = ['began', 'session', 'project', 'items', 'speakers', 'first words'].map((name) =>
    h('th', { scope: 'col', class: name === 'items' ? 'num' : null }, name),
  );
  return h(
    'div',
    { class: 'panel scroll' },
    h(
      'table',
      { class: 'sessions' },
      h('thead', {}, h('tr', {}, ...head)),
      h('tbody', {}, ...all.map((one) => makeRow(one, most))),
    ),
  );
}

/**
 * @param {Session} one
 * @param {number} most
 */
function makeRow(one, most) {
  const kinds = Object.entries(one.types).map(([type, n]) => bar(`share type-fill-${type}`, n / most));
  const text = Object.entries(one.types)
    .map(([type, n]) => `${n} ${type}`)
    .join(', ');
  return h(
    'tr',
    {},
    h('td', { class: 'nowrap' }, formatTime(one.began)),
    h(
      'th',
      { scope: 'row' },
      h('a', { href: href('timeline', { session: one.session }), 'data-stop': true, title: one.source }, getTitle(one)),
      one.title ? h('span', { class: 'dim mono small' }, cut(one.session, 24)) : null,
      h('span', { class: 'dim small narrow' }, one.project),
    ),
    h('td', {}, one.project),
    h(
      'td',
      { class: 'num' },
      count(one.items),
      h('div', { class: 'shares thin', role: 'img', 'aria-label': text, title: text }, ...kinds),
    ),
    h('td', { class: 'dim' }, one.speakers.join(', ')),
    h('td', { class: 'dim begins' }, cut(one.first, 110)),
  );
}

/**
 * @param {string} name
 * @param {URLSearchParams} params
 */
async function loadSession(name, params) {
  const offset = Number(params.get('offset')) || 0;
  const times = Object.fromEntries(TIMES.map((one) => [one, params.get(one)]));
  const found = await get(`/v1/sessions/${encodeURIComponent(name)}`, { ...times, offset, limit: TURNS });
  const end = offset + found.items.length;
  const first = found.items[0];
  announce(`session ${cut(first?.title ?? name, 60)}, ${plural(found.total, 'item')}`);
  return [
    h(
      'p',
      { class: 'summary' },
      h('a', { class: 'button', href: href('timeline'), 'data-close': true }, 'All sessions'),
      h('strong', {}, first?.title ?? name),
      h('span', { class: 'dim' }, ` ${found.project} · ${formatTime(found.began)} to ${formatTime(found.ended)}`),
      h('span', { class: 'dim' }, ` · ${plural(found.total, 'item')}${first ? ` · ${getBaseName(first.source)}` : ''}`),
      h('a', { class: 'button', href: href('ask', { session: name }) }, 'Ask in this session'),
    ),
    found.notice
      ? h('p', { class: 'empty' }, `${capitalise(found.notice)}.`)
      : panel(`Turns ${count(offset + 1)} to ${count(end)}`, 'turns-title', listTurns(found.items)),
    pager({ offset, size: TURNS, end, total: found.total }, ['Earlier turns', 'Later turns'], (to) =>
      href('timeline', { session: name, ...times, offset: to }),
    ),
  ];
}
