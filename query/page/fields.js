// @ts-check
/** Forms: their values, their choices, and both from and to the address. */

import { h } from './dom.js';
import { count } from './text.js';

/** @typedef {HTMLInputElement | HTMLSelectElement} Field */

/**
 * List the named fields of a form.
 * @param {HTMLFormElement} form
 * @returns {Field[]}
 */
function listFields(form) {
  return /** @type {Field[]} */ (
    [...form.elements].filter((one) => 'name' in one && one.name && !(one instanceof HTMLButtonElement))
  );
}

/**
 * Return the values of a form by name, without empty ones.
 * @param {HTMLFormElement} form
 * @returns {Record<string, string>}
 */
export function readValues(form) {
  const given = listFields(form).filter(
    (one) => !(one instanceof HTMLInputElement && one.type === 'checkbox' && !one.checked),
  );
  return Object.fromEntries(given.map((one) => [one.name, one.value.trim()]).filter(([, value]) => value));
}

/**
 * Fill in the form from the address; clear other fields. An unknown choice is added, so that the server can reject it.
 * @param {HTMLFormElement} form
 * @param {URLSearchParams} params
 */
export function restore(form, params) {
  for (const one of listFields(form)) {
    const value = params.get(one.name) ?? '';
    if (one instanceof HTMLInputElement && one.type === 'checkbox') one.checked = value === one.value;
    else if (one instanceof HTMLSelectElement) choose(one, value);
    else one.value = value;
  }
}

/**
 * Choose a value; add it if it is missing.
 * @param {HTMLSelectElement} select
 * @param {string} value
 */
function choose(select, value) {
  if (![...select.options].some((option) => option.value === value)) select.append(h('option', { value }, value));
  select.value = value;
}

/**
 * Offer names with their number of items, after the option for all.
 * @param {HTMLFormElement} form
 * @param {string} name
 * @param {Record<string, number>} counts
 */
export function offerChoices(form, name, counts) {
  const select = /** @type {HTMLSelectElement} */ (form.elements.namedItem(name));
  const now = select.value;
  const options = Object.entries(counts).map(([value, n]) => h('option', { value }, `${value} (${count(n)})`));
  select.replaceChildren(select.options[0], ...options);
  choose(select, now);
}
