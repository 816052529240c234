// One case with one response cache, in a process of its own.
import { ask, listen } from '../lib/http.ts'
import { urlOf } from '../lib/redis.ts'
import { type Verdict, wrong } from '../lib/verdict.ts'
import { cases } from './cases.ts'
import { peers } from './peers.ts'
import type { Stage } from './stage.ts'

const PATH = '/page'

export async function start(peerId: string, id: string, redisPort: number, redisPid: number) {
  let runs = 0
  const stage: Stage = {
    freezeRedis: () => void process.kill(redisPid, 'SIGSTOP'),
    runs: () => runs,
    async open(handler, ttlMs = 60_000) {
      const opened = await peers
        .find((each) => each.id === peerId)
        ?.open({
          redisUrl: urlOf(redisPort),
          ttlMs,
          reply: async ({ method, headers }) => handler({ method, headers, run: ++runs }),
        })
      if (opened === undefined) throw new Error(`no peer named ${peerId}`)
      const port = await listen(opened.listener)
      return {
        get: ({ headers = {}, ...sent } = {}) => {
          const fields = Object.entries({ Host: 'shop.test', ...headers }).flat()
          return ask(port, PATH, { ...sent, headers: fields })
        },
        purge: () => opened.purge(PATH),
      }
    },
  }
  const run = async (): Promise<Verdict> => {
    const each = cases.find((one) => one.id === id)
    if (each === undefined) throw new Error(`no case named ${id}`)
    return each.run(stage).catch((error: unknown) => wrong(`the case could not be run: ${error}`))
  }
  return { run }
}
