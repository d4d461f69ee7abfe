// @ts-check
/** The moment that the whole page shows: now, or an earlier day, chosen with a slider over the store's time. */

import { getChoices } from './api.js';
import { byId, fill, h } from './dom.js';
import { href, parseRoute, replace } from './route.js';
import { day, toMs } from './text.js';

const DAY = 86_400_000;
const button = byId('moment');
const bar = byId('moment-bar');
const slider = h('input', { type: 'range', min: '0', step: '1', 'aria-label': 'As of', id: 'moment-slider' });
const prefix = h('label', { for: 'moment-slider' });
const label = h('output', { for: 'moment-slider' });
const back = h('button', { type: 'button', class: 'quiet', onclick: () => move('') }, 'Back to now');
let [first, last] = [0, 0];
/** @type {ReturnType<typeof setTimeout> | undefined} */
let timer;

/** Start to listen. */
export function listenToMoment() {
  button.addEventListener('click', async () => {
    if (!bar.hidden) return close();
    await prepare();
    bar.hidden = false;
    button.setAttribute('aria-expanded', 'true');
    slider.focus();
  });
  slider.addEventListener('input', () => {
    say(read());
    clearTimeout(timer);
    timer = setTimeout(() => move(read()), 120);
  });
  fill(bar, prefix, slider, label,
    back,
    h('button', { type: 'button', class: 'quiet', onclick: close, 'aria-label': 'Close the slider' }, '×'));
}

/** Set the slider to the days of the store. */
async function prepare() {
  const choices = await getChoices();
  first = choices.first ? Math.floor(toMs(choices.first) / DAY) : 0;
  last = Math.floor((choices.last ? toMs(choices.last) : Date.now()) / DAY) + 1;
  slider.max = String(Math.max(1, last - first));
  place(parseRoute(location.hash).params.get('as_of') ?? '');
}

/** Return the day of the slider; empty for now, at its end. */
function read() {
  const at = first + Number(slider.value);
  return at >= last ? '' : new Date(at * DAY).toISOString().slice(0, 10);
}

/** @param {string} asOf */
function place(asOf) {
  const at = asOf ? Math.floor(toMs(asOf) / DAY) - first : NaN;
  slider.value = Number.isFinite(at) ? String(at) : slider.max;
  say(asOf);
}

/** @param {string} asOf */
function say(asOf) {
  prefix.textContent = asOf ? 'As it was on' : 'As it is';
  label.textContent = asOf || 'today';
  back.hidden = !asOf;
}

/** @param {string} asOf */
function move(asOf) {
  const { view, params } = parseRoute(location.hash);
  replace(href(view, { ...Object.fromEntries(params), as_of: asOf }));
}

function close() {
  bar.hidden = true;
  button.setAttribute('aria-expanded', 'false');
  button.focus();
}

/**
 * Show the moment of an address in the head of the page.
 * @param {URLSearchParams} params
 */
export function showMoment(params) {
  const asOf = params.get('as_of') ?? '';
  button.textContent = asOf ? `As of ${/^\d{4}-/.test(asOf) ? day(asOf) : asOf}` : 'Now';
  button.classList.toggle('set', Boolean(asOf));
  document.documentElement.toggleAttribute('data-past', Boolean(asOf));
  if (!bar.hidden) place(asOf);
}
