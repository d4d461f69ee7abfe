// @ts-check
/** The packed context: the text for a prompt, and its share of the budget. */

import { bar, h } from './dom.js';
import { count, plural } from './text.js';

/** @typedef {import('./api.js').Answer} Answer */

/**
 * Show the context of an answer.
 * @param {Answer} answer
 */
export function showContext(answer) {
  const { tokens, budget, packed, items } = answer;
  const listed = packed.filter((i) => i < items.length);
  const left = items.length - listed.length;
  const more = packed.length - listed.length;
  const size = `${count(tokens)} of ${count(budget)} tokens`;
  return [
    h('p', { class: 'meter-line' }, h('strong', {}, size), h('span', { class: 'dim' }, ` ${answer.counter}`)),
    h('div', { class: 'budget', role: 'img', 'aria-label': size }, bar('used', budget ? tokens / budget : 0)),
    packed.length
      ? h(
          'p',
          { class: 'order' },
          h('span', { class: 'dim' }, 'Items, in order: '),
          ...listed.map((i) => makeChip(i + 1)),
          more ? h('span', { class: 'dim' }, ` and ${count(more)} more that the list leaves out`) : null,
        )
      : h('p', { class: 'dim' }, 'The context is empty.'),
    left > 0 ? h('p', { class: 'dim small' }, `${plural(left, 'item')} did not fit, or would not help.`) : null,
    answer.context
      ? h(
          'pre',
          { class: 'context', tabindex: '0', role: 'region', 'aria-label': 'The packed context' },
          answer.context,
        )
      : null,
  ];
}

/**
 * Make a link to a packed item, by its rank.
 * @param {number} rank
 */
function makeChip(rank) {
  const jump = () => {
    const head = /** @type {HTMLElement | null} */ (document.querySelector(`#rank-${rank} [data-stop]`));
    head?.focus();
  };
  return h('button', { type: 'button', class: 'number', 'aria-label': `to item ${rank}`, onclick: jump }, rank);
}
