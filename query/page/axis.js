// @ts-check
/** A stretch of time from left to right, with days or months that are round. */

import { h, percent } from './dom.js';

/** @typedef {{first: number, last: number}} Span milliseconds since 1970 */

const DAY = 86_400_000;
const STEPS = [1, 2, 7, 14].map((days) => days * DAY);

/**
 * The stretch that some moments span, with room at both ends.
 * @param {number[]} moments
 * @returns {Span}
 */
export function spanOf(moments) {
  const [first, last] = [Math.min(...moments), Math.max(...moments)];
  const room = Math.max(DAY / 2, (last - first) * 0.03);
  return { first: first - room, last: last + room };
}

/**
 * Where a moment stands: 0 to 1.
 * @param {Span} span
 * @param {number} moment
 */
export function place(span, moment) {
  return (moment - span.first) / (span.last - span.first);
}

/**
 * Round moments, at most so many: days, weeks, months or years.
 * @param {Span} span
 * @param {number} most
 * @returns {number[]}
 */
export function ticks(span, most) {
  const step = STEPS.find((one) => (span.last - span.first) / one <= most);
  return step ? byDays(span, step) : byMonths(span, most);
}

/**
 * @param {Span} span
 * @param {number} step
 */
function byDays(span, step) {
  const found = [];
  for (let at = Math.ceil(span.first / step) * step; at <= span.last; at += step) found.push(at);
  return found;
}

/**
 * @param {Span} span
 * @param {number} most
 */
function byMonths(span, most) {
  const months = (span.last - span.first) / (30.44 * DAY);
  const step = [1, 2, 3, 6, 12, 24, 60, 120, 240].find((one) => months / one <= most) ?? 600;
  const start = new Date(span.first);
  const found = [];
  for (let month = Math.ceil((start.getUTCFullYear() * 12 + start.getUTCMonth() + 1) / step) * step; ; month += step) {
    const at = Date.UTC(Math.floor(month / 12), month % 12);
    if (at > span.last) return found;
    found.push(at);
  }
}

/**
 * The line of days above tracks.
 * @param {Span} span
 * @param {number} [most]
 */
export function ruler(span, most = 6) {
  const narrow = innerWidth < 900;
  const wide = span.last - span.first > 300 * DAY;
  const mark = (/** @type {number} */ at) => {
    const made = h('span', { class: 'tick' }, new Date(at).toISOString().slice(0, wide ? 7 : 10));
    made.style.left = percent(place(span, at));
    return made;
  };
  return h(
    'div',
    { class: 'ruler', 'aria-hidden': 'true' },
    ...ticks(span, narrow ? 3 : most)
      .filter((at) => place(span, at) < (narrow ? 0.78 : 0.94))
      .map(mark),
  );
}
