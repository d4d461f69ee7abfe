// @ts-check
/** A graph on a canvas: drawn at any zoom, with as many labels as have room; moved by pointer, wheel and keys. */

import { cutStart } from './text.js';

/**
 * @typedef {import('./layout.js').Placed} Placed
 * @typedef {{from: string, to: string, weight: number}} Edge
 */

const KINDS = /** @type {Record<string, string>} */ ({ person: '--violet', path: '--blue', error: '--bad', package: '--good', project: '--good', ticket: '--warn' });
const SHOWN_EDGES = 160; // without a chosen node: the strongest
const FONT = '12px system-ui, sans-serif';
const FEW = 300; // nodes that may all have a label
const LEGIBLE = 3; // pixels of a node's radius from which it has a label without being the first of its group
const NEAR = 14; // pixels from a node at which a pointer is on it

export class MapView {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {{nodes: Placed[], discs: import('./layout.js').Disc[]}} placed
   * @param {Edge[]} edges
   * @param {(id: string | null) => void} onChoose
   * @param {(name: string) => void} onOpen
   */
  constructor(canvas, placed, edges, onChoose, onOpen) {
    this.canvas = canvas;
    this.nodes = placed.nodes;
    this.discs = placed.discs;
    this.byId = new Map(this.nodes.map((node) => [node.id, node]));
    this.edges = edges.filter((edge) => this.byId.has(edge.from) && this.byId.has(edge.to));
    this.onChoose = onChoose;
    this.onOpen = onOpen;
    /** @type {string | null} */
    this.chosen = null;
    this.view = { x: 0, y: 0, k: 1 };
    this.wasMoved = false;
    this.sorted = [...this.nodes].sort((one, other) => other.items - one.items);
    /** @type {Map<number | string, string>} the most named node of each group */
    const first = new Map();
    for (const node of this.sorted) if (!first.has(node.group)) first.set(node.group, node.id);
    this.firsts = new Set(first.values());
    this.strongest = [...this.edges].sort((one, other) => other.weight - one.weight).slice(0, SHOWN_EDGES);
    new ResizeObserver(() => (this.wasMoved ? this.draw() : this.fit())).observe(canvas);
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw());
    new MutationObserver(() => this.draw()).observe(document.documentElement, { attributeFilter: ['data-theme'] });
    this.listen();
  }

  /** Show all of it. */
  fit() {
    const box = this.canvas.getBoundingClientRect();
    const xs = this.discs.flatMap((disc) => [disc.x - disc.r, disc.x + disc.r]);
    const ys = this.discs.flatMap((disc) => [disc.y - disc.r - 16, disc.y + disc.r + 16]);
    const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
    const height = box.height - (box.width < 500 ? 44 : 0); // above the buttons
    const k = Math.min(2.2, (box.width - 32) / (right - left), (height - 32) / (bottom - top));
    this.view = { k, x: box.width / 2 - (k * (left + right)) / 2, y: height / 2 - (k * (top + bottom)) / 2 };
    this.wasMoved = false;
    this.draw();
  }

  /**
   * Zoom around a point, the middle by default.
   * @param {number} factor
   * @param {number} [x]
   * @param {number} [y]
   */
  zoom(factor, x = this.canvas.clientWidth / 2, y = this.canvas.clientHeight / 2) {
    const k = Math.min(8, Math.max(0.02, this.view.k * factor));
    const real = k / this.view.k;
    this.view = { k, x: x - (x - this.view.x) * real, y: y - (y - this.view.y) * real };
    this.wasMoved = true;
    this.draw();
  }

  /**
   * Choose a node and bring it to the middle; null for none.
   * @param {string | null} id
   */
  choose(id) {
    this.chosen = id;
    const node = id === null ? null : this.byId.get(id);
    if (node) {
      const k = Math.max(1, this.view.k);
      this.view = { k, x: this.canvas.clientWidth / 2 - k * node.x, y: this.canvas.clientHeight / 2 - k * node.y };
      this.wasMoved = true;
      this.draw();
    } else this.fit();
    this.onChoose(id);
  }

  listen() {
    /** @type {Map<number, {x: number, y: number}>} */
    const points = new Map();
    let travelled = 0;
    this.canvas.addEventListener('pointerdown', (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      points.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      travelled = 0;
    });
    this.canvas.addEventListener('pointermove', (event) => {
      const old = points.get(event.pointerId);
      if (!old) return;
      const now = { x: event.offsetX, y: event.offsetY };
      travelled += Math.hypot(now.x - old.x, now.y - old.y);
      const other = [...points].find(([id]) => id !== event.pointerId)?.[1];
      points.set(event.pointerId, now);
      if (other) return this.zoom(Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(old.x - other.x, old.y - other.y)), other.x, other.y);
      this.view = { ...this.view, x: this.view.x + now.x - old.x, y: this.view.y + now.y - old.y };
      this.wasMoved = true;
      this.draw();
    });
    this.canvas.addEventListener('pointerup', (event) => {
      points.delete(event.pointerId);
      if (travelled < 5) this.pick(event.offsetX, event.offsetY);
    });
    this.canvas.addEventListener('pointercancel', (event) => points.delete(event.pointerId));
    this.canvas.addEventListener('dblclick', () => this.chosen && this.onOpen(this.byId.get(this.chosen)?.label ?? ''));
    this.canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      this.zoom(Math.exp(-event.deltaY / 400), event.offsetX, event.offsetY);
    }, { passive: false });
  }

  /**
   * Choose the node under a point.
   * @param {number} x
   * @param {number} y
   */
  pick(x, y) {
    const { k } = this.view;
    const [at, up] = [(x - this.view.x) / k, (y - this.view.y) / k];
    let [best, least] = [/** @type {Placed | null} */ (null), (NEAR / k) ** 2];
    for (const node of this.nodes) {
      const off = Math.max(0, Math.hypot(node.x - at, node.y - up) - node.r) ** 2;
      if (off < least) [best, least] = [node, off];
    }
    this.chosen = best?.id ?? null;
    this.draw();
    this.onChoose(this.chosen);
  }

  /** Draw once, at the next frame. */
  draw() {
    if (this.waits) return;
    this.waits = true;
    requestAnimationFrame(() => {
      this.waits = false;
      this.paint();
    });
  }

  paint() {
    const { canvas, view } = this;
    const scale = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (!width || !height) return;
    if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
      canvas.width = Math.round(width * scale);
      canvas.height = Math.round(height * scale);
    }
    const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d'));
    const colours = readColours(canvas);
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
    ctx.clearRect(0, 0, width, height);
    ctx.setTransform(scale * view.k, 0, 0, scale * view.k, scale * view.x, scale * view.y);
    this.paintDiscs(ctx, colours);
    const near = this.paintEdges(ctx, colours);
    for (const node of this.nodes) {
      ctx.globalAlpha = this.chosen && !near.has(node.id) ? 0.25 : 1;
      ctx.fillStyle = colours(KINDS[node.kind] ?? '--edge');
      ctx.beginPath();
      ctx.arc(node.x, node.y, node.r, 0, 7);
      ctx.fill();
    }
    ctx.globalAlpha = 1;
    ctx.setTransform(scale, 0, 0, scale, 0, 0);
    this.paintLabels(ctx, colours, near, width, height);
  }

  /**
   * @param {CanvasRenderingContext2D} ctx
   * @param {(name: string) => string} colours
   */
  paintDiscs(ctx, colours) {
    ctx.fillStyle = colours('--raised');
    for (const disc of this.discs) {
      ctx.beginPath();
      ctx.arc(disc.x, disc.y, disc.r, 0, 7);
      ctx.fill();
    }
  }

  /**
   * Draw the edges of the chosen node; without one all edges, if they are few. Return the nodes next to the chosen one.
   * @param {CanvasRenderingContext2D} ctx
   * @param {(name: string) => string} colours
   */
  paintEdges(ctx, colours) {
    const near = new Set(this.chosen ? [this.chosen] : []);
    const shown = this.chosen ? this.edges.filter((edge) => edge.from === this.chosen || edge.to === this.chosen) : this.strongest;
    ctx.strokeStyle = colours(this.chosen ? '--focus' : '--edge');
    ctx.globalAlpha = this.chosen ? 0.8 : 0.3;
    ctx.lineWidth = (this.chosen ? 1.5 : 1) / this.view.k;
    ctx.beginPath();
    for (const edge of shown) {
      const [one, other] = [this.byId.get(edge.from), this.byId.get(edge.to)];
      if (!one || !other) continue;
      near.add(one.id).add(other.id);
      ctx.moveTo(one.x, one.y);
      ctx.lineTo(other.x, other.y);
    }
    ctx.stroke();
    ctx.globalAlpha = 1;
    return near;
  }

  /**
   * Write the labels that have room, the chosen node's and the most named first.
   * @param {CanvasRenderingContext2D} ctx
   * @param {(name: string) => string} colours
   * @param {Set<string>} near
   * @param {number} width
   * @param {number} height
   */
  paintLabels(ctx, colours, near, width, height) {
    ctx.font = FONT;
    ctx.textAlign = 'center';
    const rank = (/** @type {Placed} */ node) => Number(near.has(node.id)) * 2 + Number(this.firsts.has(node.id));
    const order = [...this.sorted].sort((one, other) => rank(other) - rank(one));
    const rooms = new Rooms();
    let written = 0;
    for (const node of order) {
      if (written > 160) break;
      const [x, y] = [node.x * this.view.k + this.view.x, node.y * this.view.k + this.view.y];
      if (x < 0 || y < 0 || x > width || y > height) continue;
      if (this.nodes.length > FEW && !rank(node) && node.r * this.view.k < LEGIBLE) continue;
      const label = cutStart(node.label, 28);
      const half = ctx.measureText(label).width / 2 + 3;
      const top = y + node.r * this.view.k + 2;
      if (!rooms.take(x - half, top, x + half, top + 14)) continue;
      ctx.strokeStyle = colours('--panel');
      ctx.lineWidth = 3;
      ctx.strokeText(label, x, top + 11);
      ctx.fillStyle = colours(this.chosen && !near.has(node.id) ? '--dim' : '--text');
      ctx.fillText(label, x, top + 11);
      written += 1;
    }
  }
}

/** Rectangles that do not overlap. */
class Rooms {
  constructor() {
    /** @type {[number, number, number, number][]} */
    this.taken = [];
  }

  /**
   * Take a rectangle; return false if another is in it.
   * @param {number} left
   * @param {number} top
   * @param {number} right
   * @param {number} bottom
   */
  take(left, top, right, bottom) {
    if (this.taken.some(([l, t, r, b]) => left < r && right > l && top < b && bottom > t)) return false;
    this.taken.push([left, top, right, bottom]);
    return true;
  }
}

/**
 * Return a function that looks up a colour of the style sheet, as the theme has it.
 * @param {Element} element
 */
function readColours(element) {
  const probe = document.createElement('i');
  element.after(probe);
  /** @type {Map<string, string>} */
  const known = new Map();
  const read = (/** @type {string} */ name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  };
  const found = new Map([...Object.values(KINDS), '--edge', '--raised', '--focus', '--text', '--dim', '--panel'].map((name) => [name, read(name)]));
  probe.remove();
  return (/** @type {string} */ name) => found.get(name) ?? known.get(name) ?? 'gray';
}
