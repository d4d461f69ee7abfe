// @ts-check
/** What an item is connected with: what stands beside it, the entities it names, what else names them. */

import { h, s } from './dom.js';
import { href } from './route.js';
import { cut, plural, when } from './text.js';

/**
 * @typedef {{id: string, kind: 'item' | 'entity', label: string, type?: string, session?: string,
 *   speaker?: string | null, time?: string | null, entity?: string, items?: number}} Node_
 * @typedef {{from: string, to: string, kind: string}} Edge
 * @typedef {{item: string, nodes: Node_[], edges: Edge[]}} Near
 * @typedef {{node: Node_, x: number, y: number}} Placed
 */

const BOX = { width: 268, height: 38, gap: 10 };
const COLUMN = 376; // from one column to the next: edges need room
const PLAIN = new Set(['next', 'reply', 'same', 'mentions', 'states']);
const WORDS = {
  next: 'next turn',
  reply: 'answers',
  same: 'the same file or error',
  mentions: 'names',
  states: 'states something of',
  fact: 'a fact',
};

/** @param {Near} near */
export function graph(near) {
  if (near.nodes.length < 2) return [h('p', { class: 'dim' }, 'It is connected with nothing.')];
  const placed = layout(near);
  return [picture(near, placed), key(near), listed(near)];
}

/**
 * Where each node stands: always the same of the same neighbourhood.
 * @param {Near} near
 * @returns {Map<string, Placed>}
 */
export function layout(near) {
  const entities = near.nodes.filter((node) => node.kind === 'entity');
  const isEntity = new Set(entities.map((node) => node.id));
  const linked = new Set(
    near.edges
      .filter((edge) => !isEntity.has(edge.from) && !isEntity.has(edge.to))
      .flatMap((edge) => [edge.from, edge.to]),
  );
  const items = near.nodes.filter((node) => node.kind === 'item');
  const beside = items.filter((node) => node.id === near.item || linked.has(node.id));
  beside.sort((one, other) => (one.time ?? '').localeCompare(other.time ?? ''));
  const others = items.filter((node) => !beside.includes(node));
  const columns = [beside, entities, sorted(others, entities, near.edges)].filter((column) => column.length);
  const most = Math.max(...columns.map((column) => column.length));
  const row = BOX.height + BOX.gap;
  const placed = columns.flatMap((column, i) =>
    column.map(
      (node, j) =>
        /** @type {[string, Placed]} */ ([node.id, { node, x: i * COLUMN, y: (j + (most - column.length) / 2) * row }]),
    ),
  );
  return new Map(placed);
}

/**
 * Items beside the entities they name, so that few edges cross: by the mean place of these.
 * @param {Node_[]} items
 * @param {Node_[]} entities
 * @param {Edge[]} edges
 */
function sorted(items, entities, edges) {
  const place = new Map(entities.map((node, i) => [node.id, i]));
  const mean = (/** @type {Node_} */ node) => {
    const at = edges
      .filter((edge) => edge.from === node.id)
      .map((edge) => place.get(edge.to))
      .filter((i) => i !== undefined);
    return at.reduce((sum, i) => sum + i, 0) / Math.max(1, at.length);
  };
  return [...items].sort((one, other) => mean(one) - mean(other) || one.id.localeCompare(other.id));
}

/**
 * @param {Near} near
 * @param {Map<string, Placed>} placed
 */
function picture(near, placed) {
  const all = [...placed.values()];
  const width = Math.max(...all.map((one) => one.x)) + BOX.width;
  const height = Math.max(...all.map((one) => one.y)) + BOX.height;
  const edges = near.edges.map((edge) => ({ edge, line: drawn(edge, placed) }));
  const light = (/** @type {string | null} */ id) => {
    for (const { edge, line } of edges) line.classList.toggle('lit', edge.from === id || edge.to === id);
  };
  const nodes = all.map((one) => box(one, near.item, light));
  const pad = 12;
  const drawing = s(
    'svg',
    {
      viewBox: `${-pad - 26} ${-pad} ${width + 2 * pad + 26} ${height + 2 * pad}`,
      class: 'graph',
      role: 'group',
      'aria-label': `${plural(near.nodes.length, 'node')}, ${plural(near.edges.length, 'connection')}`,
    },
    s('g', { 'aria-hidden': 'true' }, ...edges.map(({ line }) => line)),
    ...nodes,
  );
  return h('div', { class: 'scroll' }, drawing);
}

