// @ts-check
/** What a candidate has besides its score: ranks in lists, and signals. */

/** @typedef {import('./api.js').Candidate} Candidate */

const NOT_SIGNALS = new Set(['rank', 'id', 'score', 'parts', 'shares', 'dropped']);

/**
 * Ranks and signals; null is the rank in a list that does not have it.
 * @param {Candidate} candidate
 * @returns {[string, number][]}
 */
export function signals(candidate) {
  return Object.entries(candidate).filter(([name]) => !NOT_SIGNALS.has(name));
}

/**
 * The largest value of each signal; of those that tell candidates apart, since the others would be bars of one length.
 * @param {Candidate[]} candidates
 * @returns {Map<string, number>}
 */
export function largest(candidates) {
  /** @type {Map<string, number>} */
  const most = new Map();
  for (const name of Object.keys(candidates[0] ?? {}).filter((one) => !NOT_SIGNALS.has(one))) {
    const values = candidates.map((one) => one[name]).filter((value) => typeof value === 'number');
    if (values.some((value) => value !== values[0])) most.set(name, Math.max(...values.map(Math.abs)));
  }
  return most;
}

/**
 * The lists that were fused: what a candidate has of them is a rank.
 * @param {import('./api.js').Stage[]} stages
 */
export function legsOf(stages) {
  return new Set(stages.flatMap((stage) => (typeof stage.rows_in === 'object' ? Object.keys(stage.rows_in) : [])));
}
