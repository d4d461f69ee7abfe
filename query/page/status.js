// @ts-check
/** The store's state: generations, queue and failures. */

import { get } from './api.js';
import { announce, byId, h } from './dom.js';
import { getKey, storeKey } from './key.js';
import { load, meter, notice, pairs, panel } from './marks.js';
import { bytes, count, plural, score } from './text.js';

/** @typedef {import('./api.js').Json} Json */

const body = byId('status-body');

/** Show the state. */
export async function show() {
  await load(
    body,
    () => true,
    async () => {
      const state = await get('/v1/status');
      announce(state.trouble ?? `generation ${state.serving} answers`);
      return makeContent(state);
    },
  );
}

/** @param {Json} state */
function makeContent(state) {
  return [
    state.trouble ? notice('bad', h('strong', {}, 'The newest generation does not answer. '), state.trouble) : null,
    h(
      'div',
      { class: 'tiles' },
      makeTile(
        'generation',
        count(state.serving),
        state.serving === state.generation ? 'the newest' : `newest: ${count(state.generation)}`,
      ),
      makeTile('items', count(state.items), plural(state.sessions, 'session')),
      makeTile('encoder', state.encoder ?? 'none', state.encoder ? '' : 'only words are searched'),
      'pending' in state
        ? makeTile('waiting', count(state.pending), state.pending ? `for ${Math.round(state.lag)} s` : '')
        : null,
      'dead' in state ? makeTile('given up', count(state.dead), state.dead ? 'see below' : '') : null,
      'bytes' in state ? makeTile('on disk', bytes(state.bytes), plural(state.segments, 'segment')) : null,
    ),
    h('div', { class: 'two' }, showStore(state), state.coverage ? showCoverage(state) : null),
    showFailures(state),
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
    getKey() ? h('p', {}, h('button', { type: 'button', onclick: forgetKey }, 'Forget the key of this tab')) : null,
  ];
}

function forgetKey() {
  storeKey('');
  location.reload();
}

/**
 * @param {string} name
 * @param {string} value
 * @param {string} note
 */
function makeTile(name, value, note) {
  return h(
    'div',
    { class: 'tile panel' },
    h('h2', {}, name),
    h('p', { class: 'figure' }, value),
    h('p', { class: 'dim' }, note),
  );
}

/** @param {Json} state */
function showStore(state) {
  /** @type {[string, import('./dom.js').Child][]} */
  const rows = [];
  const add = (/** @type {string} */ name, /** @type {unknown} */ value) => {
    if (value !== undefined && value !== null) rows.push([name, String(value)]);
  };
  add('store', state.store);
  add('published', state.published?.replace('T', ' ').slice(0, 19));
  add('manifest', state.manifest);
  if ('accepted' in state) add('documents', `${count(state.done)} of ${count(state.accepted)} ingested`);
  if (state.throughput?.documents)
    add('pace', `${score(state.throughput.documents)} documents and ${score(state.throughput.items)} items a minute`);
  if ('running' in state) add('in progress', plural(Object.keys(state.running).length, 'document'));
  if ('generations' in state) add('generations retained', count(state.generations));
  if (state.reindex) add('reindex', `${state.reindex.encoder}: ${plural(state.reindex.items, 'item')} so far`);
  if (state.orders) add('orders waiting', count(state.orders.waiting));
  if ('purges' in state) add('purges waiting', count(state.purges));
  return panel('Store', 'store-title', pairs(rows));
}

/**
 * Show the progress of each enrichment.
 * @param {Json} state
 */
function showCoverage(state) {
  const line = (/** @type {[string, Json]} */ [name, what]) => {
    const [n, total] = 'facts' in what ? [what.facts, what.of] : [what.items, state.items];
    const value = what.off
      ? h('span', { class: 'dim' }, `off: ${what.off}`)
      : typeof n === 'number'
        ? h('span', { class: 'part' }, meter(total ? n / total : 1), ` ${count(n)} of ${count(total)}`)
        : listFields(what);
    return /** @type {[string, import('./dom.js').Child]} */ ([name.replaceAll('_', ' '), value]);
  };
  return panel('Enriched', 'coverage-title', pairs(Object.entries(state.coverage).map(line)));
}

/** @param {Json} what */
function listFields(what) {
  return Object.entries(what)
    .map(([name, value]) => (value === true ? name : `${name} ${value}`))
    .join(', ');
}

/** @param {Json} state */
function showFailures(state) {
  /** @type {[string, Json | string][]} */
  const all = [...Object.entries(state.failed ?? {}), ...Object.entries(state.errors ?? {})];
  if (!all.length) return null;
  const describe = (/** @type {Json | string} */ one) =>
    typeof one === 'string' ? `given up: ${one}` : `tried ${plural(one.tries, 'time')}: ${one.error}`;
  return panel(
    'Failures',
    'wrong-title',
    h(
      'ul',
      {},
      ...all.map(([name, one]) => h('li', {}, h('span', { class: 'mono' }, name.slice(0, 12)), ` ${describe(one)}`)),
    ),
  );
}
