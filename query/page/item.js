// @ts-check
/** One item: its whole text, what is known of it, what stands around it and what it is connected with. */

import { around, get } from './api.js';
import { announce, by, fill, h } from './dom.js';
import { graph } from './graph.js';
import { badge, failure, pairs, panel } from './marks.js';
import { asked as lastAsked, href } from './route.js';
import { base, cut, score, when, nameOf } from './text.js';
import { actions } from './why.js';

/** @typedef {import('./api.js').Stored} Stored */

const body = by('item-body');
let asked = 0;

/** @param {import('./route.js').Route} route */
export async function show({ id, params }) {
  const turn = ++asked;
  if (!id) return fill(body, h('p', { class: 'empty' }, 'No item is named. Open one from an answer.'));
  body.setAttribute('aria-busy', 'true');
  try {
    const [beside, near] = await Promise.all([around(id), get(`/v1/items/${encodeURIComponent(id)}/graph`)]);
    if (turn !== asked) return;
    const item = beside.items[beside.at];
    const back = h(
      'p',
      { class: 'summary' },
      h('a', { class: 'button', href: lastAsked(), 'data-close': true }, 'Back to the answer'),
    );
    fill(body, back, ...shown(item, beside), panel('Neighbourhood', 'graph-title', ...graph(near)));
    announce(`item ${cut(item.text, 80)}`);
    if (params.get('show') === 'graph') by('graph-title').scrollIntoView();
  } catch (error) {
    if (turn === asked) fill(body, failure(error));
  } finally {
    if (turn === asked) body.setAttribute('aria-busy', 'false');
  }
}

/**
 * @param {Stored} item
 * @param {{at: number, items: Stored[]}} beside
 */
function shown(item, beside) {
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
          h('span', { class: 'dim' }, when(item.time)),
          h('span', { class: 'who' }, item.speaker ?? item.role),
        ),
        h('blockquote', { class: 'text whole' }, item.text),
        actions(item, true),
        h('h2', {}, 'What is known of it'),
        pairs([
          ['id', h('span', { class: 'mono' }, item.id)],
          ['session', h('a', { class: 'mono', href: href('timeline', { session: item.session }) }, item.session)],
          ['turns', item.turns.join(', ')],
          ['title', item.title ?? '–'],
          ['project', item.project],
          ['source', h('span', { title: item.source }, base(item.source))],
          ['role', item.role],
          ['salience', score(item.salience)],
          ['confidence', `${score(item.confidence)}${item.vouched ? ` (${item.vouched})` : ''}`],
          ['tokens', String(item.tokens)],
        ]),
        names.length
          ? h('p', {}, 'Facts about ', ...names.map((name) => h('a', { href: href('facts', { entity: name }) }, name)))
          : null,
      ),
      panel('Around it', 'around-title', turns(beside.items, item.id)),
    ),
  ];
}

/**
 * Items in reading order; one of them may be the one that is meant.
 * @param {Stored[]} items
 * @param {string} [here]
 */
export function turns(items, here) {
  return h('ol', { class: 'turns' }, ...items.map((item) => turn(item, item.id === here)));
}

/**
 * @param {Stored} item
 * @param {boolean} here
 */
function turn(item, here) {
  return h(
    'li',
    { class: here ? 'turn here' : 'turn', 'aria-current': here ? 'true' : null },
    h(
      'p',
      { class: 'head' },
      h('span', { class: 'who' }, item.speaker ?? item.role),
      badge(item.type),
      h('span', { class: 'dim' }, when(item.time)),
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
            nameOf(item.turns),
          ),
    ),
    item.title && item.role === 'document' ? h('p', { class: 'dim small' }, item.title) : null,
    h('p', { class: 'text' }, item.text),
  );
}
