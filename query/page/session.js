// @ts-check
/** A session, which reads like a conversation, with its outline: turns, files, commits, entities, decisions, fixes. */

import { getRights, makeMenu, may } from './actions.js';
import { get, getItem, Problem } from './api.js';
import { announce, byId, fill, h, nextFrame } from './dom.js';
import { loadMarkdown } from './markdown.js';
import { empty, failure, load, nameSession, when } from './marks.js';
import { href } from './route.js';
import { capitalise, cleanLine, count, cut, formatTime, getBaseName, plural } from './text.js';
import { dropRepeatedDays, makeTurns } from './turns.js';

/** @typedef {Record<string, any>} Json */

const PAGE = 80;
const LISTED = 400; // turns to jump to
const body = byId('session-body');
const title = byId('session-title');
let calls = 0;

/** @param {import('./route.js').Route} route */
export async function show({ params }) {
  const call = ++calls;
  fill(body);
  title.textContent = 'Session';
  const isCurrent = () => call === calls;
  await load(body, isCurrent, async () => {
    const asOf = params.get('as_of');
    let outline;
    try {
      const name = params.get('session') || (await getItem(params.get('at') ?? '').catch(explainMissing)).session;
      [outline] = await Promise.all([getOutline(name, asOf), getRights(), loadMarkdown()]);
    } catch (error) {
      if (!(error instanceof Problem) || error.status !== 404) throw error;
      return [failure(error), h('p', {}, h('a', { href: href('sessions'), 'data-close': true }, 'All sessions'))];
    }
    const out = may('forget') ? (await get('/v1/kept-out')).off : [];
    outline.kept_out = out.some((/** @type {Json} */ one) => one.session === outline.session);
    if (!isCurrent()) return [];
    return makeSession(outline, params);
  });
  if (isCurrent()) showPlace(params.get('at'));
}

/**
 * Return the outline of a session; before its beginning one without turns, with the reason.
 * @param {string} session
 * @param {string | null} asOf
 */
async function getOutline(session, asOf) {
  try {
    return await get('/v1/outline', { session, as_of: asOf });
  } catch (error) {
    if (!asOf || !(error instanceof Problem) || error.status !== 404) throw error;
    return get(toSession(session), { as_of: asOf, limit: 1 });
  }
}

/** @param {string} name */
function toSession(name) {
  return `/v1/sessions/${name.split('/').map(encodeURIComponent).join('/')}`;
}

/**
 * @param {Error} error
 * @returns {never}
 */
function explainMissing(error) {
  if (error instanceof Problem && error.status === 404) throw new Problem(404, `${error.message}; it may be forgotten, or you may not see it`);
  throw error;
}

/** @param {string | null} at */
function showPlace(at) {
  const here = at && body.querySelector(`#turn-${CSS.escape(at)}`); // the pane of an answer may have the same turn
  if (!here) return;
  here.scrollIntoView({ block: 'center' });
  announce(`turn ${cut(here.textContent ?? '', 80)}`);
}

/**
 * @param {Json} outline
 * @param {URLSearchParams} params
 */
async function makeSession(outline, params) {
  const name = nameSession({ title: outline.title, project: outline.project, session: outline.session, time: outline.ended ?? outline.began });
  title.textContent = cut(name, 120);
  document.title = `${cut(name, 60)} · Session · Helix`;
  if (!outline.total) return [empty(outline.notice ? `${capitalise(outline.notice)}.` : 'Nothing of this session was said by then.')];
  const at = params.get('at') ?? '';
  const place = Math.max(0, outline.turns.findIndex((/** @type {Json} */ turn) => turn.id === at));
  const options = {
    here: at,
    steps: outline.steps,
    decided: new Set(outline.decisions.map((/** @type {Json} */ one) => one.item)),
    fixes: new Map(outline.fixes.map((/** @type {Json} */ fix) => [fix.failed, fix])),
    act: makeMenu,
  };
  const conversation = await makeConversation(outline, place, params, options);
  return [
    h('p', { class: 'session-head' },
      h('span', {}, outline.project), outline.agent ? h('span', {}, outline.agent) : null, when(outline.ended ?? outline.began), h('span', {}, plural(outline.total, 'item')),
      h('span', { title: outline.source }, getBaseName(outline.source ?? '')),
      h('span', { class: 'head-acts' }, h('a', { href: href('sessions', { project: outline.project }), 'data-close': true }, 'All sessions'),
        may('forget') ? makeKeepOut(outline) : null)),
    h('div', { class: 'session-grid' }, conversation, makeOutline(outline)),
  ];
}

/** @param {Json} outline */
function makeKeepOut(outline) {
  let off = Boolean(outline.kept_out);
  const label = () => (off ? 'Let this session in again' : 'Keep this session out');
  const button = h('button', { type: 'button', class: 'quiet', onclick: async () => {
    const { keepOut } = await import('./owner.js');
    off = await keepOut(outline.session, !off);
    button.textContent = label();
  } }, label());
  return button;
}

