// @ts-check
/** What is stated about an entity, and from when to when each of it holds. */

import { choices, get } from './api.js';
import { place, ruler, spanOf } from './axis.js';
import { announce, bar, by, fill, h, percent } from './dom.js';
import { restore, values } from './fields.js';
import { failure } from './marks.js';
import { go, href } from './route.js';
import { at, count, plural, score, when } from './text.js';

/**
 * @typedef {{subject: string, relation: string, object: string, qualifier: string, closes: boolean,
 *   t_valid: string | null, t_invalid: string | null, holds: boolean, confidence: number | null, item: string}} Fact
 */

const PAGE = 100;
const form = /** @type {HTMLFormElement} */ (by('facts-form'));
const body = by('facts-body');
let asked = 0;

form.addEventListener('submit', (event) => {
  event.preventDefault();
  go(href('facts', values(form)));
});

/** @param {import('./route.js').Route} route */
export async function show({ params }) {
  const turn = ++asked;
  restore(form, params);
  const entity = params.get('entity');
  body.setAttribute('aria-busy', 'true');
  try {
    const made = entity ? await about(entity, params) : await begin();
    if (turn === asked) fill(body, ...made);
  } catch (error) {
    if (turn === asked) fill(body, failure(error));
  } finally {
    if (turn === asked) body.setAttribute('aria-busy', 'false');
  }
}

/** Who may be asked about. */
async function begin() {
  const { speakers, projects } = await choices();
  const names = [...new Set([...Object.keys(speakers), ...Object.keys(projects)])].slice(0, 20);
  fill(by('known'), ...names.map((name) => h('option', { value: name })));
  if (!names.length)
    return [h('p', { class: 'empty' }, 'Name a person, a project, a setting: whatever something may be said of.')];
  return [
    h('p', { class: 'dim' }, 'Name whatever something may be said of, or begin with'),
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
async function about(entity, params) {
  const offset = Number(params.get('offset')) || 0;
  const found = await get('/v1/facts', { entity, at: params.get('at'), offset, limit: PAGE });
  /** @type {Fact[]} */
  const facts = found.facts;
  announce(`${plural(found.total, 'fact')} about ${entity}`);
  if (!facts.length)
    return [
      h(
        'p',
        { class: 'empty' },
        `Nothing is stated about ${entity}. `,
        h('a', { href: href('ask', { q: entity }) }, 'Ask for it'),
        ' instead.',
      ),
    ];
  const asOf = params.get('at');
  const moment = asOf ? at(asOf) : Date.now(); // an age, like 7d, is no date: then there is no line
  const known = facts.flatMap((one) => [one.t_valid, one.t_invalid]).filter((one) => one !== null);
  const span = spanOf([...known.map(at), moment || Date.now()]);
  const holding = facts.filter((one) => one.holds).length;
  const last = offset + facts.length;
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
        h('div', { class: 'validity' }, ruler(span, 4)),
        h('span', {}),
      ),
      h('ol', { class: 'facts' }, ...facts.map((one) => entry(one, span, moment))),
    ),
    last < found.total || offset
      ? h(
          'p',
          { class: 'pages' },
          offset
            ? h(
                'a',
                {
                  class: 'button',
                  href: href('facts', { entity, at: params.get('at'), offset: Math.max(0, offset - PAGE) || '' }),
                },
                'Newer',
              )
            : null,
          last < found.total
            ? h('a', { class: 'button', href: href('facts', { entity, at: params.get('at'), offset: last }) }, 'Older')
            : null,
        )
      : null,
  ];
}

/**
 * @param {Fact} one
 * @param {import('./axis.js').Span} span
 * @param {number} moment
 */
function entry(one, span, moment) {
  const from = one.t_valid ? place(span, at(one.t_valid)) : 0;
  const to = one.t_invalid ? place(span, at(one.t_invalid)) : 1;
  const line = h('span', { class: 'moment' });
  line.style.left = percent(place(span, moment));
  const kind = one.holds ? 'holds' : 'over';
  return h(
    'li',
    { class: `fact ${kind}` },
    h(
      'p',
      {},
      h('a', { href: href('facts', { entity: one.subject }) }, one.subject),
      h('span', { class: 'dim' }, ` ${one.relation.replaceAll('_', ' ')} `),
      h('a', { href: href('facts', { entity: one.object }) }, one.object),
      one.qualifier ? ` ${one.qualifier}` : null,
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
      `${one.holds ? 'holds' : 'does not hold'}: ${spanned(one)} `,
      h('span', { class: 'dim' }, `confidence ${score(one.confidence)} `),
      h(
        'a',
        {
          href: href('item', {}, one.item),
          'data-stop': true,
          'aria-label': `the item that says ${one.subject} ${one.relation} ${one.object}`,
        },
        'said here',
      ),
    ),
  );
}

/** @param {Fact} one */
function spanned(one) {
  const from = one.t_valid ? `from ${when(one.t_valid)}` : 'from no known time';
  return one.t_invalid ? `${from} until ${when(one.t_invalid)}` : `${from} on`;
}
