// @ts-check
/**
 * Markdown and code of memories as elements. The libraries only split text into tokens; every element is made here, so
 * HTML in a memory stays text, no image is requested, and a link leads only to http or https.
 */

import { h } from './dom.js';

/** @typedef {import('./dom.js').Child} Child */
/** @typedef {Record<string, any>} Token */

/** @type {Promise<{lexer: (text: string, options?: object) => Token[]}> | null} */
let marked = null;
/** @type {Promise<any> | null} */
let prism = null;
const LONGEST = 20_000; // characters of a highlighted block
const DEEPEST = 12; // levels of quotes and lists
const NAMES = /** @type {Record<string, string>} */ ({
  py: 'python', sh: 'bash', zsh: 'bash', console: 'bash', js: 'javascript', mjs: 'javascript', jsx: 'javascript',
  ts: 'typescript', tsx: 'typescript', rs: 'rust', html: 'markup', xml: 'markup', patch: 'diff', jsonl: 'json',
});

/** Load the lexer; until then texts are shown as they are. */
export function loadMarkdown() {
  marked ??= import('./vendor/marked.js');
  return marked;
}

/**
 * Fill an element with a text as Markdown, and mark words in it.
 * @param {HTMLElement} into shows the text meanwhile
 * @param {string} text
 * @param {string[]} [words]
 * @param {boolean} [breaks] a line's end is one: in what people type, not in documents
 */
export async function render(into, text, words = [], breaks = true) {
  const { lexer } = await loadMarkdown();
  let tokens;
  try {
    tokens = lexer(text, { gfm: true, breaks });
  } catch {
    return markWords(into, words); // the text stays as it is
  }
  into.replaceChildren(...makeBlocks(tokens, 0));
  into.classList.add('prose');
  markWords(into, words);
  for (const code of into.querySelectorAll('pre > code[data-lang]')) void highlight(/** @type {HTMLElement} */ (code), words);
}

/**
 * @param {Token[]} tokens
 * @param {number} level
 * @returns {Node[]}
 */
function makeBlocks(tokens, level) {
  return tokens.flatMap((token) => makeBlock(token, level) ?? []);
}

/**
 * @param {Token} token
 * @param {number} level
 * @returns {Node | Node[] | null}
 */
function makeBlock(token, level) {
  if (level > DEEPEST) return h('p', {}, token.raw);
  switch (token.type) {
    case 'space':
    case 'def':
      return null;
    case 'heading':
      return h('p', { class: `head-${Math.min(3, token.depth)}` }, ...makeInline(token.tokens, level));
    case 'code':
      return makeCode(token.text, token.lang);
    case 'blockquote':
      return h('blockquote', {}, ...makeBlocks(token.tokens, level + 1));
    case 'list':
      return makeList(token, level);
    case 'table':
      return makeTable(token, level);
    case 'hr':
      return h('hr');
    case 'paragraph':
      return h('p', {}, ...makeInline(token.tokens, level));
    case 'text':
      return h('span', {}, ...(token.tokens ? makeInline(token.tokens, level) : [token.text]));
    case 'checkbox':
      return h('span', { class: 'task' }, token.checked ? '☑ ' : '☐ ');
    default:
      return h('p', {}, token.raw);
  }
}

/**
 * @param {Token} token
 * @param {number} level
 */
function makeList(token, level) {
  const items = token.items.map((/** @type {Token} */ item) => h('li', {}, ...makeBlocks(item.tokens, level + 1)));
  const start = Number.isSafeInteger(token.start) && token.start !== 1 ? token.start : null;
  return token.ordered ? h('ol', { start }, ...items) : h('ul', {}, ...items);
}

/**
 * @param {Token} token
 * @param {number} level
 */
function makeTable(token, level) {
  const cells = (/** @type {Token[]} */ row, /** @type {'th' | 'td'} */ tag) =>
    h('tr', {}, ...row.map((cell) => h(tag, {}, ...makeInline(cell.tokens, level))));
  const table = h(
    'table',
    {},
    h('thead', {}, cells(token.header, 'th')),
    h('tbody', {}, ...token.rows.map((/** @type {Token[]} */ row) => cells(row, 'td'))),
  );
  return h('div', { class: 'scroll', tabindex: '0', role: 'group', 'aria-label': 'Table' }, table);
}

/**
 * @param {string} text
 * @param {string} [lang]
 */