/**
 * Make the turns around a place; buttons load those before and after.
 * @param {Json} outline
 * @param {number} place
 * @param {URLSearchParams} params
 * @param {Parameters<typeof makeTurns>[1]} options
 */
async function makeConversation(outline, place, params, options) {
  const list = h('ol', { class: 'turns', 'aria-label': 'Turns' });
  let first = Math.max(0, place - PAGE / 4);
  let last = first;
  let day = ''; // of the last turn
  const read = async (/** @type {number} */ offset, /** @type {number} */ limit) =>
    (await get(toSession(outline.session), { offset, limit, as_of: params.get('as_of') })).items;
  const up = h('button', { type: 'button', class: 'quiet', onclick: () => grow(-1) }, 'Earlier turns');
  const down = h('button', { type: 'button', class: 'quiet', onclick: () => grow(1) }, 'Later turns');
  const label = () => {
    up.hidden = first <= 0;
    down.hidden = last >= outline.total;
    up.textContent = `Earlier turns (${count(first)})`;
    down.textContent = `Later turns (${count(outline.total - last)})`;
  };
  async function grow(/** @type {1 | -1} */ way) {
    const from = way < 0 ? Math.max(0, first - PAGE) : last;
    const items = await read(from, way < 0 ? first - from : PAGE);
    const before = way > 0 && last > first ? day : '';
    const turns = makeTurns(items, { ...options, day: before });
    if (way > 0) day = (items[items.length - 1]?.time ?? day).slice(0, 10);
    if (way < 0) {
      const top = /** @type {HTMLElement} */ (list.querySelector(':scope > .turn'));
      const was = top.getBoundingClientRect().top;
      list.prepend(...turns);
      dropRepeatedDays(list);
      first = from;
      label();
      await nextFrame(); // the texts are rendered by then
      scrollBy(0, top.getBoundingClientRect().top - was); // what is read stays where it is
    } else {
      list.append(...turns);
      last += items.length;
    }
    label();
  }
  await grow(1);
  return h('div', {}, up, list, down);
}

/** @param {Json} outline */
function makeOutline(outline) {
  const toTurn = (/** @type {string} */ id) => href('session', { session: outline.session, at: id });
  const line = (/** @type {import('./dom.js').Child[]} */ ...content) => h('li', {}, ...content);
  const entries = outline.turns.filter((/** @type {Json} */ turn) => turn.role === 'user' || turn.marks.some((/** @type {string} */ mark) => mark !== 'edit')).slice(0, LISTED);
  return h('aside', { class: 'outline', 'aria-label': 'Outline' },
    section('Decided', outline.decisions, (one) => h('li', { class: 'wrap' }, h('a', { href: toTurn(one.item) }, cut(cleanLine(one.text), 120)),
      one.holds ? null : h('span', { class: 'flag' }, 'replaced'))),
    section('Errors and fixes', outline.fixes, (one) => line(h('a', { href: toTurn(one.failed) }, cut(one.error || 'a failure', 60)), ' ',
      h('span', { class: one.held ? 'flag good' : 'flag bad' }, one.held ? 'fixed' : one.shown ? 'gone' : 'open'))),
    section('Files', outline.files, (one) => line(h('a', { href: href('subject', { name: one.path }), title: one.path }, getBaseName(one.path)), h('span', { class: 'dim' }, ` ${one.edits}×`))),
    section('Commits', outline.commits, (one) => line(h('a', { class: 'mono', href: toTurn(one.item) }, String(one.commit).slice(0, 10)))),
    section('About', outline.entities, (one) => line(h('a', { href: href('subject', { name: one.name }) }, one.name), h('span', { class: 'dim' }, ` ${one.kind}`)), 12),
    entries.length > 2 ? h('section', {}, h('h2', {}, 'Turns'), h('ol', { class: 'jump' }, entries.map((/** @type {Json} */ turn) =>
      line(h('a', { href: toTurn(turn.id), title: formatTime(turn.time) }, cut(cleanLine(turn.head || turn.role), 70)), turn.marks.includes('error') ? h('span', { class: 'flag bad' }, 'error') : null)))) : null);
}

/**
 * @param {string} name
 * @param {Json[]} entries
 * @param {(one: Json) => import('./dom.js').Child} make
 * @param {number} [most]
 */
function section(name, entries, make, most = 40) {
  if (!entries.length) return null;
  return h('section', {}, h('h2', {}, name), h('ul', {}, entries.slice(0, most).map(make)),
    entries.length > most ? h('p', { class: 'dim small' }, `and ${count(entries.length - most)} more`) : null);
}
