// @ts-check
/** Why an answer is as it is: the stages, the packed context, what is left out, and why any one item is. */

import { showContext } from './context.js';
import { countDropped, makeWhyNot, showDropped } from './dropped.js';
import { panel } from './marks.js';
import { drawStages } from './waterfall.js';

/**
 * @param {import('./api.js').Explained} answer
 * @param {import('./api.js').Json} question
 */
export function explainAnswer(answer, question) {
  const left = countDropped(answer);
  return [
    panel('Stages', 'stages-title', ...drawStages(answer)),
    panel('Context', 'context-title', ...showContext(answer)),
    panel(`Left out${left && `: ${left}`}`, 'left-title', ...showDropped(answer)),
    panel('Why not?', 'why-not-title', makeWhyNot(question)),
  ];
}
