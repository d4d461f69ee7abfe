// @ts-check
/** Requests to the server. Its error texts (RFC 9457) are shown unchanged. */

import { askKey, getKey } from './key.js';
import { getMoment } from './route.js';

/**
 * @typedef {Record<string, any>} Json
 * @typedef {{id: string, time: string | null, text: string}} Replacement
 * @typedef {{id: string, score: number, relevance: number, type: string, text: string, session: string,
 *   turns: string[], speaker: string | null, time: string | null, time_quality: string | null, project: string,
 *   source: string, title: string | null, role?: string, voice?: string, why: Json,
 *   replaced_by: Replacement | null}} Item
 * @typedef {{rank: number, id: string, score: number, parts: Record<string, number>, shares: Record<string, number>,
 *   dropped: string | null, replaced: string | null, [signal: string]: any}} Candidate
 * @typedef {{stage: string, rows_in?: any, rows_out?: number, ms?: number, [field: string]: any}} Stage
 * @typedef {{hints: import('./chips.js').Hint[], matches: [number, number][][],
 *   decides: boolean[]}} Marks
 * @typedef {Marks & {stages: Stage[], candidates: Candidate[], spans: {stage: string, at: number, ms: number}[],
 *   why_not?: string}} Trace
 * @typedef {{snapshot: number, profile: string, skipped: boolean, degraded: string[], answered: number,
 *   relevant: boolean, items: Item[], beyond: Item[], packed: number[], context: string, tokens: number,
 *   budget: number, counter: string, ms: Record<string, number>, trace: Marks, notice: string | null}} Answer
 * @typedef {Omit<Answer, 'trace'> & {trace: Trace}} Explained
 * @typedef {{id: string, type: string, role: string, text: string, session: string, turns: string[],
 *   speaker: string | null, time: string | null, time_quality: string | null, project: string, source: string,
 *   title: string | null, voice?: string, salience: number | null, confidence: number | null, vouched: string | null,
 *   tokens: number, previous: string | null, next: string | null, replaced_by: Replacement | null}} Stored
 * @typedef {{snapshot: number, items: number, sessions: number, first: string | null, last: string | null,
 *   projects: Record<string, number>, types: Record<string, number>, speakers: Record<string, number>,
 *   profiles: string[]}} Choices
 */

/** The server's error. `status` is 0 without any answer. */
export class Problem extends Error {
  /**
   * @param {number} status
   * @param {string} detail
   */
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/**
 * Send a GET request.
 * @param {string} path
 * @param {Record<string, unknown>} [params] empty values are left out
 * @returns {Promise<any>}
 */
export function get(path, params = {}) {
  const given = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== '');
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return send(query ? `${path}?${query}` : path, {});
}

/**
 * @param {string} path
 * @param {Json} body
 * @returns {Promise<any>}
 */
export function post(path, body) {
  return send(path, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
}

/**
 * Recall.
 * @param {Json} question arguments of a recall
 * @returns {Promise<Answer>}
 */
export function recall(question) {
  return ask({ ...question, marks: true });
}

/**
 * Recall, with what every stage did: this takes several milliseconds more.
 * @param {Json} question arguments of a recall
 * @returns {Promise<Explained>}
 */
export function recallExplained(question) {
  return ask({ ...question, explain: true });
}

/** @param {Json} question */
async function ask(question) {
  const answer = await post('/v1/recall', question);
  if (snapshot && answer.snapshot !== snapshot) {
    cached = null;
    window.dispatchEvent(new Event('generation'));
  }
  return answer;
}

/**
 * Return one stored item, as part of its session: a request for the item alone would count as an access.
 * @param {string} id
 * @returns {Promise<Stored>}
 */
export async function getItem(id) {
  const page = await getAround(id, 0);
  return page.items[page.at];
}

/**
 * Return an item among its neighbours.
 * @param {string} id
 * @param {number} [steps]
 * @param {number} [way] only before it: less than 0; only after it: more than 0
 * @returns {Promise<{session: string, at: number, items: Stored[]}>}
 */
export function getAround(id, steps = 3, way = 0) {
  const sides = { before: way > 0 ? 0 : steps, after: way < 0 ? 0 : steps };
  return get(`/v1/items/${encodeURIComponent(id)}/around`, { ...sides, as_of: getMoment() });
}

/** @type {Promise<Choices> | null} */
let cached = null;
let snapshot = 0; // the generation of the choices

/**
 * Return the values of each filter, requested once a generation.
 * @returns {Promise<Choices>}
 */
export function getChoices() {
  cached ??= get('/v1/choices').then(
    (found) => {
      snapshot = found.snapshot;
      return found;
    },
    (error) => {
      cached = null;
      throw error;
    },
  );
  return /** @type {Promise<Choices>} */ (cached);
}

/**
 * @param {string} path
 * @param {RequestInit} options
 * @returns {Promise<any>}
 */
async function send(path, options) {
  for (;;) {
    const used = getKey();
    const asked = performance.now();
    const response = await tryFetch(path, {
      ...options,
      headers: { ...options.headers, ...(used && { authorization: `Bearer ${used}` }) },
    });
    if (response.ok) return response.json();
    const detail = await readDetail(response);
    if (response.status !== 401 || !(await askKey(used, detail, asked))) throw new Problem(response.status, detail);
  }
}

/** The store of this page, on a server of many: `/stores/NAME`. */
const STORE = /^\/stores\/[^/]+/.exec(location.pathname)?.[0] ?? '';

/**
 * @param {string} path
 * @param {RequestInit} options
 */
async function tryFetch(path, options) {
  try {
    const response = await fetch(STORE + path, options);
    window.dispatchEvent(new CustomEvent('reached', { detail: true }));
    return response;
  } catch {
    return reportUnreachable();
  }
}

/**
 * Say that the server does not answer.
 * @returns {never}
 */
export function reportUnreachable() {
  window.dispatchEvent(new CustomEvent('reached', { detail: false }));
  throw new Problem(0, 'the server does not answer; check that helix serve runs');
}

/** @param {Response} response */
async function readDetail(response) {
  try {
    return String((await response.json()).detail);
  } catch {
    return `${response.status} ${response.statusText}`;
  }
}
