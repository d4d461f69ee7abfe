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
 * Cut a text to one line of at most `most` characters, between words where one ends near there.
 * @param {string} text
 * @param {number} most
 */
export function cut(text, most) {
  const line = text.replace(/\s+/g, ' ').trim();
  if (line.length <= most) return line;
  const end = line.lastIndexOf(' ', most - 1);
  return `${line.slice(0, end > most * 0.7 ? end : most - 1).replace(/[\s,;:(–-]+$/, '')}…`;
}

/**
 * Indent the first line of a numbered listing like the others: texts are stored without spaces at their ends.
 * @param {string} text
 */
export function alignListing(text) {
  const [, own] = /^(\d+)[→\t|:]/.exec(text) ?? [];
  const [, next] = /\n( *\d+)[→\t|:]/.exec(text) ?? [];
  return own && next && next.length > own.length ? text.padStart(text.length + next.length - own.length) : text;
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

const UNITS = /** @type {[Intl.RelativeTimeFormatUnit, number][]} */ ([
  ['year', 31_557_600_000],
  ['month', 2_629_800_000],
  ['week', 604_800_000],
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
]);
const RELATIVE = new Intl.RelativeTimeFormat('en', { numeric: 'auto' });

/**
 * Format a time as its distance from now: "3 weeks ago".
 * @param {string} iso
 * @param {number} [now] milliseconds
 */
export function formatAge(iso, now = Date.now()) {
  const off = toMs(iso) - now;
  const [unit, size] = UNITS.find(([, ms]) => Math.abs(off) >= ms) ?? ['minute', 60_000];
  return Math.abs(off) < 60_000 ? 'just now' : RELATIVE.format(Math.round(off / size), unit);
}

/**
 * Return the words for a calibrated relevance; `weak` is the threshold of the answer.
 * @param {number} value
 */
export function wordRelevance(value) {
  if (value >= 0.7) return 'very likely';
  if (value >= 0.4) return 'likely';
  if (value >= 0.12) return 'possible';
  return 'unlikely';
}

/**
 * Shorten the name of a session: the start of an id.
 * @param {string} name
 */
export function shortenSession(name) {
  return /^[0-9a-f]{8}-[0-9a-f-]{20,}/.test(name) ? name.slice(0, 8) : cut(name, 32);
}

const DAYS = new Intl.DateTimeFormat('en', { day: 'numeric', month: 'short', year: 'numeric', timeZone: 'UTC' });

/**
 * Format a day in words: "10 Feb 2026".
 * @param {string} iso
 */
export function formatDay(iso) {
  return DAYS.formatToParts(toMs(iso)).filter((part) => part.type !== 'literal').sort((one, other) => ORDER.indexOf(one.type) - ORDER.indexOf(other.type)).map((part) => part.value).join(' ');
}
const ORDER = ['day', 'month', 'year'];

/**
 * Return a sentence without the mark of a list before it.
 * @param {string} text
 */
export function cleanLine(text) {
  return text.replace(/^\s*(?:[-*+•]|\d{1,3}[.)]|#{1,6}|>)\s+/, '').replace(/\*\*([^*]+)\*\*/g, '$1').replaceAll('`', '');
}

/**
 * Cut a name to its last `most` characters: the end of a path tells more than its start.
 * @param {string} name
 * @param {number} most
 */
export function cutStart(name, most) {
  return name.length <= most ? name : `…${name.slice(1 - most)}`;
}
