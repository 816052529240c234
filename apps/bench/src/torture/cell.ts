// One cell of the matrix, in a process of its own: node cell.js <peer id> <scenario id> <Redis port> <Redis pid>.
import { NotSupported } from './peer.ts'
import { peers } from './peers.ts'
import { scenarios } from './scenarios.ts'
import { createStage } from './stage.ts'
import { decide, notAsked, short, type Verdict, withAccidents } from './verdict.ts'

const [, , peerId, scenarioId, port = '', pid = ''] = process.argv
const peer = peers.find(({ id }) => id === peerId)
const scenario = scenarios.find(({ id }) => id === scenarioId)
if (!peer || !scenario) throw new Error(`no cell ${peerId} ${scenarioId}`)

const accidents: string[] = []
process.on('unhandledRejection', (reason) => accidents.push(short(String(reason))))
// The bench is gone, so is the reason to live.
process.on('disconnect', () => process.exit())

const stage = await createStage(peer, Number(port), Number(pid))
const verdict = withAccidents(await scenario.run(stage).catch(asVerdict), accidents)
process.send?.(verdict, () => process.exit())

function asVerdict(error: unknown): Verdict {
  if (error instanceof NotSupported) return notAsked(error.message)
  return decide([false], `the scenario could not be run: ${short(String(error))}`)
}
