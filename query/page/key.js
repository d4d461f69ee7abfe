// @ts-check
/** The API key for a server that requires one, stored until the tab closes. */

import { byId } from './dom.js';

const NAME = 'helix.key';
let current = '';
try {
  current = sessionStorage.getItem(NAME) ?? '';
} catch {
  // This browser stores nothing, so the key lasts until the page is left.
}

/** Return the key; empty without one. */
export function getKey() {
  return current;
}

/**
 * Store a key; an empty one is removed.
 * @param {string} value
 */
export function storeKey(value) {
  current = value;
  try {
    if (value) sessionStorage.setItem(NAME, value);
    else sessionStorage.removeItem(NAME);
  } catch {
    // As above.
  }
}

/** @type {Promise<boolean> | null} */
let asking = null;
let closed = -Infinity; // when the dialog was last closed without a key

/**
 * Ask the user for a key, once for all waiting requests; return false if the dialog closes without one.
 * @param {string} used the key that was refused
 * @param {string} why
 * @param {number} since when the request left; one that left before the dialog was closed does not open it again
 * @returns {Promise<boolean>}
 */
export function askKey(used, why, since) {
  if (current && current !== used) return Promise.resolve(true); // another request has asked meanwhile
  if (!asking && since < closed) return Promise.resolve(false);
  asking ??= openDialog(why).finally(() => {
    asking = null;
  });
  return asking;
}

/**
 * @param {string} why
 * @returns {Promise<boolean>}
 */
function openDialog(why) {
  const box = /** @type {HTMLDialogElement} */ (byId('key-dialog'));
  const field = /** @type {HTMLInputElement} */ (byId('key'));
  byId('key-why').textContent = why;
  field.value = '';
  byId('key-cancel').onclick = () => box.close();
  if (!box.open) box.showModal();
  return new Promise((resolve) => {
    box.addEventListener(
      'close',
      () => {
        const given = box.returnValue === 'ok' ? field.value.trim() : '';
        box.returnValue = '';
        field.value = '';
        if (given) storeKey(given);
        else closed = performance.now();
        resolve(Boolean(given));
      },
      { once: true },
    );
  });
}
