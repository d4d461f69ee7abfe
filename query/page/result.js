// @ts-check
/** The items of an answer, best first: title, voice, time, text with the matching words marked, and the reasons on demand. */

import { makeMenu } from './actions.js';
import { fill, h } from './dom.js';
import { cutWords, markWords } from './markdown.js';
import { badge, failure, nameSession, relevance, showReplacement, voice, when } from './marks.js';
import { toItem } from './route.js';
import { alignListing, cut, getBaseName } from './text.js';
import { makeText, splitCalls } from './turns.js';

/**
 * @typedef {import('./api.js').Answer} Answer
 * @typedef {import('./api.js').Item} Item
 * @typedef {{choose: (id: string) => void, getExplained: () => Promise<import('./api.js').Explained>}} Acts show an
 *   item's conversation; the same answer with what every stage did
 */

const SHOWN = 700; // characters of a text, around its first match

/**
 * Make the list of items.
 * @param {Answer} answer
 * @param {Acts} acts
 */
export function listItems(answer, acts) {
  if (!answer.items.length) return null;
  const packed = new Set(answer.packed);
  const cards = answer.items.map((item, i) => makeCard(item, i + 1, packed.has(i), answer.trace, acts));
  return h('ol', { class: answer.relevant ? 'results' : 'results nearest', 'aria-label': 'Items, best first' }, ...cards);
}

/**
 * @param {Item} item
 * @param {number} rank
 * @param {boolean} isPacked
 * @param {import('./api.js').Marks} marks
 * @param {Acts} acts
 */
function makeCard(item, rank, isPacked, marks, { choose, getExplained }) {
  const places = marks.matches[rank - 1];
  const words = cutWords(item.text, places);
  const title = cut(nameSession({ ...item, title: isRepeated(item) ? null : item.title }), 110);
  const link = h('a', { href: toItem(item), 'data-stop': true, class: 'title', title: `Open in ${title}` }, voice(item) ?? title, ' ',
    when(item.time, item.time_quality));
  const why = h('div', { class: 'why', id: `why-${rank}`, hidden: true });
  const ask = h('button', { type: 'button', class: 'quiet', 'data-why': true, 'aria-expanded': 'false', 'aria-controls': why.id,
    onclick: () => toggle() }, 'Why');
  let isShown = false;
  async function toggle() {
    why.hidden = !why.hidden;
    ask.setAttribute('aria-expanded', String(!why.hidden));
    if (why.hidden || isShown) return;
    try {
      const [{ explain }, answer] = await Promise.all([import('./why.js'), getExplained()]);
      fill(why, ...explain(item, answer));
      isShown = true;
    } catch (error) {
      fill(why, failure(error));
    }
  }
  return h(
    'li',
    { class: 'result', id: `rank-${rank}`, 'data-item': item.id, 'data-words': words.join('\n'), onfocusin: () => choose(item.id),
      onclick: (/** @type {MouseEvent} */ event) => selectBy(event, item.id, choose) },
    h('div', { class: 'line' }, h('span', { class: 'rank', 'aria-hidden': 'true' }, rank), h('h3', {}, link),
      marks.decides[rank - 1] ? badge('decision') : null, relevance(item.relevance)),
    makeBody(item, words, places),
    showReplacement(item.replaced_by),
    h('p', { class: 'from' }, h('span', { title: item.source }, [title, title.startsWith(`${item.project}, `) ? '' : item.project, getBaseName(item.source)].filter(Boolean).join(' · ')),
      isPacked ? [' · ', h('span', { class: 'packed', title: 'It is in the context for a prompt' }, 'in context')] : null),
    h('p', { class: 'acts' }, ask, ' ', makeContextButton(item, words), ' ', makeMenu(item)),
    why,
  );
}

/**
 * Return whether an item's title is only the beginning of its text.
 * @param {Item} item
 */
function isRepeated(item) {
  const head = (item.title ?? '').replace(/…$/, '').trim();
  return Boolean(head) && item.text.replace(/\s+/g, ' ').startsWith(head);
}

/**
 * Choose an item by a click on anything that is not itself a control, and not by selecting text.
 * @param {MouseEvent} event
 * @param {string} id
 * @param {(id: string) => void} choose
 */
function selectBy(event, id, choose) {
  const target = /** @type {Element} */ (event.target);
  if (!target.closest('a, button, summary, input, textarea') && getSelection()?.isCollapsed) choose(id);
}

/**
 * Show a text around its first match.
 * @param {Item} item
 * @param {string[]} words
 * @param {[number, number][] | undefined} places
 */
function makeBody(item, words, places) {
  if (item.role === 'tool') {
    const box = h('pre', { class: 'output', tabindex: '0', role: 'group', 'aria-label': 'Output' }, cutAround(alignListing(item.text), places));
    markWords(box, words);
    return box;
  }
  const { prose, calls } = item.role === 'assistant' || /^\[[A-Z]/m.test(item.text) ? splitCalls(item.text) : { prose: item.text, calls: [] };
  return h(
    'div',
    { class: 'excerpt' },
    prose ? makeLong(prose, words, calls.length ? undefined : places, item.role !== 'document') : null,
    calls.map((call) => {
      const line = h('p', { class: 'call' }, h('b', {}, call.tool), ' ', h('code', {}, cut(call.target, 200)));
      markWords(line, words);
      return line;
    }),
  );
}

/**
 * @param {string} text
 * @param {string[]} words
 * @param {[number, number][] | undefined} places
 * @param {boolean} breaks
 */
function makeLong(text, words, places, breaks) {
  const part = cutAround(text, places);
  if (part === text) return makeText(text, words, undefined, breaks);
  const box = makeText(part, words, undefined, breaks);
  const more = h('button', { type: 'button', class: 'quiet more-text', onclick: () => more.parentElement?.replaceChildren(makeText(text, words, text.length, breaks)) }, 'Show all');
  return h('div', {}, box, more);
}

/**
 * Cut a long text to whole lines around its first match.
 * @param {string} text
 * @param {[number, number][] | undefined} places
 */
function cutAround(text, places) {
  if (text.length <= SHOWN * 1.4) return text;
  const first = places?.[0]?.[0] ?? 0;
  const from = first < SHOWN * 0.6 ? 0 : text.lastIndexOf('\n', first - 160) + 1 || first - 160;
  const end = text.indexOf('\n', from + SHOWN);
  const to = end > 0 && end < from + SHOWN * 1.4 ? end : from + SHOWN;
  return `${from ? '… ' : ''}${text.slice(from, to)}${to < text.length ? ' …' : ''}`;
}

/**
 * Make the button that shows the conversation below the item, where the view has no pane for it.
 * @param {Item} item
 * @param {string[]} words
 */
function makeContextButton(item, words) {
  const place = h('div', { class: 'inline-pane', hidden: true });
  const button = h('button', { type: 'button', class: 'quiet narrow-only', 'aria-expanded': 'false', onclick: async () => {
    place.hidden = !place.hidden;
    button.setAttribute('aria-expanded', String(!place.hidden));
    button.closest('.result')?.append(place);
    const { showPassage } = await import('./passage.js');
    if (!place.hidden && !place.hasChildNodes()) await showPassage(place, item.id, words);
  } }, 'Conversation');
  return button;
}
