// @ts-check
/** One item: its text, its fields, its neighbours and its connections. */

import { get, getAround } from './api.js';
import { announce, byId, fill, h } from './dom.js';
import { showGraph } from './graph.js';
import { badge, load, pairs, panel, showReplacement } from './marks.js';
import { getLastQuestion, href } from './route.js';
import { cut, formatTime, formatTurns, getBaseName, score } from './text.js';
import { makeActions } from './why.js';

/** @typedef {import('./api.js').Stored} Stored */

const body = byId('item-body');
let calls = 0;

/** @param {import('./route.js').Route} route */
export async function show({ id, params }) {
  const call = ++calls;
  if (!id) return fill(body, h('p', { class: 'empty' }, 'No item is named. Open one from an answer.'));
  let isShown = false;
  await load(
    body,
    () => call === calls,
    async () => {
      const [around, near] = await Promise.all([getAround(id), get(`/v1/items/${encodeURIComponent(id)}/graph`)]);
      const item = around.items[around.at];
      if (call === calls) announce(`item ${cut(item.text, 80)}`);
      isShown = true;
      const back = h('a', { class: 'button', href: getLastQuestion(), 'data-close': true }, 'Back to the answer');
      return [
        h('p', { class: 'summary' }, back),
        ...showItem(item, around),
        panel('Neighbourhood', 'graph-title', ...showGraph(near)),
      ];
    },
  );
  if (isShown && call === calls && params.get('show') === 'graph') byId('graph-title').scrollIntoView();
}

/**
 * @param {Stored} item
 * @param {{at: number, items: Stored[]}} around
 */
function showItem(item, around) {
  const names = [item.speaker].filter((name) => name !== null);
  return [
    h(
      'div',
      { class: 'two' },
      h(
        'section',
        { class: 'panel', 'aria-label': 'Text' },
        h(
          'p',
          { class: 'head' },
          badge(item.type),
          h('span', { class: 'dim' }, formatTime(item.time, item.time_quality)),
          h('span', { class: 'who' }, item.speaker ?? item.role),
        ),
        h('blockquote', { class: 'text whole' }, item.text),
        showReplacement(item.replaced_by),
        makeActions(item, true),
        h('h2', {}, 'Fields'),
        pairs([
          ['id', h('span', { class: 'mono' }, item.id)],
          ['session', h('a', { class: 'mono', href: href('timeline', { session: item.session }) }, item.session)],
          ['turns', item.turns.join(', ')],
          ['title', item.title ?? '–'],
          ['project', item.project],
          ['source', h('span', { title: item.source }, getBaseName(item.source))],
          ['role', item.role],
          ['salience', score(item.salience)],
          ['confidence', `${score(item.confidence)}${item.vouched ? ` (${item.vouched})` : ''}`],
          ['tokens', String(item.tokens)],
        ]),
        names.length
          ? h('p', {}, 'Facts about ', ...names.map((name) => h('a', { href: href('facts', { entity: name }) }, name)))
          : null,
      ),
      panel('Around it', 'around-title', listTurns(around.items, item.id)),
    ),
  ];
}

/**
 * List items in reading order, with one marked.
 * @param {Stored[]} items
 * @param {string} [here]
 */
export function listTurns(items, here) {
  return h('ol', { class: 'turns' }, ...items.map((item) => makeTurn(item, item.id === here)));
}

/**
 * @param {Stored} item
 * @param {boolean} here
 */
function makeTurn(item, here) {
  return h(
    'li',
    { class: here ? 'turn here' : 'turn', 'aria-current': here ? 'true' : null },
    h(
      'p',
      { class: 'head' },
      h('span', { class: 'who' }, item.speaker ?? item.role),
      badge(item.type),
      h('span', { class: 'dim' }, formatTime(item.time, item.time_quality)),
      here
        ? null
        : h(
            'a',
            {
              class: 'mono',
              href: href('item', {}, item.id),
              'data-stop': true,
              title: item.turns.join(','),
            },
            h('span', { class: 'sr' }, 'open '),
            formatTurns(item.turns),
          ),
    ),
    item.title && item.role === 'document' ? h('p', { class: 'dim small' }, item.title) : null,
    h('p', { class: 'text' }, item.text),
    showReplacement(item.replaced_by),
  );
}
