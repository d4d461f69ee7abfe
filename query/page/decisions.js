// @ts-check
/** What holds by topic, and what was rejected; a subject leads to its timeline. */

import { get, getChoices } from './api.js';
import { announce, byId, fill, h } from './dom.js';
import { offerChoices, readValues, restore } from './fields.js';
import { makeDecision, sayBy } from './home.js';
import { empty, load, when } from './marks.js';
import { go, href, toItem } from './route.js';
import { capitalise, cleanLine, cut, plural } from './text.js';

/** @typedef {Record<string, any>} Json */

const form = /** @type {HTMLFormElement} */ (byId('decisions-form'));
const body = byId('decisions-body');
let calls = 0;

form.addEventListener('submit', (event) => {
  event.preventDefault();
  const { name, ...rest } = readValues(form);
  go(name ? href('subject', { name, ...rest }) : href('decisions', rest));
});

/** @param {import('./route.js').Route} route */
export async function show({ params }) {
  const call = ++calls;
  restore(form, params);
  await load(body, () => call === calls, async () => {
    const [found, choices, known] = await Promise.all([
      get('/v1/decisions', { project: params.get('project'), as_of: params.get('as_of'), limit: 100 }),
      getChoices(),
      get('/v1/entities', { limit: 200, as_of: params.get('as_of') }).catch(() => ({ entities: [] })),
    ]);
    offerChoices(form, 'project', choices.projects);
    fill(byId('known'), ...known.entities.map((/** @type {Json} */ one) => h('option', { value: one.name })));
    announce(plural(found.decisions.length, 'decision'));
    if (found.note) return [empty(`${capitalise(found.note)}`)];
    return [
      listByProject(found.decisions),
      found.rejected.length ? h('section', { class: 'topic', 'aria-labelledby': 'rejected-title' }, h('h2', { id: 'rejected-title' }, 'Rejected'),
        h('ul', { class: 'rows' }, found.rejected.map(makeRejection))) : null,
      found.more ? h('p', { class: 'dim' }, 'There are more; choose a project to see all of its decisions.') : null,
    ];
  });
}

/** @param {Json[]} decisions */
function listByProject(decisions) {
  /** @type {Map<string, Json[]>} */
  const groups = new Map();
  for (const one of decisions) groups.set(one.project, [...(groups.get(one.project) ?? []), one]);
  return [...groups].map(([project, own]) => h('section', { class: 'topic' }, h('h2', {}, project), h('ul', { class: 'rows' }, own.map((one) => makeDecision(one, false)))));
}

/** @param {Json} one */
function makeRejection(one) {
  return h('li', {}, h('a', { class: 'plain', href: toItem({ id: one.item, session: one.session }), 'data-stop': true }, cut(cleanLine(one.text), 200)),
    h('p', { class: 'line' }, one.reason ? `because ${one.reason} · ` : '', sayBy(one.by), when(one.date), ` · ${one.project}`));
}
