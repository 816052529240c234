// The two things that happen to workers in the demo, each at the worst moment there is.

import type { Member } from './crew.ts'
import type { Step } from './work.ts'

/** Whoever is halfway through this job is killed. */
const KILLED_IN = 2
/** Whoever is about to write the result of this one is stopped, until another has written it. */
const PAUSED_IN = 4

/** Called at each step of a worker; the worker goes on when it resolves. */
export type Strike = (member: Member, step: Step, job: number) => Promise<void>

/** Once `signal` is aborted nothing happens to anybody any more, and whoever is paused goes on. */
export function createFaults(print: (line: string) => void, signal: AbortSignal): Strike {
  let killed = false
  let paused: { readonly member: Member; goOn(): void } | undefined

  const kill = (member: Member) => {
    killed = true
    print(`${member.name} is KILLED halfway through job ${KILLED_IN} (SIGKILL); its lease runs on`)
    member.kill()
  }

  const pause = (member: Member) =>
    new Promise<void>((goOn) => {
      paused = { member, goOn }
      const moment = `between its last check and its write of job ${PAUSED_IN}`
      print(`${member.name} is PAUSED ${moment} (SIGSTOP)`)
      member.pause()
    })

  const resume = () => {
    if (paused === undefined) return
    print(`${paused.member.name} is RESUMED (SIGCONT), and writes what it has`)
    paused.member.resume()
    paused.goOn()
  }

  signal.addEventListener('abort', () => paused?.goOn())
  return async (member, step, job) => {
    if (signal.aborted) return
    if (job === KILLED_IN && step === 'halfway' && !killed) kill(member)
    if (job === PAUSED_IN && step === 'writes' && paused === undefined) await pause(member)
    if (job === PAUSED_IN && step === 'did' && member !== paused?.member) resume()
  }
}
