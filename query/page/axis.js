// @ts-check
/** A time axis from left to right, with round days or months. */

import { h, percent } from './dom.js';

/** @typedef {{first: number, last: number}} Span milliseconds since 1970 */

const DAY = 86_400_000;
const STEPS = [1, 2, 7, 14].map((days) => days * DAY);

/**
 * Return the span of some moments, with margins.
 * @param {number[]} moments
 * @returns {Span}
 */
export function findSpan(moments) {
  const [first, last] = [Math.min(...moments), Math.max(...moments)];
  const room = Math.max(DAY / 2, (last - first) * 0.03);
  return { first: first - room, last: last + room };
}

/**
 * Return a moment's place in a span, 0 to 1.
 * @param {Span} span
 * @param {number} moment
 */
export function getPlace(span, moment) {
  return (moment - span.first) / (span.last - span.first);
}

/**
 * Return at most `most` round moments: days, weeks, months or years.
 * @param {Span} span
 * @param {number} most
 * @returns {number[]}
 */
export function listTicks(span, most) {
  const step = STEPS.find((one) => (span.last - span.first) / one <= most);
  return step ? listDays(span, step) : listMonths(span, most);
}

/**
 * @param {Span} span
 * @param {number} step
 */
function listDays(span, step) {
  const days = [];
  for (let at = Math.ceil(span.first / step) * step; at <= span.last; at += step) days.push(at);
  return days;
}

/**
 * @param {Span} span
 * @param {number} most
 */
function listMonths(span, most) {
  const months = (span.last - span.first) / (30.44 * DAY);
  const step = [1, 2, 3, 6, 12, 24, 60, 120, 240].find((one) => months / one <= most) ?? 600;
  const start = new Date(span.first);
  const starts = [];
  for (let month = Math.ceil((start.getUTCFullYear() * 12 + start.getUTCMonth() + 1) / step) * step; ; month += step) {
    const at = Date.UTC(Math.floor(month / 12), month % 12);
    if (at > span.last) return starts;
    starts.push(at);
  }
}

/**
 * Make the axis above tracks.
 * @param {Span} span
 * @param {number} [most]
 */
export function makeRuler(span, most = 6) {
  const narrow = innerWidth < 900;
  const wide = span.last - span.first > 300 * DAY;
  const mark = (/** @type {number} */ at) => {
    const tick = h('span', { class: 'tick' }, new Date(at).toISOString().slice(0, wide ? 7 : 10));
    tick.style.left = percent(getPlace(span, at));
    return tick;
  };
  return h(
    'div',
    { class: 'ruler', 'aria-hidden': 'true' },
    ...listTicks(span, narrow ? 4 : most)
      .filter((at) => getPlace(span, at) < (narrow ? 0.82 : most < 6 ? 0.8 : 0.94))
      .map(mark),
  );
}
