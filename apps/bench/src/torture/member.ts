// One of the four processes: node member.js <peer id> <Redis port>. Warms up, waits for the word, asks 25 times at once.
import { setTimeout as sleep } from 'node:timers/promises'
import { peers } from './peers.ts'
import { createStage } from './stage.ts'
import { inWords, shown } from './verdict.ts'
import { watch } from './watch.ts'

export interface FromMember {
  readonly type: 'ready' | 'done'
  readonly loads: number
  readonly answers: readonly string[]
}

const CALLERS = 25
const LOAD_MS = 300

const [, , id, port = ''] = process.argv
const peer = peers.find((each) => each.id === id)
if (!peer) throw new Error(`no peer named ${id}`)

// The scenario is gone, so is the reason to live.
process.on('disconnect', () => process.exit())

const { open, origin } = await createStage(peer, Number(port), 0)
const cache = await open()
origin.during = () => sleep(LOAD_MS)

process.once('message', async () => {
  const calls = Array.from({ length: CALLERS }, () => watch(() => cache.get('cold'), 5_000))
  const answers = (await Promise.all(calls)).map((answer) =>
    answer.kind === 'value' ? shown(answer.value) : inWords(answer),
  )
  tell({ type: 'done', loads: origin.calls, answers })
})
tell({ type: 'ready', loads: 0, answers: [] })

function tell(told: FromMember): void {
  process.send?.(told)
}
