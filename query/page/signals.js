// @ts-check
/** A candidate's ranks and signals. */

/** @typedef {import('./api.js').Candidate} Candidate */

const NOT_SIGNALS = new Set(['rank', 'id', 'score', 'parts', 'shares', 'dropped', 'replaced']);

/**
 * List a candidate's ranks and signals; the rank in a list without it is null.
 * @param {Candidate} candidate
 * @returns {[string, number][]}
 */
export function listSignals(candidate) {
  return Object.entries(candidate).filter(([name]) => !NOT_SIGNALS.has(name));
}

/**
 * Return the largest value of each signal that differs between candidates; the others would be equal bars.
 * @param {Candidate[]} candidates
 * @returns {Map<string, number>}
 */
export function findLargest(candidates) {
  /** @type {Map<string, number>} */
  const most = new Map();
  for (const name of Object.keys(candidates[0] ?? {}).filter((one) => !NOT_SIGNALS.has(one))) {
    const values = candidates.map((one) => one[name]).filter((value) => typeof value === 'number');
    if (values.some((value) => value !== values[0])) most.set(name, Math.max(...values.map(Math.abs)));
  }
  return most;
}

/**
 * Return the names of the fused lists; a candidate's value for such a name is a rank.
 * @param {import('./api.js').Stage[]} stages
 */
export function findLegs(stages) {
  return new Set(stages.flatMap((stage) => (typeof stage.rows_in === 'object' ? Object.keys(stage.rows_in) : [])));
}
