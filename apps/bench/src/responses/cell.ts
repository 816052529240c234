// One cell in its own process. Usage: node cell.js <peer id> <case id> <Redis port> <Redis pid>.
import { wrong } from '../verdicts/verdict.ts'
import { cases } from './cases.ts'
import { peers } from './peers.ts'
import { createStage } from './stage.ts'

const [, , peerId, caseId, port, pid] = process.argv
const peer = peers.find(({ id }) => id === peerId)
const each = cases.find(({ id }) => id === caseId)
if (!peer || !each) throw new Error(`no cell ${peerId} ${caseId}`)
// The process ends with the bench.
process.on('disconnect', () => process.exit())

const stage = await createStage(peer, Number(port), Number(pid))
const verdict = await each
  .run(stage)
  .catch((error: unknown) => wrong(`the case could not be run: ${error}`))
process.send?.(verdict, () => process.exit())
