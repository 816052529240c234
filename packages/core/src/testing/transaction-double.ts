// Transactions for a store in this process: a list of writes that commits with the record.

import { ERROR_CODES, StampedeError } from '../errors.ts'
import type { FinishReply, IdempotencyStore, OpenTransaction } from '../ports/idempotency-store.ts'

/** The transaction of a handler, as the type of `attempt.tx`. */
export interface ListTransaction {
  write(text: string): Promise<void>
}

class Open implements OpenTransaction {
  writes: string[] = []
  #isOver = false

  readonly tx: ListTransaction = {
    write: async (text) => {
      const code = 'ERR_STAMPEDE_TRANSACTION_OVER'
      if (this.#isOver) throw new StampedeError(code, ERROR_CODES[code])
      this.writes.push(text)
    },
  }

  async rollback(): Promise<void> {
    this.writes = []
  }

  seal(): void {
    this.#isOver = true
  }
}

export class TransactionDouble {
  /** The writes of committed transactions. */
  readonly writes: string[] = []
  /** The reply to the next commit. After `stale`, the store has the record of another attempt. */
  next: FinishReply | 'stale, without a record' | undefined
  readonly #open = new Map<string, Open>()

  /** Number of open transactions. */
  get open(): number {
    return this.#open.size
  }

  /** Lets the attempts of a store run in transactions. */
  addTo(store: IdempotencyStore): void {
    const [begin, finish] = [store.begin.bind(store), store.finish.bind(store)]
    const own: Pick<IdempotencyStore, 'transactions' | 'begin' | 'finish'> = {
      transactions: true,
      begin: async (key, request) => {
        const reply = await begin(key, request)
        if (reply.status !== 'begun' || request.transaction === undefined) return reply
        const transaction = new Open()
        this.#open.set(reply.grant.token, transaction)
        return { ...reply, transaction }
      },
      finish: async (grant, end, fingerprints) => {
        const transaction = this.#open.get(grant.token)
        this.#open.delete(grant.token)
        const isCommit = transaction !== undefined && end.as === 'completed'
        const scripted = isCommit ? this.next : undefined
        if (isCommit) this.next = undefined
        const isLost = scripted !== undefined && scripted !== 'stale'
        const as = isLost ? ({ as: 'released', keepMs: end.keepMs } as const) : end
        const reply = await finish(grant, as, fingerprints)
        if (scripted !== undefined) return scripted.split(',')[0] as FinishReply
        if (isCommit) this.writes.push(...transaction.writes)
        return reply
      },
    }
    Object.assign(store, own)
  }
}
