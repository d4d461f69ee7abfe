// @ts-check
/** The view in the hash of the address, such as `#/ask?q=why+sqlite&k=5`: one address always shows the same. */

/**
 * `entered`: the user came from another view.
 * @typedef {{view: string, id: string, params: URLSearchParams, entered?: boolean}} Route
 */

/**
 * Read a route from a hash. Addresses of earlier versions lead to the view that has their content now.
 * @param {string} hash
 * @returns {Route}
 */
export function parseRoute(hash) {
  const [path, query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  const [view, ...rest] = path.split('/');
  const id = decodePart(rest.join('/'));
  const params = new URLSearchParams(query);
  switch (view) {
    case 'item':
      params.set('at', id);
      return { view: 'session', id: '', params };
    case 'timeline':
      return { view: params.get('session') ? 'session' : 'sessions', id: '', params };
    case 'facts':
      if (params.get('entity')) params.set('name', params.get('entity') ?? '');
      return { view: params.get('entity') ? 'subject' : 'decisions', id: '', params };
    default:
      return { view: view || 'home', id, params };
  }
}

/** @param {string} part */
function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a stray percent sign
  }
}

/** Return the moment that the address names for all views; empty for now. */
export function getMoment() {
  return parseRoute(location.hash).params.get('as_of') ?? '';
}

/**
 * Return the address of a view, without empty values. The moment of the shown one stays, unless another is given.
 * @param {string} view
 * @param {Record<string, string | number | boolean | null | undefined>} [values]
 */
export function href(view, values = {}) {
  /** @type {Record<string, unknown>} */
  const all = { as_of: getMoment(), ...values };
  const given = Object.entries(all).filter(
    ([, value]) => value !== '' && value !== null && value !== undefined && value !== false,
  );
  const query = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString();
  return `#/${view}${query && `?${query}`}`;
}

/**
 * Return the address of an item in its session.
 * @param {{id: string, session?: string | null}} item
 */
export function toItem(item) {
  return href('session', { session: item.session, at: item.id });
}

let last = '#/ask';

/** Return the address of the last question, at the moment that is shown now. */
export function getLastQuestion() {
  return href('ask', { ...Object.fromEntries(parseRoute(last).params), as_of: getMoment() });
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

/**
 * Go to an address in place of the current one, without an entry in the history.
 * @param {string} hash
 */
export function replace(hash) {
  if (location.hash === hash) return;
  history.replaceState(null, '', hash);
  window.dispatchEvent(new HashChangeEvent('hashchange'));
}
