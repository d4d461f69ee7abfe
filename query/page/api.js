// @ts-check
/** What the server is asked. Its words for what is wrong (RFC 9457) are shown as they are. */

import { ask, key } from './key.js';

/**
 * @typedef {Record<string, any>} Json
 * @typedef {{id: string, score: number, type: string, text: string, session: string, turns: string[],
 *   speaker: string | null, time: string | null, project: string, source: string, why: Json}} Item
 * @typedef {{rank: number, id: string, score: number, parts: Record<string, number>, shares: Record<string, number>,
 *   dropped: string | null, [signal: string]: any}} Candidate
 * @typedef {{stage: string, rows_in?: any, rows_out?: number, ms?: number, [said: string]: any}} Stage
 * @typedef {{stages: Stage[], candidates: Candidate[], spans: {stage: string, at: number, ms: number}[],
 *   why_not?: string}} Trace
 * @typedef {{snapshot: number, profile: string, skipped: boolean, degraded: string[], items: Item[], packed: number[],
 *   context: string, tokens: number, budget: number, counter: string, ms: Record<string, number>, trace: Trace}} Answer
 * @typedef {{id: string, type: string, role: string, text: string, session: string, turns: string[],
 *   speaker: string | null, time: string | null, project: string, source: string, title: string | null,
 *   salience: number | null, confidence: number | null, vouched: string | null, tokens: number,
 *   previous: string | null, next: string | null}} Stored
 * @typedef {{snapshot: number, items: number, sessions: number, first: string | null, last: string | null,
 *   projects: Record<string, number>, types: Record<string, number>, speakers: Record<string, number>,
 *   profiles: string[]}} Choices
 */

/** Why the server did not answer as asked. `status` is 0 where it did not answer at all. */
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
 * @param {string} path
 * @param {Record<string, unknown>} [params] empty ones are left out
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
 * @param {Json} question arguments of a recall
 * @returns {Promise<Answer>}
 */
export async function recall(question) {
  const answer = await post('/v1/recall', { ...question, explain: true });
  if (snapshot && answer.snapshot !== snapshot) {
    known = null;
    window.dispatchEvent(new Event('generation'));
  }
  return answer;
}

/**
 * One item as it is stored. By its place among others: asking for it by itself would count as a use of it.
 * @param {string} id
 * @returns {Promise<Stored>}
 */
export async function look(id) {
  const found = await around(id, 0);
  return found.items[found.at];
}

/**
 * An item among those beside it.
 * @param {string} id
 * @param {number} [steps]
 * @returns {Promise<{session: string, at: number, items: Stored[]}>}
 */
export function around(id, steps = 3) {
  return get(`/v1/items/${encodeURIComponent(id)}/around`, { before: steps, after: steps });
}

/** @type {Promise<Choices> | null} */
let known = null;
let snapshot = 0; // that this is known of

/**
 * What there is to filter by; asked once a generation.
 * @returns {Promise<Choices>}
 */
export function choices() {
  known ??= get('/v1/choices').then(
    (there) => {
      snapshot = there.snapshot;
      return there;
    },
    (error) => {
      known = null;
      throw error;
    },
  );
  return /** @type {Promise<Choices>} */ (known);
}

/**
 * @param {string} path
 * @param {RequestInit} how
 * @returns {Promise<any>}
 */
async function send(path, how) {
  for (;;) {
    const used = key();
    const response = await fetched(path, {
      ...how,
      headers: { ...how.headers, ...(used && { authorization: `Bearer ${used}` }) },
    });
    if (response.ok) return response.json();
    const detail = await said(response);
    if (response.status !== 401 || !(await ask(used, detail))) throw new Problem(response.status, detail);
  }
}

/**
 * @param {string} path
 * @param {RequestInit} how
 */
async function fetched(path, how) {
  try {
    return await fetch(path, how);
  } catch {
    throw new Problem(0, 'the server does not answer; see whether helix serve runs');
  }
}

/** @param {Response} response */
async function said(response) {
  try {
    return String((await response.json()).detail);
  } catch {
    return `${response.status} ${response.statusText}`;
  }
}
