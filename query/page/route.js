// @ts-check
/** Where we are, in the hash of the address: `#/ask?q=why+sqlite&k=5`. Whoever has the address sees the same. */

/**
 * `entered`: from another view.
 * @typedef {{view: string, id: string, params: URLSearchParams, entered?: boolean}} Route
 */

/**
 * @param {string} hash
 * @returns {Route}
 */
export function parse(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [view, ...rest] = path.split('/');
  return { view: view || 'ask', id: decoded(rest.join('/')), params: new URLSearchParams(query) };
}

/** @param {string} part */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a stray percent sign
  }
}

/**
 * The address of a view; values that are empty are left out.
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

/** The last question: the way back to its answer. */
export function asked() {
  return last;
}

/** @param {string} hash */
export function remember(hash) {
  last = hash || '#/ask';
}

/**
 * Go there; where we are already, once more.
 * @param {string} hash
 */
export function go(hash) {
  if (location.hash === hash) window.dispatchEvent(new HashChangeEvent('hashchange'));
  else location.hash = hash;
}
