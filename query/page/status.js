// @ts-check
/** What is published, what answers, what waits and what went wrong. */

import { get } from './api.js';
import { announce, by, fill, h } from './dom.js';
import { key, keep } from './key.js';
import { failure, meter, notice, pairs, panel } from './marks.js';
import { bytes, count, plural, score } from './text.js';

/** @typedef {import('./api.js').Json} Json */

const body = by('status-body');

export async function show() {
  body.setAttribute('aria-busy', 'true');
  try {
    const state = await get('/v1/status');
    fill(body, ...shown(state));
    announce(state.trouble ?? `generation ${state.serving} answers`);
  } catch (error) {
    fill(body, failure(error));
  } finally {
    body.setAttribute('aria-busy', 'false');
  }
}

/** @param {Json} state */
function shown(state) {
  return [
    state.trouble ? notice('bad', h('strong', {}, 'The newest generation does not answer. '), state.trouble) : null,
    h(
      'div',
      { class: 'tiles' },
      tile(
        'generation',
        count(state.serving),
        state.serving === state.generation ? 'the newest' : `newest: ${count(state.generation)}`,
      ),
      tile('items', count(state.items), plural(state.sessions, 'session')),
      tile('encoder', state.encoder ?? 'none', state.encoder ? '' : 'words alone are searched'),
      'pending' in state
        ? tile('waiting', count(state.pending), state.pending ? `for ${Math.round(state.lag)} s` : 'nothing')
        : null,
      'dead' in state ? tile('given up', count(state.dead), state.dead ? 'see below' : 'nothing') : null,
      'bytes' in state ? tile('on disk', bytes(state.bytes), plural(state.segments, 'segment')) : null,
    ),
    h('div', { class: 'two' }, store(state), state.coverage ? coverage(state) : null),
    wrong(state),
    h(
      'details',
      { class: 'panel' },
      h('summary', {}, 'As JSON'),
      h(
        'pre',
        { class: 'context', tabindex: '0', role: 'region', 'aria-label': 'The state as JSON' },
        JSON.stringify(state, null, 2),
      ),
    ),
    key() ? h('p', {}, h('button', { type: 'button', onclick: forget }, 'Forget the key of this tab')) : null,
  ];
}

function forget() {
  keep('');
  location.reload();
}

/**
 * @param {string} name
 * @param {string} value
 * @param {string} said
 */
function tile(name, value, said) {
  return h(
    'div',
    { class: 'tile panel' },
    h('h2', {}, name),
    h('p', { class: 'figure' }, value),
    h('p', { class: 'dim' }, said),
  );
}

/** @param {Json} state */
function store(state) {
  /** @type {[string, import('./dom.js').Child][]} */
  const rows = [];
  const add = (/** @type {string} */ name, /** @type {unknown} */ value) => {
    if (value !== undefined && value !== null) rows.push([name, String(value)]);
  };
  add('store', state.store);
  add('published', state.published?.replace('T', ' ').slice(0, 19));
  add('manifest', state.manifest);
  if ('accepted' in state) add('documents', `${count(state.done)} of ${count(state.accepted)} taken in`);
  if (state.throughput?.documents)
    add('pace', `${score(state.throughput.documents)} documents and ${score(state.throughput.items)} items a minute`);
  if ('running' in state) add('being worked on', plural(Object.keys(state.running).length, 'document'));
  if ('generations' in state) add('generations kept', count(state.generations));
  if (state.reindex) add('reindex', `${state.reindex.encoder}: ${plural(state.reindex.items, 'item')} so far`);
  if (state.orders) add('orders waiting', count(state.orders.waiting));
  if ('purges' in state) add('purges waiting', count(state.purges));
  return panel('Store', 'store-title', pairs(rows));
}

/**
 * How far each enrichment has come.
 * @param {Json} state
 */
function coverage(state) {
  const line = (/** @type {[string, Json]} */ [name, what]) => {
    const [n, of] = 'facts' in what ? [what.facts, what.of] : [what.items, state.items];
    const value = what.off
      ? h('span', { class: 'dim' }, `off: ${what.off}`)
      : typeof n === 'number'
        ? h('span', { class: 'part' }, meter(of ? n / of : 1), ` ${count(n)} of ${count(of)}`)
        : words(what);
    return /** @type {[string, import('./dom.js').Child]} */ ([name.replaceAll('_', ' '), value]);
  };
  return panel('Enriched', 'coverage-title', pairs(Object.entries(state.coverage).map(line)));
}

/** @param {Json} what */
function words(what) {
  return Object.entries(what)
    .map(([name, value]) => (value === true ? name : `${name} ${value}`))
    .join(', ');
}

/** @param {Json} state */
function wrong(state) {
  /** @type {[string, Json | string][]} */
  const all = [...Object.entries(state.failed ?? {}), ...Object.entries(state.errors ?? {})];
  if (!all.length) return null;
  const said = (/** @type {Json | string} */ one) =>
    typeof one === 'string' ? `given up: ${one}` : `tried ${plural(one.tries, 'time')}: ${one.error}`;
  return panel(
    'What went wrong',
    'wrong-title',
    h(
      'ul',
      {},
      ...all.map(([name, one]) => h('li', {}, h('span', { class: 'mono' }, name.slice(0, 12)), ` ${said(one)}`)),
    ),
  );
}
