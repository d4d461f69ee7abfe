// @ts-check
/** Facts about an entity, with the time in which each holds. */

import { get, getChoices } from './api.js';
import { findSpan, getPlace, makeRuler } from './axis.js';
import { announce, bar, byId, fill, h, percent } from './dom.js';
import { readValues, restore } from './fields.js';
import { load, pager } from './marks.js';
import { go, href } from './route.js';
import { capitalise, count, formatTime, plural, score, toMs } from './text.js';

/**
 * @typedef {{text: string, subject: string, relation: string, object: string, qualifier: string, closes: boolean,
 *   t_valid: string | null, t_invalid: string | null, holds: boolean, confidence: number | null, item: string}} Fact
 */

const PAGE = 100;
const TIMES = ['at', 'as_of', 'ingested_as_of'];
const form = /** @type {HTMLFormElement} */ (byId('facts-form'));
const body = byId('facts-body');
let calls = 0;

form.addEventListener('submit', (event) => {
  event.preventDefault();
  go(href('facts', readValues(form)));
});

/** @param {import('./route.js').Route} route */
export async function show({ params }) {
  const call = ++calls;
  restore(form, params);
  const entity = params.get('entity');
  await load(
    body,
    () => call === calls,
    () => (entity ? loadFacts(entity, params) : suggestNames()),
  );
}

/** Suggest names to ask about. */
async function suggestNames() {
  const { speakers, projects } = await getChoices();
  const names = [...new Set([...Object.keys(speakers), ...Object.keys(projects)])].slice(0, 20);
  fill(byId('known'), ...names.map((name) => h('option', { value: name })));
  if (!names.length)
    return [h('p', { class: 'empty' }, 'Name a person, a project or a setting.')];
  return [
    h('p', { class: 'dim' }, 'Name a person, a project or a setting, or begin with'),
    h(
      'ul',
      { class: 'chips' },
      ...names.map((name) =>
        h('li', {}, h('a', { class: 'chip', href: href('facts', { entity: name }), 'data-stop': true }, name)),
      ),
    ),
  ];
}

/**
 * @param {string} entity
 * @param {URLSearchParams} params
 */
async function loadFacts(entity, params) {
  const offset = Number(params.get('offset')) || 0;
  const times = Object.fromEntries(TIMES.map((name) => [name, params.get(name)]));
  const found = await get('/v1/facts', { entity, ...times, offset, limit: PAGE });
  /** @type {Fact[]} */
  const facts = found.facts;
  announce(`${plural(found.total, 'fact')} about ${entity}`);
  if (!facts.length)
    return [
      h(
        'p',
        { class: 'empty' },
        found.notice ? `${capitalise(found.notice)}. ` : `No facts about ${entity}. `,
        h('a', { href: href('ask', { q: entity }) }, 'Ask for it'),
        ' instead.',
      ),
    ];
  const asOf = params.get('at') || params.get('as_of');
  const moment = asOf ? toMs(asOf) : Date.now(); // NaN for an age like 7d, which gets no line
  const known = facts.flatMap((one) => [one.t_valid, one.t_invalid]).filter((one) => one !== null);
  const span = findSpan([...known.map(toMs), moment || Date.now()]);
  const holding = facts.filter((one) => one.holds).length;
  return [
    h(
      'p',
      { class: 'summary' },
      h('strong', {}, plural(found.total, 'fact')),
      ` about ${entity}`,
      h(
        'span',
        { class: 'dim' },
        ` · ${count(holding)} of ${count(facts.length)} shown hold ${asOf ? `at ${asOf}` : 'now'}`,
      ),
    ),
    h(
      'div',
      { class: 'panel' },
      h(
        'div',
        { class: 'fact ruler-row', 'aria-hidden': 'true' },
        h('span', {}),
        h('div', { class: 'validity' }, makeRuler(span, 4)),
        h('span', {}),
      ),
      h('ol', { class: 'facts' }, ...facts.map((one) => makeEntry(one, span, moment))),
    ),
    pager({ offset, size: PAGE, end: offset + facts.length, total: found.total }, ['Newer', 'Older'], (to) =>
      href('facts', { entity, ...times, offset: to }),
    ),
  ];
}

/**
 * @param {Fact} one
 * @param {import('./axis.js').Span} span
 * @param {number} moment
 */
function makeEntry(one, span, moment) {
  const from = one.t_valid ? getPlace(span, toMs(one.t_valid)) : 0;
  const to = one.t_invalid ? getPlace(span, toMs(one.t_invalid)) : 1;
  const line = h('span', { class: 'moment' });
  line.style.left = percent(getPlace(span, moment));
  const kind = one.holds ? 'holds' : 'over';
  return h(
    'li',
    { class: `fact ${kind}` },
    h(
      'p',
      {},
      ...linkEnds(one),
      one.closes ? h('span', { class: 'tag' }, 'ends it') : null,
    ),
    h(
      'div',
      { class: 'validity', 'aria-hidden': 'true' },
      bar(`valid ${kind}${one.t_invalid ? '' : ' open'}`, Math.max(0.004, to - from), from),
      Number.isNaN(moment) ? null : line,
    ),
    h(
      'p',
      { class: 'state' },
      h('span', { class: `dot ${kind}`, 'aria-hidden': 'true' }),
      `${one.holds ? 'holds' : 'does not hold'}: ${formatValidity(one)} `,
      h('span', { class: 'dim' }, `confidence ${score(one.confidence)} `),
      h(
        'a',
        {
          href: href('item', {}, one.item),
          'data-stop': true,
          'aria-label': `the item that says ${one.text}`,
        },
        'source',
      ),
    ),
  );
}

/**
 * Return the sentence of a fact, with links to the facts about its subject and its object where it has them.
 * @param {Fact} one
 */
function linkEnds(one) {
  const parts = [];
  let rest = one.text;
  for (const name of [one.subject, one.object]) {
    const at = rest.toLowerCase().indexOf(name.toLowerCase());
    if (at < 0 || !name) continue;
    const end = at + name.length;
    parts.push(rest.slice(0, at), h('a', { href: href('facts', { entity: name }) }, rest.slice(at, end)));
    rest = rest.slice(end);
  }
  return [...parts, rest];
}

/** @param {Fact} one */
function formatValidity(one) {
  const from = one.t_valid ? `from ${formatTime(one.t_valid)}` : 'from an unknown time';
  return one.t_invalid ? `${from} until ${formatTime(one.t_invalid)}` : `${from} on`;
}