/**
 * A curve from side to side; in one column around its left.
 * @param {Edge} edge
 * @param {Map<string, Placed>} placed
 */
function drawn(edge, placed) {
  const [one, other] = [placed.get(edge.from), placed.get(edge.to)];
  const kind = PLAIN.has(edge.kind) ? edge.kind : 'fact';
  if (!one || !other) return s('path');
  const [left, right] = one.x <= other.x ? [one, other] : [other, one];
  const [y1, y2] = [left.y + BOX.height / 2, right.y + BOX.height / 2];
  if (left.x === right.x) {
    const bend = { next: 14, reply: 24, same: 30 }[kind] ?? 20; // two kinds between the same two stay apart
    return s('path', {
      class: `edge edge-${kind}`,
      d: `M${left.x} ${y1}C${left.x - bend} ${y1} ${left.x - bend} ${y2} ${left.x} ${y2}`,
    });
  }
  const [x1, x2] = [left.x + BOX.width, right.x];
  const middle = (x1 + x2) / 2;
  return s('path', { class: `edge edge-${kind}`, d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}` });
}

/**
 * A node as a link to what it stands for.
 * @param {Placed} placed
 * @param {string} here
 * @param {(id: string | null) => void} light
 */
function box({ node, x, y }, here, light) {
  const centre = node.id === here;
  const lines = [cut(node.label, 36), about(node)];
  return s(
    'a',
    {
      href: to(node),
      class: `node node-${node.kind}${centre ? ' here' : ''}`,
      'aria-label': `${node.kind} ${cut(node.label, 80)}, ${about(node)}${centre ? ', this one' : ''}`,
      onmouseenter: () => light(node.id),
      onmouseleave: () => light(null),
      onfocus: () => light(node.id),
      onblur: () => light(null),
    },
    s('title', {}, cut(node.label, 200)),
    s('rect', { x, y, width: BOX.width, height: BOX.height, rx: node.kind === 'entity' ? BOX.height / 2 : 5 }),
    s('text', { x: x + 14, y: y + 16 }, lines[0]),
    s('text', { x: x + 14, y: y + 30, class: 'sub' }, lines[1]),
  );
}

/** @param {Node_} node */
function about(node) {
  if (node.kind === 'entity') return `${node.entity}, in ${plural(node.items ?? 0, 'item')}`;
  return [node.type, node.speaker, when(node.time)].filter(Boolean).join(' · ');
}

/** @param {Node_} node */
function to(node) {
  return node.kind === 'entity' ? href('facts', { entity: node.label }) : href('item', {}, node.id);
}

/** @param {Near} near */
function key(near) {
  const kinds = [...new Set(near.edges.map((edge) => (PLAIN.has(edge.kind) ? edge.kind : 'fact')))];
  const entry = (/** @type {string} */ kind) =>
    h(
      'li',
      {},
      s(
        'svg',
        { width: 26, height: 8, 'aria-hidden': 'true' },
        s('path', { class: `edge edge-${kind}`, d: 'M1 4H25' }),
      ),
      ` ${WORDS[/** @type {keyof WORDS} */ (kind)]}`,
    );
  return h('ul', { class: 'legend', 'aria-label': 'Kinds of connection' }, ...kinds.map(entry));
}

/**
 * The same in words.
 * @param {Near} near
 */
function listed(near) {
  const nodes = new Map(near.nodes.map((node) => [node.id, node]));
  const name = (/** @type {string} */ id) => {
    const node = nodes.get(id);
    if (id === near.item) return h('em', {}, 'this item');
    return node ? h('a', { href: to(node) }, cut(node.label, 60)) : id;
  };
  const said = (/** @type {Edge} */ edge) =>
    WORDS[/** @type {keyof WORDS} */ (edge.kind)] ?? edge.kind.replaceAll('_', ' ');
  const entry = (/** @type {Edge} */ edge) =>
    h(
      'li',
      {},
      name(edge.from),
      h('span', { class: 'dim' }, ` ${edge.kind === 'next' ? 'then' : said(edge)} `),
      name(edge.to),
    );
  return h(
    'details',
    {},
    h('summary', {}, `The ${plural(near.edges.length, 'connection')} as a list`),
    h('ul', { class: 'connections' }, ...near.edges.map(entry)),
  );
}
