// @ts-check
/** The view in the hash of the address, such as `#/ask?q=why+sqlite&k=5`: one address always shows the same. */

/**
 * `entered`: the user came from another view.
 * @typedef {{view: string, id: string, params: URLSearchParams, entered?: boolean}} Route
 */

/**
 * Read a route from a hash.
 * @param {string} hash
 * @returns {Route}
 */
export function parseRoute(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [view, ...rest] = path.split('/');
  return { view: view || 'ask', id: decodePart(rest.join('/')), params: new URLSearchParams(query) };
}

/** @param {string} part */
function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a stray percent sign
  }
}

/**
 * Return the address of a view, without empty values.
 * @param {string} view
 * @param {Record<string, string | number | boolean | null | undefined>} [values]
 * @param {string} [id]
 */
export function href(view, values = {}, id = '') {
  const given = Object.entries(values).filter(
    ([, value]) => value !== '' && value !== null && value !== undefined && value !== false,
  );
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${view}${id && `/${encodeURIComponent(id)}`}${query && `?${query}`}`;
}

let last = '#/ask';

/** Return the address of the last question. */
export function getLastQuestion() {
  return last;
}

/**
 * Store the address of the last question.
 * @param {string} hash
 */
export function rememberQuestion(hash) {
  last = hash || '#/ask';
}

/**
 * Go to an address; the current one is shown again.
 * @param {string} hash
 */
export function go(hash) {
  if (location.hash === hash) window.dispatchEvent(new HashChangeEvent('hashchange'));
  else location.hash = hash;
}
