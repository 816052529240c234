// One of four processes that ask for a cold key, 25 times. Usage: node member.js <peer id> <Redis
// port>.
import { setTimeout as sleep } from 'node:timers/promises'
import { peers } from './peers.ts'
import { createStage } from './stage.ts'
import { inWords, shown } from './verdict.ts'
import { watch } from './watch.ts'

export interface FromMember {
  readonly type: 'ready' | 'done'
  readonly loads: number
  readonly results: readonly string[]
}

const CALLERS = 25
const LOAD_MS = 300

const [, , id, port = ''] = process.argv
const peer = peers.find((each) => each.id === id)
if (!peer) throw new Error(`no peer named ${id}`)

// The process ends with the scenario.
process.on('disconnect', () => process.exit())

const { open, origin } = await createStage(peer, Number(port), 0)
const cache = await open()
origin.during = () => sleep(LOAD_MS)

process.once('message', async () => {
  const calls = Array.from({ length: CALLERS }, () => watch(() => cache.get('cold'), 5_000))
  const results = (await Promise.all(calls)).map((result) =>
    result.kind === 'value' ? shown(result.value) : inWords(result),
  )
  sendToParent({ type: 'done', loads: origin.calls, results })
})
sendToParent({ type: 'ready', loads: 0, results: [] })

function sendToParent(message: FromMember): void {
  process.send?.(message)
}
