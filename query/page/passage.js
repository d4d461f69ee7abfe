// @ts-check
/** A passage: an item in its conversation, which grows upwards and downwards while it is scrolled. */

import { getAround } from './api.js';
import { fill, h, nextFrame } from './dom.js';
import { failure, nameSession, skeleton } from './marks.js';
import { toItem } from './route.js';
import { cut } from './text.js';
import { dropRepeatedDays, makeTurns } from './turns.js';

/** @typedef {import('./api.js').Stored} Stored */

const FIRST = 6; // turns on either side
const STEP = 20;
/** @type {WeakMap<Element, number>} */
const calls = new WeakMap();

/**
 * Show an item among its neighbours.
 * @param {HTMLElement} into
 * @param {string} id
 * @param {string[]} words to mark
 */
export async function showPassage(into, id, words) {
  const call = (calls.get(into) ?? 0) + 1;
  calls.set(into, call);
  const isWanted = () => calls.get(into) === call && !into.contains(document.activeElement); // what has the focus stays
  if (!into.hasChildNodes()) fill(into, skeleton(6));
  try {
    const around = await getAround(id, FIRST);
    if (isWanted()) await draw(into, id, words, around.items);
  } catch (error) {
    if (isWanted()) fill(into, failure(error));
  }
}

/**
 * @param {HTMLElement} into
 * @param {string} id
 * @param {string[]} words
 * @param {Stored[]} items
 */
async function draw(into, id, words, items) {
  const here = items.find((item) => item.id === id) ?? items[0];
  const list = h('ol', { class: 'turns' });
  const scroller = h('div', { class: 'scroller', tabindex: '0', role: 'region', 'aria-label': 'The conversation, which scrolls' });
  let [first, last] = [items[0], items[items.length - 1]];
  const up = h('button', { type: 'button', class: 'quiet', onclick: () => grow(-1) }, 'Earlier turns');
  const down = h('button', { type: 'button', class: 'quiet', onclick: () => grow(1) }, 'Later turns');
  const label = () => {
    up.hidden = !first.previous;
    down.hidden = !last.next;
  };
  let busy = false;
  /**
   * Add turns, and return how many there were.
   * @param {1 | -1} way
   */
  async function grow(way) {
    const end = way < 0 ? first : last;
    if (busy || !(way < 0 ? end.previous : end.next)) return 0;
    busy = true;
    try {
      const more = await getAround(end.id, STEP, way);
      const fresh = way < 0 ? more.items.slice(0, more.at) : more.items.slice(more.at + 1);
      const turns = makeTurns(fresh, { words, day: way < 0 ? '' : (last.time ?? '').slice(0, 10) });
      if (way < 0) {
        const top = /** @type {HTMLElement} */ (list.querySelector(':scope > .turn'));
        const was = top.offsetTop - scroller.scrollTop;
        list.prepend(...turns);
        dropRepeatedDays(list);
        first = fresh[0] ?? first;
        label();
        await nextFrame(); // the texts are rendered by then
        scroller.scrollTop = top.offsetTop - was; // what is read stays where it is
      } else {
        list.append(...turns);
        last = fresh[fresh.length - 1] ?? last;
        await nextFrame();
      }
      label();
      return fresh.length;
    } finally {
      busy = false;
    }
  }
  list.append(...makeTurns(items, { here: id, words }));
  scroller.append(up, list, down);
  label();
  fill(
    into,
    h('p', { class: 'pane-head' }, h('a', { href: toItem(here) }, cut(nameSession(here), 90)), ' ',
      h('span', { class: 'dim' }, here.project)),
    scroller,
  );
  const mark = /** @type {HTMLElement | null} */ (list.querySelector('[aria-current]') ?? list.querySelector('.here'));
  await nextFrame();
  if (mark) scroller.scrollTop = Math.max(0, mark.offsetTop - scroller.offsetTop - 48);
  const isShort = () => into.matches('.pane') && scroller.clientHeight > 0 && scroller.scrollHeight <= scroller.clientHeight;
  while (isShort()) if (!(await grow(1)) && !(await grow(-1))) break; // what does not fill the pane cannot be scrolled
  scroller.addEventListener('scroll', () => {
    if (scroller.scrollTop < 80) void grow(-1);
    else if (scroller.scrollTop + scroller.clientHeight > scroller.scrollHeight - 80) void grow(1);
  }, { passive: true });
}
