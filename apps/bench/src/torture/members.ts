// Four processes of a peer that ask for one cold key at once, as the scenario sees them.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { FromMember } from './member.ts'

const MEMBER = fileURLToPath(new URL('./member.js', import.meta.url))
const PROCESSES = 4

export interface MembersSeen {
  readonly processes: number
  readonly loads: number
  /** What each caller got, in words. */
  readonly answers: readonly string[]
}

export async function callTogether(peerId: string, port: number): Promise<MembersSeen> {
  const members = Array.from({ length: PROCESSES }, () =>
    fork(MEMBER, [peerId, String(port)], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] }),
  )
  await Promise.all(members.map((member) => heard(member, 'ready')))
  const done = members.map((member) => heard(member, 'done'))
  for (const member of members) member.send('go')
  const told = await Promise.all(done)
  for (const member of members) member.kill()
  return {
    processes: PROCESSES,
    loads: told.reduce((sum, { loads }) => sum + loads, 0),
    answers: told.flatMap(({ answers }) => answers),
  }
}

async function heard(member: ChildProcess, type: FromMember['type']): Promise<FromMember> {
  const signal = AbortSignal.timeout(15_000)
  for (;;) {
    const [message] = (await once(member, 'message', { signal })) as [FromMember]
    if (message.type === type) return message
  }
}
