// @ts-check
/** An item's connections: its neighbours, the entities it names, and other items that name them. */

import { h, s } from './dom.js';
import { href, toItem } from './route.js';
import { cut, formatTime, plural } from './text.js';

/**
 * @typedef {{id: string, kind: 'item' | 'entity', label: string, type?: string, session?: string,
 *   speaker?: string | null, time?: string | null, entity?: string, items?: number}} Node_
 * @typedef {{from: string, to: string, kind: string}} Edge
 * @typedef {{item: string, nodes: Node_[], edges: Edge[]}} Neighbourhood
 * @typedef {{node: Node_, x: number, y: number}} Position
 */

const BOX = { width: 256, height: 38, gap: 10 };
const COLUMN = 330; // from one column to the next: edges need room
const PLAIN = new Set(['next', 'reply', 'same', 'mentions', 'states']);
const WORDS = {
  next: 'next turn',
  reply: 'answers',
  same: 'the same file or error',
  mentions: 'names',
  states: 'states something about',
  fact: 'a fact',
};

/**
 * Show a neighbourhood as a picture and as a list.
 * @param {Neighbourhood} near
 */
export function showGraph(near) {
  if (near.nodes.length < 2) return [h('p', { class: 'dim' }, 'It has no connections.')];
  const positions = layOut(near);
  return [h('div', { class: 'picture' }, drawGraph(near, positions), makeLegend(near)), makeList(near)];
}

/**
 * Return each node's position, always the same for the same neighbourhood.
 * @param {Neighbourhood} near
 * @returns {Map<string, Position>}
 */
export function layOut(near) {
  const entities = near.nodes.filter((node) => node.kind === 'entity');
  const isEntity = new Set(entities.map((node) => node.id));
  const linked = new Set(
    near.edges
      .filter((edge) => !isEntity.has(edge.from) && !isEntity.has(edge.to))
      .flatMap((edge) => [edge.from, edge.to]),
  );
  const items = near.nodes.filter((node) => node.kind === 'item');
  const own = items.filter((node) => node.id === near.item || linked.has(node.id));
  own.sort((one, other) => (one.time ?? '').localeCompare(other.time ?? ''));
  const others = items.filter((node) => !own.includes(node));
  const columns = [own, entities, sortItems(others, entities, near.edges)].filter((column) => column.length);
  const most = Math.max(...columns.map((column) => column.length));
  const row = BOX.height + BOX.gap;
  const positions = columns.flatMap((column, i) =>
    column.map(
      (node, j) =>
        /** @type {[string, Position]} */ ([node.id, { node, x: i * COLUMN, y: (j + (most - column.length) / 2) * row }]),
    ),
  );
  return new Map(positions);
}

/**
 * Items own the entities they name, so that few edges cross: by the mean place of these.
 * @param {Node_[]} items
 * @param {Node_[]} entities
 * @param {Edge[]} edges
 */
function sortItems(items, entities, edges) {
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
 * @param {Neighbourhood} near
 * @param {Map<string, Position>} positions
 */
function drawGraph(near, positions) {
  const all = [...positions.values()];
  const width = Math.max(...all.map((one) => one.x)) + BOX.width;
  const height = Math.max(...all.map((one) => one.y)) + BOX.height;
  const edges = near.edges.map((edge) => ({ edge, line: drawEdge(edge, positions) }));
  const light = (/** @type {string | null} */ id) => {
    for (const { edge, line } of edges) line.classList.toggle('lit', edge.from === id || edge.to === id);
  };
  const nodes = all.map((one) => drawNode(one, near.item, light));
  const pad = 12;
  const drawing = s(
    'svg',
    {
      viewBox: `${-pad - 26} ${-pad} ${width + 2 * pad + 26} ${height + 2 * pad}`,
      width: width + 2 * pad + 26,
      height: height + 2 * pad,
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
 * Draw an edge as a curve between columns, or along the left of one column.
 * @param {Edge} edge
 * @param {Map<string, Position>} positions
 */
function drawEdge(edge, positions) {
  const [one, other] = [positions.get(edge.from), positions.get(edge.to)];
  const kind = PLAIN.has(edge.kind) ? edge.kind : 'fact';
  if (!one || !other) return s('path');
  const [left, right] = one.x <= other.x ? [one, other] : [other, one];
  const [y1, y2] = [left.y + BOX.height / 2, right.y + BOX.height / 2];
  if (left.x === right.x) {
    const bend = { next: 14, reply: 24, same: 30 }[kind] ?? 20; // keeps two kinds of the same pair apart
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
 * Draw a node as a link to its item or entity.
 * @param {Position} position
 * @param {string} here
 * @param {(id: string | null) => void} light
 */
function drawNode({ node, x, y }, here, light) {
  const centre = node.id === here;
  const lines = [cut(node.label, 36), describe(node)];
  return s(
    'a',
    {
      href: toHref(node),
      class: `node node-${node.kind}${centre ? ' here' : ''}`,
      'aria-label': `${node.kind} ${cut(node.label, 80)}, ${describe(node)}${centre ? ', this one' : ''}`,
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
function describe(node) {
  if (node.kind === 'entity') return `${node.entity}, in ${plural(node.items ?? 0, 'item')}`;
  return [node.type === 'decision' ? 'decision' : '', node.speaker, formatTime(node.time)].filter(Boolean).join(' · ');
}

/** @param {Node_} node */
function toHref(node) {
  return node.kind === 'entity' ? href('subject', { name: node.label }) : toItem(node);
}

/** @param {Neighbourhood} near */
function makeLegend(near) {
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
      ` ${WORDS[/** @type {keyof typeof WORDS} */ (kind)]}`,
    );
  return h('ul', { class: 'legend', 'aria-label': 'Kinds of connection' }, ...kinds.map(entry));
}

/**
 * List the connections in words.
 * @param {Neighbourhood} near
 */
function makeList(near) {
  const nodes = new Map(near.nodes.map((node) => [node.id, node]));
  const name = (/** @type {string} */ id) => {
    const node = nodes.get(id);
    if (id === near.item) return h('em', {}, 'this item');
    return node ? h('a', { href: toHref(node) }, cut(node.label, 60)) : id;
  };
  const toWords = (/** @type {Edge} */ edge) =>
    WORDS[/** @type {keyof typeof WORDS} */ (edge.kind)] ?? edge.kind.replaceAll('_', ' ');
  const entry = (/** @type {Edge} */ edge) =>
    h(
      'li',
      {},
      name(edge.from),
      h('span', { class: 'dim' }, ` ${edge.kind === 'next' ? 'then' : toWords(edge)} `),
      name(edge.to),
    );
  return h(
    'details',
    { open: innerWidth < 1000 },
    h('summary', {}, `The ${plural(near.edges.length, 'connection')} as a list`),
    h('ul', { class: 'connections' }, ...near.edges.map(entry)),
  );
}
