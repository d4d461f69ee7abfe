// @ts-check
/** A subject over time: what held when, by whom, with its sources; and what it hangs together with. */

import { get } from './api.js';
import { findSpan, getPlace, makeRuler } from './axis.js';
import { announce, bar, byId, h, percent } from './dom.js';
import { empty, load, nameBy, when } from './marks.js';
import { href, toItem } from './route.js';
import { capitalise, cleanLine, cut, formatTime, plural, toMs } from './text.js';

/** @typedef {Record<string, any>} Json */

const body = byId('subject-body');
const title = byId('subject-title');
let calls = 0;

/** @param {import('./route.js').Route} route */
export async function show({ params }) {
  const call = ++calls;
  const name = params.get('name') ?? '';
  title.textContent = cut(name, 120) || 'Subject';
  await load(body, () => call === calls, async () => {
    const found = await get('/v1/subject', { name, project: params.get('project'), as_of: params.get('as_of') });
    const spans = found.tracks.flatMap((/** @type {Json} */ track) => track.spans);
    announce(`${plural(spans.length, 'entry', 'entries')} about ${name}`);
    if (!spans.length && !found.sessions.length)
      return [empty(found.notice ? `${capitalise(found.notice)}.` : `Nothing is known about ${cut(name, 80)}`, h('a', { href: href('ask', { q: name }) }, 'Ask for it'), ' instead.')];
    return [
      h('p', { class: 'session-head' }, found.kind ? h('span', {}, found.kind) : null, h('span', {}, `named in ${plural(found.items, 'item')}`),
        found.last ? h('span', {}, 'last ', when(found.last)) : null,
        h('span', { class: 'head-acts' }, h('a', { href: href('ask', { q: name }) }, 'Ask about it'), h('a', { href: href('graph', { name }) }, 'In the graph'))),
      h('div', { class: 'session-grid' }, drawTracks(found.tracks, spans, params.get('as_of')), makeSide(found)),
    ];
  });
}

/**
 * @param {Json[]} tracks
 * @param {Json[]} spans
 * @param {string | null} asOf
 */
function drawTracks(tracks, spans, asOf) {
  if (!spans.length) return h('p', { class: 'dim' }, 'No fact or decision about it is known; it is named in the sessions on the right.');
  const moment = asOf ? toMs(asOf) : Date.now(); // NaN for an age like 7d, which gets no line
  const known = spans.flatMap((one) => [one.since, one.until]).filter(Boolean).map(toMs);
  const axis = findSpan([...known, moment || Date.now()]);
  return h('div', {},
    h('div', { class: 'span-row wide-only', 'aria-hidden': 'true' }, h('span', { class: 'dim small' }, asOf ? `the dashed line is ${asOf}` : 'the dashed line is now'), h('div', { class: 'validity' }, makeRuler(axis, 4))),
    tracks.map((track) => h('section', { class: 'topic' }, h('h2', {}, capitalise(cleanLine(track.topic || 'said about it'))),
      h('ol', {}, track.spans.map((/** @type {Json} */ one) => makeSpan(one, axis, moment))))));
}

/**
 * @param {Json} one
 * @param {import('./axis.js').Span} axis
 * @param {number} moment
 */
function makeSpan(one, axis, moment) {
  const from = one.since ? getPlace(axis, toMs(one.since)) : 0;
  const to = one.until ? getPlace(axis, toMs(one.until)) : 1;
  const line = h('span', { class: 'now-line' });
  line.style.left = percent(getPlace(axis, moment));
  const text = one.text || one.value || '';
  return h('li', { class: 'span-row' },
    h('div', { class: one.holds ? null : 'over-text' },
      one.item ? h('a', { class: 'plain', href: toItem({ id: one.item, session: one.session }), 'data-stop': true }, cut(cleanLine(text), 240)) : cut(cleanLine(text), 240),
      h('p', { class: 'small dim' }, one.kind === 'rejected' ? 'rejected' : one.holds ? 'holds' : 'no longer holds', `, ${formatValidity(one)}`, one.by && one.by !== 'document' ? ` · ${nameBy(one.by)}` : '')),
    h('div', { class: 'validity', 'aria-hidden': 'true' },
      bar(`valid ${one.holds ? 'holds' : 'over'}${one.until ? '' : ' open'}`, Math.max(0.004, to - from), from),
      Number.isNaN(moment) ? null : line));
}

/** @param {Json} one */
function formatValidity(one) {
  const from = one.since ? `from ${formatTime(one.since)}` : 'from an unknown time';
  return one.until ? `${from} until ${formatTime(one.until)}` : `${from} on`;
}

/** @param {Json} found */
function makeSide(found) {
  return h('aside', { class: 'outline', 'aria-label': 'Where it is named' },
    found.related.length ? h('section', {}, h('h2', {}, 'Together with'), h('ul', {}, found.related.map((/** @type {Json} */ one) =>
      h('li', {}, h('a', { href: href('subject', { name: one.name }) }, one.name), h('span', { class: 'dim' }, ` ${one.kind}`))))) : null,
    found.sessions.length ? h('section', {}, h('h2', {}, 'Sessions'), h('ul', {}, found.sessions.map((/** @type {Json} */ one) =>
      h('li', { class: 'wrap' }, h('a', { href: href('session', { session: one.session }) }, cut(one.title || one.session, 80)), ' ', when(one.time))))) : null);
}
