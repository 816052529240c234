// One scenario with one cache, in a process of its own.
import { notTested, short, type Verdict, wrong } from '../lib/verdict.ts'
import { scenarios } from './scenarios.ts'
import { createStage, NotSupported } from './stage.ts'

export async function start(peerId: string, id: string, port: number, pid: number) {
  const rejections: string[] = []
  process.on('unhandledRejection', (reason) => rejections.push(short(String(reason))))
  const scenario = scenarios.find((each) => each.id === id)
  const stage = await createStage(peerId, port, pid)
  const run = async (): Promise<Verdict> => {
    const verdict = await scenario?.run(stage).catch((error: unknown) => {
      if (error instanceof NotSupported) return notTested(error.message)
      return wrong(`the scenario could not be run: ${short(String(error))}`)
    })
    return withRejections(verdict ?? notTested(`no scenario ${id}`), rejections)
  }
  return { run }
}

/** An unhandled rejection ends a Node process, so the row fails. */
export function withRejections(verdict: Verdict, rejections: readonly string[]): Verdict {
  const [first] = rejections
  if (first === undefined) return verdict
  const seen = `${verdict.seen} ${rejections.length} × unhandled rejection, which ends a process: ${first}`
  return { kind: 'fails', seen, figures: verdict.figures ?? [] }
}
