// @ts-check
/** The palette: views, sessions, people, files and projects by a few letters of their names. */

import { get, getChoices } from './api.js';
import { byId, fill, h } from './dom.js';
import { getMoment, go, href } from './route.js';
import { cut } from './text.js';

/** @typedef {{label: string, kind: string, to: string}} Place */

const MOST = 10;
const box = /** @type {HTMLDialogElement} */ (byId('palette'));
const field = /** @type {HTMLInputElement} */ (byId('palette-q'));
const list = byId('palette-list');
/** @type {Place[]} */
let places = [];
let at = 0;

const VIEWS = ['home', 'ask', 'sessions', 'decisions', 'people', 'files', 'graph', 'compare', 'status'];

/** Open the palette. */
export async function openPalette() {
  if (box.open) return;
  places = VIEWS.map((view) => ({ label: view === 'ask' ? 'Answer' : view[0].toUpperCase() + view.slice(1), kind: 'view', to: href(view) }));
  field.value = '';
  box.showModal();
  draw();
  const as_of = getMoment(); // what was not known then is not offered
  const [choices, timeline, people, files] = await Promise.all([
    getChoices().catch(() => null),
    get('/v1/timeline', { limit: 200, as_of }).catch(() => null),
    get('/v1/entities', { kind: 'person', limit: 100, as_of }).catch(() => null),
    get('/v1/entities', { kind: 'path', limit: 300, as_of }).catch(() => null),
  ]);
  for (const name of Object.keys(choices?.projects ?? {})) places.push({ label: name, kind: 'project', to: href('sessions', { project: name }) });
  for (const one of timeline?.sessions ?? []) places.push({ label: one.title || one.first || one.session, kind: 'session', to: href('session', { session: one.session }) });
  for (const one of people?.entities ?? []) places.push({ label: one.name, kind: 'person', to: href('subject', { name: one.name }) });
  for (const one of files?.entities ?? []) places.push({ label: one.name, kind: 'file', to: href('subject', { name: one.name }) });
  draw();
}

/** Return the places whose letters are in the field, those with a word that begins so first. */
function find() {
  const wanted = field.value.trim().toLowerCase();
  if (!wanted) return places.slice(0, MOST);
  const score = (/** @type {Place} */ place) => {
    const name = place.label.toLowerCase();
    const found = name.indexOf(wanted);
    if (found >= 0) return found === 0 || /\W/.test(name[found - 1]) ? 3 : 2;
    let i = 0;
    for (const letter of name) if (letter === wanted[i]) i += 1;
    return i === wanted.length && name.length < 60 ? 1 : 0;
  };
  const found = places.map((place) => ({ place, value: score(place) })).filter((one) => one.value);
  found.sort((one, other) => other.value - one.value);
  const whole = found.filter((one) => one.value > 1);
  const best = whole.length ? whole : found;
  const asked = { label: `Ask “${field.value.trim()}”`, kind: 'question', to: href('ask', { q: field.value.trim() }) };
  return [...best.slice(0, MOST - 1).map((one) => one.place), asked];
}

function draw() {
  const found = find();
  at = Math.max(0, Math.min(at, found.length - 1));
  const option = (/** @type {Place} */ place, /** @type {number} */ i) =>
    h('li', { role: 'option', id: `place-${i}`, 'aria-selected': String(i === at), onclick: () => leave(place) },
      h('span', {}, cut(place.label, 80)), ' ', h('span', { class: 'dim' }, place.kind));
  fill(list, ...found.map(option));
  field.setAttribute('aria-activedescendant', found.length ? `place-${at}` : '');
  list.children[at]?.scrollIntoView({ block: 'nearest' });
}

/** @param {Place | undefined} place */
function leave(place) {
  box.close();
  if (place) go(place.to);
}

field.addEventListener('input', () => {
  at = 0;
  draw();
});
field.addEventListener('keydown', (event) => {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (step) {
    event.preventDefault();
    at += step;
    draw();
  } else if (event.key === 'Enter') {
    event.preventDefault();
    leave(find()[at]);
  }
});
box.addEventListener('click', (event) => {
  if (event.target === box) box.close();
});
