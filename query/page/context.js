// @ts-check
/** The packed context: what goes into a prompt, and what it takes of the budget. */

import { bar, h } from './dom.js';
import { count, plural } from './text.js';

/** @typedef {import('./api.js').Answer} Answer */

/** @param {Answer} answer */
export function context(answer) {
  const { tokens, budget, packed, items } = answer;
  const left = items.length - packed.length;
  const said = `${count(tokens)} of ${count(budget)} tokens`;
  return [
    h('p', { class: 'meter-line' }, h('strong', {}, said), h('span', { class: 'dim' }, ` ${answer.counter}`)),
    h('div', { class: 'budget', role: 'img', 'aria-label': said }, bar('used', budget ? tokens / budget : 0)),
    packed.length
      ? h(
          'p',
          { class: 'order' },
          h('span', { class: 'dim' }, 'Items, in its order: '),
          ...packed.map((i) => chip(i + 1)),
        )
      : h('p', { class: 'dim' }, 'Nothing is in it.'),
    left > 0 && items.length ? h('p', { class: 'dim small' }, `${plural(left, 'item')} did not fit.`) : null,
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
 * A packed item by its rank, which leads to it.
 * @param {number} rank
 */
function chip(rank) {
  const to = () => {
    const head = /** @type {HTMLElement | null} */ (document.querySelector(`#rank-${rank} .head`));
    head?.focus();
  };
  return h('button', { type: 'button', class: 'chip', 'aria-label': `to item ${rank}`, onclick: to }, rank);
}
