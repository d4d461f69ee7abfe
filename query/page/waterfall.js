// @ts-check
/** The stages of a recall over its milliseconds, with the rows in and out of each. */

import { bar, h } from './dom.js';
import { pairs } from './marks.js';
import { count, millis, score } from './text.js';

/**
 * @typedef {import('./api.js').Explained} Explained
 * @typedef {import('./api.js').Stage} Stage
 */

const COLUMNS = new Set(['stage', 'rows_in', 'rows_out', 'ms']);

/**
 * Draw the stages of a recall.
 * @param {Explained} answer
 */
export function drawStages(answer) {
  const { stages, spans } = answer.trace;
  const total = answer.ms.total;
  const byName = new Map(stages.map((stage) => [stage.stage, stage]));
  const names = [
    ...new Set([
      ...spans.map((span) => span.stage),
      ...stages.filter((stage) => 'rows_out' in stage).map((stage) => stage.stage),
    ]),
  ];
  const row = (/** @type {string} */ name) =>
    h(
      'tr',
      {},
      h('th', { scope: 'row' }, name),
      h('td', { class: 'num rows' }, formatRows(byName.get(name))),
      h(
        'td',
        { class: 'track' },
        ...spans
          .filter((span) => span.stage === name)
          .map((span) => bar(`span at-${name}`, span.ms / total, span.at / total)),
      ),
      h('td', { class: 'num' }, name in answer.ms ? millis(answer.ms[name]) : ''),
    );
  const more = stages.filter((stage) => listDetails(stage).length);
  return [
    h(
      'table',
      { class: 'waterfall' },
      h('caption', { class: 'sr' }, 'Stages: rows in and out, and when each ran'),
      h(
        'thead',
        {},
        h(
          'tr',
          {},
          h('th', { scope: 'col' }, 'stage'),
          h('th', { scope: 'col', class: 'num' }, 'in → out'),
          h('td', { class: 'axis', 'aria-hidden': 'true' }, h('span', {}, '0'), h('span', {}, `${millis(total)} ms`)),
          h('th', { scope: 'col', class: 'num' }, 'ms'),
        ),
      ),
      h('tbody', {}, ...names.map(row)),
      h(
        'tfoot',
        {},
        h(
          'tr',
          {},
          h('th', { scope: 'row' }, 'total'),
          h('td', {}),
          h('td', {}),
          h('td', { class: 'num' }, millis(total)),
        ),
      ),
    ),
    h(
      'p',
      { class: 'dim small' },
      'Stages that overlap ran at the same time. The gaps are for reading texts and for this explanation.',
    ),
    more.length
      ? h(
          'details',
          {},
          h('summary', {}, 'Details of the stages'),
          ...more.map((stage) => h('div', {}, h('h3', {}, stage.stage), pairs(listDetails(stage)))),
        )
      : null,
  ];
}

/**
 * Format the rows in and out: "100 + 26 → 105".
 * @param {Stage | undefined} stage
 */
function formatRows(stage) {
  if (!stage || stage.rows_out === undefined) return '';
  const rows = typeof stage.rows_in === 'object' ? Object.values(stage.rows_in) : [stage.rows_in];
  return `${rows.map(count).join(' + ')} → ${count(stage.rows_out)}`;
}

/**
 * List a stage's other fields.
 * @param {Stage} stage
 * @returns {[string, string][]}
 */
function listDetails(stage) {
  const fields = Object.entries(stage).filter(([name, value]) => !COLUMNS.has(name) && value !== null && value !== '');
  return fields.map(([name, value]) => [name.replaceAll('_', ' '), shorten(value)]);
}

/**
 * @param {unknown} value
 * @returns {string}
 */
function shorten(value) {
  if (typeof value === 'number') return Number.isInteger(value) ? count(value) : score(value);
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.map(shorten).join(', ') || 'none';
  if (value && typeof value === 'object')
    return (
      Object.entries(value)
        .map(([name, one]) => `${name} ${shorten(one)}`)
        .join(', ') || 'none'
    );
  return String(value);
}
