// Starts four processes of a cache that ask for one cold key at once.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { FromMember } from './member.ts'

const MEMBER = fileURLToPath(new URL('./member.js', import.meta.url))
const PROCESSES = 4

export interface MembersSeen {
  readonly processes: number
  readonly loads: number
  /** The result of each caller as text. */
  readonly results: readonly string[]
}

export async function callTogether(peerId: string, port: number): Promise<MembersSeen> {
  const members = Array.from({ length: PROCESSES }, () =>
    fork(MEMBER, [peerId, String(port)], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] }),
  )
  await Promise.all(members.map((member) => nextMessage(member, 'ready')))
  const finished = members.map((member) => nextMessage(member, 'done'))
  for (const member of members) member.send('go')
  const done = await Promise.all(finished)
  for (const member of members) member.kill()
  return {
    processes: PROCESSES,
    loads: done.reduce((sum, { loads }) => sum + loads, 0),
    results: done.flatMap(({ results }) => results),
  }
}

async function nextMessage(member: ChildProcess, type: FromMember['type']): Promise<FromMember> {
  const signal = AbortSignal.timeout(15_000)
  for (;;) {
    const [message] = (await once(member, 'message', { signal })) as [FromMember]
    if (message.type === type) return message
  }
}
