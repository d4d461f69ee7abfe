// @ts-check
/** Sessions over time, by project, and one session in its order. */

import { choices, get } from './api.js';
import { place, ruler, spanOf } from './axis.js';
import { announce, bar, by, fill, h, percent, s } from './dom.js';
import { offer, restore, values } from './fields.js';
import { turns } from './item.js';
import { failure, panel } from './marks.js';
import { go, href } from './route.js';
import { at, base, count, cut, plural, when } from './text.js';

/**
 * @typedef {{session: string, project: string, title: string | null, source: string, began: string | null,
 *   ended: string | null, items: number, types: Record<string, number>, speakers: string[], first: string}} Told
 * @typedef {{total: number, offset: number, sessions: Told[]}} Sessions
 */

const PAGE = 100;
const TURNS = 100;
const form = /** @type {HTMLFormElement} */ (by('timeline-form'));
const title = by('timeline-title');
const body = by('timeline-body');
let asked = 0;

form.addEventListener('submit', (event) => {
  event.preventDefault();
  go(href('timeline', values(form)));
});

/** @param {import('./route.js').Route} route */
export async function show({ params }) {
  const turn = ++asked;
  const session = params.get('session');
  form.hidden = Boolean(session);
  title.textContent = session ? 'Session' : 'Timeline';
  restore(form, params);
  body.setAttribute('aria-busy', 'true');
  try {
    const made = session ? await oneSession(session, params) : await sessions(params);
    if (turn === asked) fill(body, ...made);
  } catch (error) {
    if (turn === asked) fill(body, failure(error));
  } finally {
    if (turn === asked) body.setAttribute('aria-busy', 'false');
  }
}

/** @param {URLSearchParams} params */
async function sessions(params) {
  const [project, since, until] = ['project', 'since', 'until'].map((name) => params.get(name));
  const offset = Number(params.get('offset')) || 0;
  const [found, there] = await Promise.all([
    get('/v1/timeline', { project, since, until, offset, limit: PAGE }),
    choices(),
  ]);
  offer(form, 'project', there.projects);
  announce(plural(found.total, 'session'));
  if (!found.sessions.length) return [h('p', { class: 'empty' }, 'No session is of that time.')];
  const paged = (/** @type {string} */ words, /** @type {number} */ to) =>
    h('a', { class: 'button', href: href('timeline', { project, since, until, offset: to || '' }) }, words);
  const last = offset + found.sessions.length;
  return [
    strip(found.sessions),
    table(found.sessions),
    h(
      'p',
      { class: 'pages' },
      h(
        'span',
        { class: 'dim' },
        `${count(offset + 1)} to ${count(last)} of ${plural(found.total, 'session')}, newest first`,
      ),
      offset ? paged('Newer', Math.max(0, offset - PAGE)) : null,
      last < found.total ? paged('Older', last) : null,
    ),
  ];
}

/**
 * A lane a project, a mark a session: as large as it has items. The table below is the same in words.
 * @param {Told[]} all
 */
function strip(all) {
  const dated = all.filter((one) => one.began && one.ended);
  if (!dated.length) return null;
  const span = spanOf(dated.flatMap((one) => [at(String(one.began)), at(String(one.ended))]));
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
        ...dated.filter((one) => one.project === project).map((one) => mark(one, span, most)),
      ),
    );
  return h(
    'div',
    { class: 'panel strip', 'aria-hidden': 'true' },
    h('div', { class: 'lane' }, h('span', {}), ruler(span)),
    ...lanes.map(lane),
  );
}

/**
 * @param {Told} one
 * @param {import('./axis.js').Span} span
 * @param {number} most
 */
function mark(one, span, most) {
  const [from, to] = [place(span, at(String(one.began))), place(span, at(String(one.ended)))];
  const radius = 4 + 9 * Math.sqrt(one.items / most);
  const label = s('title', {}, `${named(one)}, ${when(one.began)}, ${plural(one.items, 'item')}`);
  const open = () => go(href('timeline', { session: one.session }));
  return s(
    'g',
    { class: 'mark', onclick: open },
    label,
    s('line', { x1: percent(from), x2: percent(to), y1: 17, y2: 17 }),
    s('circle', { cx: percent((from + to) / 2), cy: 17, r: radius.toFixed(1) }),
  );
}

/** @param {Told} one */
function named(one) {
  return one.title ?? one.session;
}

/** @param {Told[]} all */
function table(all) {
  const most = Math.max(...all.map((one) => one.items));
  const head = ['began', 'session', 'project', 'items', 'who', 'begins with'].map((name) =>
    h('th', { scope: 'col', class: name === 'items' ? 'num' : null }, name),
  );
  return h(
    'div',
    { class: 'panel scroll' },
    h(
      'table',
      { class: 'sessions' },
      h('thead', {}, h('tr', {}, ...head)),
      h('tbody', {}, ...all.map((one) => row(one, most))),
    ),
  );
}

/**
 * @param {Told} one
 * @param {number} most
 */
function row(one, most) {
  const kinds = Object.entries(one.types).map(([type, n]) => bar(`share type-fill-${type}`, n / most));
  const said = Object.entries(one.types)
    .map(([type, n]) => `${n} ${type}`)
    .join(', ');
  return h(
    'tr',
    {},
    h('td', { class: 'nowrap' }, when(one.began)),
    h(
      'th',
      { scope: 'row' },
      h('a', { href: href('timeline', { session: one.session }), 'data-stop': true, title: one.source }, named(one)),
      one.title ? h('span', { class: 'dim mono small' }, cut(one.session, 24)) : null,
      h('span', { class: 'dim small narrow' }, one.project),
    ),
    h('td', {}, one.project),
    h(
      'td',
      { class: 'num' },
      count(one.items),
      h('div', { class: 'shares thin', role: 'img', 'aria-label': said, title: said }, ...kinds),
    ),
    h('td', { class: 'dim' }, one.speakers.join(', ')),
    h('td', { class: 'dim begins' }, cut(one.first, 110)),
  );
}

/**
 * @param {string} name
 * @param {URLSearchParams} params
 */
async function oneSession(name, params) {
  const offset = Number(params.get('offset')) || 0;
  const found = await get(`/v1/sessions/${encodeURIComponent(name)}`, { offset, limit: TURNS });
  const last = offset + found.items.length;
  const paged = (/** @type {string} */ words, /** @type {number} */ to) =>
    h('a', { class: 'button', href: href('timeline', { session: name, offset: to || '' }) }, words);
  const first = found.items[0];
  announce(`session ${cut(first?.title ?? name, 60)}, ${plural(found.total, 'item')}`);
  return [
    h(
      'p',
      { class: 'summary' },
      h('a', { class: 'button', href: href('timeline'), 'data-close': true }, 'All sessions'),
      h('strong', {}, first?.title ?? name),
      h('span', { class: 'dim' }, ` ${found.project} · ${when(found.began)} to ${when(found.ended)}`),
      h('span', { class: 'dim' }, ` · ${plural(found.total, 'item')}${first ? ` · ${base(first.source)}` : ''}`),
      h('a', { class: 'button', href: href('ask', { session: name }) }, 'Ask in this session'),
    ),
    panel(`Turns ${count(offset + 1)} to ${count(last)}`, 'turns-title', turns(found.items)),
    h(
      'p',
      { class: 'pages' },
      offset ? paged('Earlier turns', Math.max(0, offset - TURNS)) : null,
      last < found.total ? paged('Later turns', last) : null,
    ),
  ];
}
