// @ts-check
/** The filters of an answer as chips: those that are set, and those that the question's own words hint at. */

import { getChoices } from './api.js';
import { byId, fill, h } from './dom.js';
import { offerChoices, readValues, restore } from './fields.js';
import { FILTERS, toValues } from './question.js';
import { go, href, parseRoute } from './route.js';
import { day, plural } from './text.js';

/** @typedef {{kind: string, words: string, value: string | null, since?: string | null, until?: string | null}} Hint */

const row = byId('chips');
const NAMES = /** @type {Record<string, string>} */ ({
  project: 'project', type: 'type', speaker: 'by', session: 'session', since: 'since', until: 'until', k: 'items',
  budget: 'tokens', entities: 'about', current_only: 'only current', ingested_as_of: 'stored by', min_relevance: 'relevance from',
  look_back: 'hours', now: 'asked at',
});
const STRICT = /** @type {Record<string, (hint: Hint) => Record<string, string>>} */ ({
  project: (hint) => ({ project: hint.value ?? '' }),
  person: (hint) => ({ speaker: hint.value ?? '' }),
  days: (hint) => ({ since: hint.since ?? '', until: hint.until ?? '' }),
});

const form = makeForm();
const more = h('details', { class: 'menu filters' }, h('summary', {}, 'Filter'), form);
const set = h('ul', { class: 'chip-list', 'aria-label': 'Filters' });
fill(row, set, more);

/**
 * Show the chips of an address, and the hints of its question.
 * @param {URLSearchParams} params
 * @param {Hint[]} [hints]
 */
export function showChips(params, hints = []) {
  const chips = FILTERS.filter((name) => params.get(name)).map((name) => makeChip(name, params));
  fill(set, ...chips, ...hints.map((hint) => makeHint(hint, params)));
  restore(form, params);
  void fillForm();
}

/**
 * @param {string} name
 * @param {URLSearchParams} params
 */
function makeChip(name, params) {
  const value = params.get(name) ?? '';
  const said = name === 'current_only' ? '' : ` ${/^\d{4}-\d\d-\d\dT/.test(value) ? day(value) : value}`;
  const label = `${NAMES[name] ?? name}${said}`;
  return h(
    'li',
    { class: 'chip on' },
    label,
    h('a', { class: 'drop', href: href('ask', { ...toValues(params), [name]: '' }), 'aria-label': `Remove the filter ${label}` }, '×'),
  );
}

/**
 * @param {Hint} hint
 * @param {URLSearchParams} params
 */
function makeHint(hint, params) {
  const values = toValues(params);
  const ignored = [...(values.ignored ?? '').split('|').filter(Boolean), hint.words].join('|');
  const span = [hint.since && day(hint.since), hint.until && day(hint.until)];
  const dates = hint.kind !== 'days' ? '' : span[0] === span[1] ? span[0] : span.map((one) => one ?? '').join(' – ').trim();
  const what = hint.kind === 'days' ? 'preferred' : hint.kind === 'project' ? 'project, preferred' : 'person, preferred';
  return h(
    'li',
    { class: 'chip hinted' },
    h('a', { href: href('ask', { ...values, ...STRICT[hint.kind](hint) }), title: `Only ${hint.value ?? dates}`,
      'aria-label': `Filter by ${hint.value ?? hint.words} (${what})` }, hint.words, dates ? h('span', { class: 'dim' }, ` ${dates}`) : null),
    h('a', { class: 'drop', href: href('ask', { ...values, ignored }), 'aria-label': `Ignore “${hint.words}”` }, '×'),
  );
}

function makeForm() {
  const select = (/** @type {string} */ name, /** @type {[string, string][]} */ options) =>
    h('select', { name }, ...options.map(([value, label]) => h('option', { value }, label)));
  const input = (/** @type {string} */ name, placeholder = '', more = {}) => h('input', { name, placeholder, ...more });
  const label = (/** @type {string} */ text, /** @type {HTMLElement} */ field) => h('label', {}, text, ' ', field);
  const number = { type: 'number', min: '0' };
  const made = h(
    'form',
    { class: 'fields', id: 'filters', 'aria-label': 'Filters', autocomplete: 'off', novalidate: true },
    label('Project', select('project', [['', 'every']])),
    label('Type', select('type', [['', 'every']])),
    label('Speaker', select('speaker', [['', 'everybody']])),
    label('Since', input('since', 'last week, 30d')),
    label('Until', input('until', 'yesterday, 7d')),
    label('Ingested as of', input('ingested_as_of', 'stored by then')),
    label('Session', input('session', 'a session id')),
    label('Entities', input('entities', 'Priya, Goa')),
    label('Profile', select('profile', [['', 'helix']])),
    label('Quality', select('quality', [['', 'as set'], ['fast', 'fast'], ['best', 'best: reads question and items together']])),
    label('Rerank', select('rerank', [['', 'no'], ['late', 'late: by tokens'], ['cross', 'cross-encoder']])),
    label('Items', input('k', '10', { ...number, min: '1', max: '1000' })),
    label('Budget', input('budget', '2000 tokens', { ...number, max: '100000', step: '100' })),
    label('Least relevance', input('min_relevance', 'as measured', { ...number, max: '1', step: '0.01' })),
    h('label', { class: 'check' }, h('input', { name: 'current_only', type: 'checkbox', value: 'true' }), ' only current facts'),
    h('p', { class: 'end' }, h('button', { class: 'primary' }, 'Apply'), ' ', h('button', { type: 'button', class: 'quiet', id: 'clear' }, 'Clear filters')),
  );
  made.addEventListener('submit', (event) => {
    event.preventDefault();
    apply(readValues(made));
  });
  made.querySelector('#clear')?.addEventListener('click', () => apply({}));
  return made;
}

/** @param {Record<string, string>} values */
function apply(values) {
  more.open = false;
  const q = /** @type {HTMLInputElement} */ (byId('q')).value.trim();
  const { params } = parseRoute(location.hash);
  const kept = Object.fromEntries(['ignored', 'now', 'mode', 'look_back'].map((name) => [name, params.get(name)]));
  go(href('ask', { q, ...kept, ...values }));
  more.querySelector('summary')?.focus();
}

/** Offer the values that the store has. Without them the fields stay as they are, and the answer shows the error. */
async function fillForm() {
  try {
    const choices = await getChoices();
    for (const name of /** @type {const} */ (['project', 'type', 'speaker'])) offerChoices(form, name, choices[`${name}s`]);
    const select = /** @type {HTMLSelectElement} */ (form.elements.namedItem('profile'));
    const now = select.value;
    select.replaceChildren(...choices.profiles.map((name) => h('option', { value: name === 'helix' ? '' : name }, name)));
    select.value = now;
    if (select.value !== now) select.append(h('option', { value: now, selected: true }, now));
    more.title = plural(choices.items, 'item');
  } catch {
    // As above.
  }
}
