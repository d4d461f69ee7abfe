// @ts-check
/** Numbers and moments in words, the same everywhere. Times are UTC, as they are stored. */

/**
 * A whole number with its thousands.
 * @param {number} value
 */
export function count(value) {
  return value.toLocaleString('en');
}

/**
 * "1 item", "2 items".
 * @param {number} n
 * @param {string} one
 * @param {string} [many]
 */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/**
 * A score or signal: three places, more where it is of the order of a hundredth.
 * @param {number | null | undefined} value
 */
export function score(value) {
  if (value === null || value === undefined) return '–';
  if (Number.isInteger(value) && Math.abs(value) >= 2) return count(value);
  return value !== 0 && Math.abs(value) < 0.1 ? value.toFixed(4) : value.toFixed(3);
}

/**
 * Milliseconds.
 * @param {number} value
 */
export function millis(value) {
  return value < 10 ? value.toFixed(2) : value.toFixed(1);
}

/**
 * "2026-02-10 20:31", or the day alone where the time of day says nothing.
 * @param {string | null | undefined} iso
 */
export function when(iso) {
  if (!iso) return 'no time';
  const time = iso.slice(11, 16);
  return time === '00:00' || !time ? iso.slice(0, 10) : `${iso.slice(0, 10)} ${time}`;
}

/**
 * "2026-02-10".
 * @param {string} iso
 */
export function day(iso) {
  return iso.slice(0, 10);
}

/**
 * Milliseconds since 1970 of an ISO moment, which is UTC.
 * @param {string} iso
 */
export function at(iso) {
  return Date.parse(/Z|[+-]\d\d:\d\d$/.test(iso) ? iso : `${iso}Z`);
}

/**
 * The end of a path: what is above it says where this machine keeps things.
 * @param {string} path
 */
export function base(path) {
  return path.slice(path.lastIndexOf('/') + 1) || path;
}

/**
 * Which turn, in few characters: of a path its end, of anything long its beginning.
 * @param {string[]} turns
 */
export function nameOf(turns) {
  return cut(base(turns.join(',')), 22);
}

/**
 * @param {string} text
 * @param {number} most characters
 */
export function cut(text, most) {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length <= most ? line : `${line.slice(0, most - 1).trimEnd()}…`;
}

/**
 * Bytes, in thousands.
 * @param {number} n
 */
export function bytes(n) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = n < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(n) / 3));
  const value = n / 1000 ** power;
  return `${power && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}