export function makeCode(text, lang = '') {
  const name = lang.trim().split(/[\s,{]/)[0].toLowerCase();
  const code = h('code', { 'data-lang': Object.hasOwn(NAMES, name) ? NAMES[name] : name }, text);
  return h('pre', { tabindex: '0', role: 'group', 'aria-label': name ? `${name} code` : 'Code' }, code);
}

/**
 * @param {Token[]} tokens
 * @param {number} level
 * @returns {Child[]}
 */
function makeInline(tokens, level) {
  if (level > DEEPEST) return tokens.map((token) => token.raw);
  return tokens.map((token) => {
    switch (token.type) {
      case 'strong':
        return h('strong', {}, ...makeInline(token.tokens, level + 1));
      case 'em':
        return h('em', {}, ...makeInline(token.tokens, level + 1));
      case 'del':
        return h('del', {}, ...makeInline(token.tokens, level + 1));
      case 'codespan':
        return h('code', {}, token.text);
      case 'br':
        return h('br');
      case 'link':
        return makeLink(token.href, makeInline(token.tokens, level + 1));
      case 'image':
        return makeLink(token.href, [`[${token.text || 'image'}]`]);
      case 'text':
        return token.tokens ? h('span', {}, ...makeInline(token.tokens, level + 1)) : token.text;
      case 'escape':
        return token.text;
      default:
        return token.raw;
    }
  });
}

/**
 * Make a link out of this page; any other address than of http and https stays text.
 * @param {string} to
 * @param {Child[]} content
 */
function makeLink(to, content) {
  if (!/^https?:\/\/[^\s]+$/i.test(to)) return h('span', { class: 'dead-link', title: to }, ...content);
  return h('a', { href: to, target: '_blank', rel: 'noopener noreferrer nofollow', title: to, class: 'out' }, ...content);
}

/**
 * Colour a block of code, if its language is known.
 * @param {HTMLElement} code
 * @param {string[]} words
 */
async function highlight(code, words) {
  const text = code.textContent ?? '';
  if (!code.dataset.lang || text.length > LONGEST) return;
  /** @type {any} */ (window).Prism ??= { manual: true, disableWorkerMessageHandler: true };
  prism ??= import('./vendor/prism.js');
  const { Prism } = await prism;
  const grammar = Object.hasOwn(Prism.languages, code.dataset.lang) && Prism.languages[code.dataset.lang];
  if (!grammar || typeof grammar === 'function') return;
  code.replaceChildren(...makeTokens(Prism.tokenize(text, grammar)));
  markWords(code, words);
}

/**
 * @param {any} tokens strings, and tokens with a type and content
 * @returns {(Node | string)[]}
 */
function makeTokens(tokens) {
  return [tokens].flat().map((one) => {
    if (typeof one === 'string') return one;
    const kind = String(one.type).replace(/[^a-z-]/g, '');
    return h('span', { class: `tok-${kind}` }, ...makeTokens(one.content));
  });
}

/**
 * Mark whole words in an element, in any case.
 * @param {HTMLElement} root
 * @param {string[]} words
 */
export function markWords(root, words) {
  if (!words.length) return;
  const escaped = [...words].sort((one, other) => other.length - one.length).map((one) => one.replace(/[^\p{L}\p{N}_]/gu, '\\$&'));
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}_])(?:${escaped.join('|')})(?![\\p{L}\\p{N}_])`, 'giu');
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  /** @type {Text[]} */
  const texts = [];
  while (walker.nextNode()) texts.push(/** @type {Text} */ (walker.currentNode));
  for (const text of texts) {
    if (text.parentElement?.closest('mark')) continue;
    /** @type {Child[]} */
    const parts = [];
    let end = 0;
    for (const match of text.data.matchAll(pattern)) {
      parts.push(text.data.slice(end, match.index), h('mark', {}, match[0]));
      end = match.index + match[0].length;
    }
    if (end) text.replaceWith(...h('span', {}, ...parts, text.data.slice(end)).childNodes);
  }
}

/**
 * Return the distinct words at some places of a text.
 * @param {string} text
 * @param {[number, number][] | undefined} places of code points
 */
export function cutWords(text, places) {
  if (!places?.length) return [];
  const points = /[\ud800-\udfff]/.test(text) ? Array.from(text) : text; // places count code points
  const cut = (/** @type {[number, number]} */ [start, end]) =>
    typeof points === 'string' ? points.slice(start, end) : points.slice(start, end).join('');
  return [...new Set(places.map((place) => cut(place).toLowerCase()))].filter((one) => one.trim());
}
