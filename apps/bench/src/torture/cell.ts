// One cell in its own process. Usage: node cell.js <peer id> <scenario id> <Redis port> <Redis
// pid>.
import { NotSupported } from './peer.ts'
import { peers } from './peers.ts'
import { scenarios } from './scenarios.ts'
import { createStage } from './stage.ts'
import { decide, notTested, short, type Verdict, withRejections } from './verdict.ts'

const [, , peerId, scenarioId, port = '', pid = ''] = process.argv
const peer = peers.find(({ id }) => id === peerId)
const scenario = scenarios.find(({ id }) => id === scenarioId)
if (!peer || !scenario) throw new Error(`no cell ${peerId} ${scenarioId}`)

const rejections: string[] = []
process.on('unhandledRejection', (reason) => rejections.push(short(String(reason))))
// The process ends with the bench.
process.on('disconnect', () => process.exit())

const stage = await createStage(peer, Number(port), Number(pid))
const verdict = withRejections(await scenario.run(stage).catch(asVerdict), rejections)
process.send?.(verdict, () => process.exit())

function asVerdict(error: unknown): Verdict {
  if (error instanceof NotSupported) return notTested(error.message)
  return decide([false], `the scenario could not be run: ${short(String(error))}`)
}
