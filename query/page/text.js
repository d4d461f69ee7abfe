// @ts-check
/** Numbers and times as text. Times are UTC, as stored. */

/**
 * Format a whole number with thousands separators.
 * @param {number} value
 */
export function count(value) {
  return value.toLocaleString('en');
}

/**
 * Format a number with its noun: "1 item", "2 items".
 * @param {number} n
 * @param {string} one
 * @param {string} [many]
 */
export function plural(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}

/**
 * Format a score or signal with three places, or four below a tenth.
 * @param {number | null | undefined} value
 */
export function score(value) {
  if (value === null || value === undefined) return '–';
  if (Number.isInteger(value) && Math.abs(value) >= 2) return count(value);
  return value !== 0 && Math.abs(value) < 0.1 ? value.toFixed(4) : value.toFixed(3);
}

/**
 * Format a probability; a small one is not 0.
 * @param {number} value
 */
export function share(value) {
  return value >= 0.005 ? `${Math.round(value * 100)}%` : '<1%';
}

/**
 * Return a sentence with a capital letter.
 * @param {string} text
 */
export function capitalise(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * Format milliseconds.
 * @param {number} value
 */
export function millis(value) {
  return value < 10 ? value.toFixed(2) : value.toFixed(1);
}

/**
 * Format a time as "2026-02-10 20:31", or as its day alone at midnight; "by" marks the last change of a file.
 * @param {string | null | undefined} iso
 * @param {string | null} [quality]
 */
export function formatTime(iso, quality) {
  if (!iso) return 'no time';
  const time = iso.slice(11, 16);
  const text = time === '00:00' || !time ? iso.slice(0, 10) : `${iso.slice(0, 10)} ${time}`;
  return quality === 'file' ? `by ${text}` : text;
}

/**
 * Return the day, "2026-02-10".
 * @param {string} iso
 */
export function day(iso) {
  return iso.slice(0, 10);
}

/**
 * Return the milliseconds since 1970 of an ISO time, UTC by default.
 * @param {string} iso
 */
export function toMs(iso) {
  return Date.parse(/Z|[+-]\d\d:\d\d$/.test(iso) ? iso : `${iso}Z`);
}

/**
 * Return the last part of a path; the rest only concerns this machine.
 * @param {string} path
 */
export function getBaseName(path) {
  return path.slice(path.lastIndexOf('/') + 1) || path;
}

/**
 * Shorten the ids of turns: the end of a path, the start of a long id.
 * @param {string[]} turns
 */
export function formatTurns(turns) {
  return cut(getBaseName(turns.join(',')), 22);
}

/**
 * Cut a text to one line of `most` characters.
 * @param {string} text
 * @param {number} most
 */
export function cut(text, most) {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length <= most ? line : `${line.slice(0, most - 1).trimEnd()}…`;
}

/**
 * Format bytes, in units of 1,000.
 * @param {number} n
 */
export function bytes(n) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = n < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(n) / 3));
  const value = n / 1000 ** power;
  return `${power && value < 100 ? value.toFixed(1) : Math.round(value)} ${units[power]}`;
}
