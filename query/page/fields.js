// @ts-check
/** Forms: what is in them, what may be chosen, and both from and into the address. */

import { h } from './dom.js';
import { count } from './text.js';

/** @typedef {HTMLInputElement | HTMLSelectElement} Field */

/**
 * @param {HTMLFormElement} form
 * @returns {Field[]}
 */
export function fields(form) {
  return /** @type {Field[]} */ (
    [...form.elements].filter((one) => 'name' in one && one.name && !(one instanceof HTMLButtonElement))
  );
}

/**
 * What is filled in, by name.
 * @param {HTMLFormElement} form
 * @returns {Record<string, string>}
 */
export function values(form) {
  const given = fields(form).filter(
    (one) => !(one instanceof HTMLInputElement && one.type === 'checkbox' && !one.checked),
  );
  return Object.fromEntries(given.map((one) => [one.name, one.value.trim()]).filter(([, value]) => value));
}

/**
 * Fill in; what is not named is emptied. A choice that is not offered is offered then: the server says what is wrong.
 * @param {HTMLFormElement} form
 * @param {URLSearchParams} params
 */
export function restore(form, params) {
  for (const one of fields(form)) {
    const value = params.get(one.name) ?? '';
    if (one instanceof HTMLInputElement && one.type === 'checkbox') one.checked = value === one.value;
    else if (one instanceof HTMLSelectElement) choose(one, value);
    else one.value = value;
  }
}

/**
 * @param {HTMLSelectElement} select
 * @param {string} value
 */
function choose(select, value) {
  if (![...select.options].some((option) => option.value === value)) select.append(h('option', { value }, value));
  select.value = value;
}

/**
 * Offer names with the number of their items, after what stands for all of them.
 * @param {HTMLFormElement} form
 * @param {string} name
 * @param {Record<string, number>} counts
 */
export function offer(form, name, counts) {
  const select = /** @type {HTMLSelectElement} */ (form.elements.namedItem(name));
  const now = select.value;
  const options = Object.entries(counts).map(([value, n]) => h('option', { value }, `${value} (${count(n)})`));
  select.replaceChildren(select.options[0], ...options);
  choose(select, now);
}
