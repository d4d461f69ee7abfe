// @ts-check
/** The graph: what hangs together. Groups are discs of names, the most named in the middle; a name shows its links. */

import { get, getChoices } from './api.js';
import { announce, byId, fill, h } from './dom.js';
import { showGraph } from './graph.js';
import { layOut } from './layout.js';
import { empty, load, notice, panel } from './marks.js';
import { MapView } from './mapview.js';
import { go, href, toItem } from './route.js';
import { count, cutStart, plural } from './text.js';

/** @typedef {Record<string, any>} Json */

const SIZES = [60, 200, 1000, 10_000];
const LISTED = 60;
const body = byId('graph-body');
let calls = 0;

/** @param {import('./route.js').Route} route */
export async function show({ params }) {
  const call = ++calls;
  const item = params.get('item');
  await load(body, () => call === calls, () => (item ? loadItem(item, params.get('as_of')) : loadMap(params)));
}

/**
 * @param {string} item
 * @param {string | null} asOf
 */
async function loadItem(item, asOf) {
  const near = await get(`/v1/items/${encodeURIComponent(item)}/graph`, { as_of: asOf }).catch((error) => {
    if (asOf && error.status === 404) return null;
    throw error;
  });
  if (!near) return [empty('It was not known by then', 'The slider leads to a later day.')];
  const own = near.nodes.find((/** @type {Json} */ node) => node.id === near.item);
  return [
    h('p', { class: 'map-tools' }, h('a', { class: 'button', href: toItem({ id: item, session: own?.session }), 'data-close': true }, 'The item in its session'), ' ',
      h('a', { class: 'button', href: href('graph') }, 'The whole graph')),
    panel('What it is connected to', 'near-title', ...showGraph(near)),
  ];
}

/** @param {URLSearchParams} params */
async function loadMap(params) {
  const limit = Number(params.get('limit')) || SIZES[1];
  const [found, choices] = await Promise.all([
    get('/v1/graph', { project: params.get('project'), kinds: params.get('kinds'), as_of: params.get('as_of'), limit }),
    getChoices(),
  ]);
  announce(`${plural(found.nodes.length, 'name')} in ${plural(found.groups.length, 'group')}`);
  if (!found.nodes.length) return [makeTools(params, choices, found), empty('Nothing is named yet', 'People, files, packages and errors appear here once sessions name them.')];
  const canvas = h('canvas', { 'aria-hidden': 'true' });
  const list = h('aside', { class: 'map-list', 'aria-live': 'polite', 'aria-label': 'Names', tabindex: '0' });
  const placed = layOut(found, body.clientWidth < 700 ? 0.7 : 1.4);
  const view = new MapView(canvas, placed, found.edges, (id) => describe(list, found, id, view), (name) => go(href('subject', { name })));
  describe(list, found, null, view);
  const wanted = params.get('name')?.toLowerCase();
  const start = wanted && found.nodes.find((/** @type {Json} */ node) => node.label.toLowerCase() === wanted);
  if (start) requestAnimationFrame(() => view.choose(start.id));
  const zoom = (/** @type {string} */ label, /** @type {string} */ sign, /** @type {() => void} */ act) =>
    h('button', { type: 'button', class: 'icon', 'aria-label': label, onclick: act }, sign);
  return [
    makeTools(params, choices, found),
    h('div', { class: 'map-grid' },
      h('div', { class: 'map' }, canvas, h('div', { class: 'map-zoom' }, zoom('Zoom in', '+', () => view.zoom(1.5)), zoom('Zoom out', '−', () => view.zoom(1 / 1.5)), zoom('Show all', '⤢', () => view.fit()))),
      list),
  ];
}

/**
 * @param {URLSearchParams} params
 * @param {import('./api.js').Choices} choices
 * @param {Json} found
 */
function makeTools(params, choices, found) {
  const select = (/** @type {string} */ name, /** @type {[string, string][]} */ options) => {
    const made = h('select', { onchange: () => go(href('graph', { ...Object.fromEntries(params), [name]: made.value })) },
      options.map(([value, label]) => h('option', { value, selected: (params.get(name) ?? '') === value }, label)));
    return made;
  };
  const projects = /** @type {[string, string][]} */ ([['', 'every'], ...Object.keys(choices.projects).map((one) => [one, one])]);
  return h('div', { class: 'map-tools' },
    h('label', {}, 'Project', select('project', projects)),
    h('label', {}, 'Kinds', select('kinds', [['', 'all'], ['person', 'people'], ['path', 'files'], ['person,path', 'people and files']])),
    h('label', {}, 'Names', select('limit', [['', String(SIZES[1])], ...SIZES.filter((_, i) => i !== 1).map((n) => /** @type {[string, string]} */ ([String(n), count(n)]))])),
    h('span', { class: 'dim' }, `${count(found.nodes.length)} of ${plural(found.total, 'name')}`),
    h('ul', { class: 'legend', 'aria-label': 'Colours' }, [['person', 'people'], ['path', 'files'], ['package', 'projects, packages'], ['error', 'errors'], ['ticket', 'tickets'], ['name', 'others']].map(([kind, label]) => h('li', {}, h('span', { class: `swatch kind-${kind}` }), label))));
}

/**
 * Show a name with its links, or the groups.
 * @param {HTMLElement} into
 * @param {Json} found
 * @param {string | null} id
 * @param {MapView} view
 */
function describe(into, found, id, view) {
  const nodes = new Map(found.nodes.map((/** @type {Json} */ node) => [node.id, node]));
  const button = (/** @type {string} */ to, /** @type {string} */ label) => h('button', { type: 'button', class: 'quiet', 'data-stop': true, title: label, onclick: () => view.choose(to) }, cutStart(label, 34));
  if (id === null) {
    fill(into, h('h2', {}, plural(found.groups.length, 'group')),
      h('ul', {}, found.groups.slice(0, LISTED).map((/** @type {Json} */ group) => {
        const first = found.nodes.find((/** @type {Json} */ node) => node.group === group.id);
        return h('li', {}, first ? button(first.id, group.label) : group.label, h('span', { class: 'dim small' }, ` ${plural(Number(group.nodes), 'name')}`));
      })));
    return;
  }
  const node = nodes.get(id);
  const links = found.edges.filter((/** @type {Json} */ edge) => edge.from === id || edge.to === id);
  links.sort((/** @type {Json} */ one, /** @type {Json} */ other) => other.weight - one.weight);
  fill(into, h('h2', {}, node.label),
    h('p', { class: 'dim' }, `${node.kind}, named in ${plural(node.items, 'item')}`),
    h('p', {}, h('a', { href: href('subject', { name: node.label }) }, 'Its timeline'), ' · ', h('a', { href: href('ask', { q: node.label }) }, 'Ask about it'), ' · ',
      h('button', { type: 'button', class: 'quiet', onclick: () => view.choose(null) }, 'All groups')),
    h('h3', {}, links.length ? 'Named together with' : 'It is named with none of these'),
    h('ul', {}, links.slice(0, LISTED).map((/** @type {Json} */ edge) => {
      const other = nodes.get(edge.from === id ? edge.to : edge.from);
      return other ? h('li', {}, button(other.id, other.label), h('span', { class: 'dim small' }, ` ${other.kind}`)) : null;
    })));
}
