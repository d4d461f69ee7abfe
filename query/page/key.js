// @ts-check
/** The API key, where the server asks for one. It lives as long as this tab. */

import { by } from './dom.js';

const NAME = 'helix.key';
let held = '';
try {
  held = sessionStorage.getItem(NAME) ?? '';
} catch {
  // Storage is off in this browser: the key lives until the page is left.
}

/** The key there is; empty where there is none. */
export function key() {
  return held;
}

/** @param {string} value */
export function keep(value) {
  held = value;
  try {
    if (value) sessionStorage.setItem(NAME, value);
    else sessionStorage.removeItem(NAME);
  } catch {
    // As above.
  }
}

/** @type {Promise<boolean> | null} */
let asking = null;

/**
 * Ask for a key; once, however many requests want one. False where the dialog was closed without.
 * @param {string} used the key that was refused
 * @param {string} why
 * @returns {Promise<boolean>}
 */
export function ask(used, why) {
  if (held && held !== used) return Promise.resolve(true); // another request has asked meanwhile
  asking ??= dialog(why).finally(() => {
    asking = null;
  });
  return asking;
}

/**
 * @param {string} why
 * @returns {Promise<boolean>}
 */
function dialog(why) {
  const box = /** @type {HTMLDialogElement} */ (by('key-dialog'));
  const field = /** @type {HTMLInputElement} */ (by('key'));
  by('key-why').textContent = why;
  field.value = '';
  by('key-cancel').onclick = () => box.close();
  if (!box.open) box.showModal();
  return new Promise((resolve) => {
    box.addEventListener(
      'close',
      () => {
        const given = box.returnValue === 'ok' ? field.value.trim() : '';
        box.returnValue = '';
        field.value = '';
        if (given) keep(given);
        resolve(Boolean(given));
      },
      { once: true },
    );
  });
}
