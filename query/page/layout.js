// @ts-check
/**
 * Places for the nodes of a graph, always the same for the same graph, in linear time but for sorting.
 *
 * A group is a disc: its nodes lie on a sunflower spiral (Vogel 1979, "A better way to construct the sunflower head"),
 * the most named in the middle. Discs are put, the largest first, at the first free place of a spiral of their own.
 */

/**
 * @typedef {{id: string, label: string, kind: string, items: number, group: number | string}} GraphNode
 * @typedef {GraphNode & {x: number, y: number, r: number}} Placed
 * @typedef {{x: number, y: number, r: number, label: string}} Disc
 */

const GOLDEN = Math.PI * (3 - Math.sqrt(5));
const GAP = 26; // between discs
const ROOM = 15; // around a node, at least

/**
 * @param {{nodes: GraphNode[], groups: {id: number | string, label: string}[]}} graph
 * @param {number} aspect width of the whole by its height
 * @returns {{nodes: Placed[], discs: Disc[]}}
 */
export function layOut(graph, aspect) {
  /** @type {Map<number | string, GraphNode[]>} */
  const members = new Map();
  for (const node of graph.nodes) members.set(node.group, [...(members.get(node.group) ?? []), node]);
  const labels = new Map(graph.groups.map((group) => [group.id, group.label]));
  const most = Math.max(1, ...graph.nodes.map((node) => node.items));
  const few = graph.nodes.length <= 300;
  const groups = [...members].sort(([, one], [, other]) => other.length - one.length);
  /** @type {Disc[]} */
  const discs = [];
  const nodes = groups.flatMap(([id, own]) => {
    const step = few ? ROOM * 2.6 : ROOM;
    const disc = { x: 0, y: 0, r: step * Math.sqrt(own.length) + step, label: labels.get(id) ?? own[0].label };
    place(disc, discs, Math.sqrt(aspect));
    discs.push(disc);
    return [...own].sort((one, other) => other.items - one.items || one.id.localeCompare(other.id)).map((node, i) => {
      const [r, angle] = [step * Math.sqrt(i + 0.2), i * GOLDEN];
      return { ...node, x: disc.x + r * Math.cos(angle), y: disc.y + r * Math.sin(angle), r: 3 + 9 * Math.sqrt(node.items / most) };
    });
  });
  return { nodes, discs };
}

/**
 * Put a disc at the first place of a spiral where it touches no other.
 * @param {Disc} disc
 * @param {Disc[]} others
 * @param {number} stretch
 */
function place(disc, others, stretch) {
  for (let i = 0; ; i += 1) {
    const r = 9 * Math.sqrt(i);
    [disc.x, disc.y] = [r * stretch * Math.cos(i * GOLDEN), (r / stretch) * Math.sin(i * GOLDEN)];
    if (others.every((one) => (one.x - disc.x) ** 2 + (one.y - disc.y) ** 2 > (one.r + disc.r + GAP) ** 2)) return;
  }
}
