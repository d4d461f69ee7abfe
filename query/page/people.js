// @ts-check
/** People and files: who and what the memory names, the most named first, found by a part of the name. */

import { get } from './api.js';
import { announce, byId, fill, h } from './dom.js';
import { empty, load, pager, when } from './marks.js';
import { href, replace } from './route.js';
import { count, plural } from './text.js';

/** @typedef {Record<string, any>} Json */

const PAGE = 60;
const KINDS = /** @type {Record<string, string>} */ ({ people: 'person', files: 'path' });
let calls = 0;

/** @param {import('./route.js').Route} route */
export async function show({ view, params }) {
  const call = ++calls;
  const body = byId(`${view}-body`);
  const offset = Number(params.get('offset')) || 0;
  let list = /** @type {HTMLElement | null} */ (body.querySelector('.found'));
  if (!list) {
    list = h('div', { class: 'found' });
    fill(body, makeField(view), list);
  }
  const field = /** @type {HTMLInputElement} */ (body.querySelector('input'));
  if (document.activeElement !== field) field.value = params.get('name') ?? '';
  await load(list, () => call === calls, async () => {
    const query = params.get('name');
    const found = await get('/v1/entities', { kind: KINDS[view], query, as_of: params.get('as_of'), project: params.get('project'), offset, limit: PAGE });
    announce(plural(found.total, 'name'));
    if (!found.entities.length) return [empty(query ? `No name has “${query}”` : `No ${view === 'people' ? 'person' : 'file'} is known yet`)];
    return [
      h('ul', { class: 'cards' }, found.entities.map(makeCard)),
      pager({ offset, size: PAGE, end: offset + found.entities.length, total: found.total }, ['Before', 'More'], (to) => href(view, { name: query, project: params.get('project'), offset: to })),
    ];
  });
}

/** @param {string} view */
function makeField(view) {
  const label = view === 'people' ? 'Find a person' : 'Find a file';
  const field = h('input', { type: 'search', maxlength: '200', placeholder: view === 'people' ? 'a name' : 'a part of the path', spellcheck: 'false',
    oninput: () => replace(href(view, { name: field.value.trim() })) });
  return h('p', { class: 'fields' }, h('label', { class: 'wide' }, label, ' ', field));
}

/** @param {Json} one */
function makeCard(one) {
  const facts = one.facts ? `, ${plural(one.facts, 'fact')}` : '';
  return h('li', {}, h('a', { class: 'title', href: href('subject', { name: one.name }), 'data-stop': true }, one.name),
    h('p', { class: 'dim small' }, one.turns ? `${count(one.turns)} turns, ` : '', `named in ${plural(one.items, 'item')}${facts}`),
    one.last ? h('p', { class: 'small' }, when(one.last)) : null);
}
