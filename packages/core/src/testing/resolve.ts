// `find` for tests: a caller whose runs are promises, and a promise of its resolution.

import { find } from '../engine/engine.ts'
import type { Caller, FillResult, Lead, Policy, Resolution } from '../engine/types.ts'
import { messageOf } from '../errors.ts'
import type { Runtime } from '../runtime.ts'

/** A caller whose runs of the origin are promises. */
export interface ScriptedCaller extends Omit<Caller, 'answer' | 'run'> {
  lead(lead: Lead): Promise<FillResult>
  refresh(lead: Lead): Promise<FillResult>
}

/** Each call is another caller, so one script can be resolved several times. */
export function callerOf(script: ScriptedCaller, answer: Caller['answer']): Caller {
  const failed = (error: unknown): FillResult => {
    return { type: 'failure', failure: { status: 500, message: messageOf(error) }, error }
  }
  const run: Caller['run'] = (lead, where) => {
    const made = where === 'here' ? script.lead(lead) : script.refresh(lead)
    made.catch(failed).then((result) => lead.end(result))
  }
  return { ...script, answer, run }
}

export function resolve(
  rt: Runtime,
  key: string,
  policy: Policy,
  script: ScriptedCaller,
): Resolution | Promise<Resolution> {
  let answer: (resolution: Resolution) => void = () => {}
  const later = new Promise<Resolution>((resolved) => {
    answer = resolved
  })
  return find(rt, key, policy, callerOf(script, answer)) ?? later
}
