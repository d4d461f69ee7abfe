// @ts-check
/** The arguments of a recall in the address. */

const WORDS = ['project', 'type', 'speaker', 'session', 'since', 'until', 'as_of', 'ingested_as_of', 'profile', 'mode',
  'quality', 'rerank', 'now'];
const NUMBERS = ['k', 'budget', 'look_back', 'min_relevance'];

/** The arguments that narrow or change an answer, in the order of their chips. */
export const FILTERS = [...WORDS.filter((name) => name !== 'as_of'), ...NUMBERS, 'entities', 'current_only'];

/**
 * Read the arguments of a recall from the address.
 * @param {URLSearchParams} params
 * @returns {import('./api.js').Json}
 */
export function readQuestion(params) {
  /** @type {import('./api.js').Json} */
  const question = { query: params.get('q') ?? '' };
  for (const name of WORDS) if (params.get(name)) question[name] = params.get(name);
  for (const name of NUMBERS) if (params.get(name)) question[name] = Number(params.get(name));
  if (params.get('current_only')) question.current_only = true;
  for (const [name, between] of [['entities', ','], ['ignored', '|']]) {
    const listed = (params.get(name) ?? '').split(between).map((one) => one.trim()).filter(Boolean);
    if (listed.length) question[name] = listed;
  }
  return question;
}

/**
 * Return the values of an address by name.
 * @param {URLSearchParams} params
 * @returns {Record<string, string>}
 */
export function toValues(params) {
  return Object.fromEntries(params);
}
