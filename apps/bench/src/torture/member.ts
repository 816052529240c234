// One of four processes that ask for a cold key, 25 times.
import { setTimeout as sleep } from 'node:timers/promises'
import { createStage, inWords, shown, watch } from './stage.ts'

const CALLERS = 25
const LOAD_MS = 300

export async function start(peerId: string, port: number) {
  const { open, origin } = await createStage(peerId, port, 0)
  const cache = await open()
  origin.during = () => sleep(LOAD_MS)
  return {
    async ask() {
      const calls = Array.from({ length: CALLERS }, () => watch(() => cache.get('cold')))
      const results = (await Promise.all(calls)).map((result) =>
        result.kind === 'value' ? shown(result.value) : inWords(result),
      )
      return { loads: origin.calls, results }
    },
  }
}
