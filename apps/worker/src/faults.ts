// The two faults of the demo: one worker is killed and one is paused, each at the worst moment.

import type { WorkerProcess } from './start-worker.ts'
import type { Step } from './work.ts'

/** The worker that is halfway through this job is killed. */
const KILLED_IN = 2
/**
 * The worker that is about to write this job's result is paused until another worker has written
 * it.
 */
const PAUSED_IN = 4

/** Called at each step of a worker. The worker goes on when it resolves. */
export type FaultInjector = (worker: WorkerProcess, step: Step, job: number) => Promise<void>

/** When `signal` aborts, no more faults happen, and a paused worker goes on. */
export function createFaults(print: (line: string) => void, signal: AbortSignal): FaultInjector {
  let killed = false
  let paused: { readonly worker: WorkerProcess; goOn(): void } | undefined

  const kill = (worker: WorkerProcess) => {
    killed = true
    print(
      `${worker.name} is KILLED halfway through job ${KILLED_IN} (SIGKILL); its lease goes on until it expires`,
    )
    worker.kill()
  }

  const pause = (worker: WorkerProcess) =>
    new Promise<void>((goOn) => {
      paused = { worker, goOn }
      const moment = `between its last check and its write of job ${PAUSED_IN}`
      print(`${worker.name} is PAUSED ${moment} (SIGSTOP)`)
      worker.pause()
    })

  const resume = () => {
    if (paused === undefined) return
    print(`${paused.worker.name} is RESUMED (SIGCONT), and writes its result`)
    paused.worker.resume()
    paused.goOn()
  }

  signal.addEventListener('abort', () => paused?.goOn())
  return async (worker, step, job) => {
    if (signal.aborted) return
    if (job === KILLED_IN && step === 'halfway' && !killed) kill(worker)
    if (job === PAUSED_IN && step === 'writes' && paused === undefined) await pause(worker)
    if (job === PAUSED_IN && step === 'did' && worker !== paused?.worker) resume()
  }
}
