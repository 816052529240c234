// Purges: a dialog that asks before each one, and the log of this session.

import { useEffect, useRef, useState } from 'preact/hooks'
import { type PurgeTarget, purge } from '../api.ts'
import { Text } from './key-text.tsx'

export interface PurgeRecord {
  readonly at: number
  readonly target: PurgeTarget
  readonly soft: boolean
  /** Undefined: the purge was successful. */
  readonly error?: string
}

const STORED = 'stampede-dashboard-purges'
const MOST = 50

function stored(): readonly PurgeRecord[] {
  try {
    const records: unknown = JSON.parse(sessionStorage.getItem(STORED) ?? '[]')
    return Array.isArray(records) ? records : []
  } catch {
    return []
  }
}

export interface Purges {
  readonly log: readonly PurgeRecord[]
  /** The target that waits for a confirmation. */
  readonly asked: PurgeTarget | undefined
  ask(target: PurgeTarget | undefined): void
  run(target: PurgeTarget, soft: boolean): Promise<void>
}

/** Announces a result to the reader. */
export type Notify = (text: string, isBad?: boolean) => void

export function usePurges(notify: Notify): Purges {
  const [log, setLog] = useState(stored)
  const [asked, ask] = useState<PurgeTarget>()
  useEffect(() => sessionStorage.setItem(STORED, JSON.stringify(log)), [log])
  const run = async (target: PurgeTarget, soft: boolean): Promise<void> => {
    const at = Date.now()
    const error = await purge(target, soft).then(
      () => undefined,
      (failure: Error) => failure.message,
    )
    const record = { at, target, soft, ...(error !== undefined && { error }) }
    setLog((before) => [record, ...before].slice(0, MOST))
    if (error === undefined) notify(`${soft ? 'Soft-purged' : 'Purged'} ${nameOf(target)}.`)
    else notify(`The purge of ${nameOf(target)} failed: ${error}`, true)
  }
  return { log, asked, ask, run }
}

export function nameOf({ kind, value, host }: PurgeTarget): string {
  if (kind === 'all') return 'everything'
  return `${kind} ${[value].flat().join(', ')}${host ? ` on ${host}` : ''}`
}

const MEANING: Readonly<Record<PurgeTarget['kind'], string>> = {
  key: 'the entry of this key, in all processes',
  tag: 'all entries with this tag, in all processes',
  path: 'this path with all of its queries and variants, in all processes',
  route: 'all paths that match this pattern, in all processes',
  cache: 'all values of this cache of getOrSet, in all processes',
  all: 'every entry of every route, in all processes. The origin gets all requests at first',
}

export function PurgeDialog({ purges }: { purges: Purges }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const { asked, ask, run } = purges
  const [isRunning, setRunning] = useState(false)
  const [typed, setTyped] = useState('')
  useEffect(() => {
    if (asked === undefined) dialog.current?.close()
    else if (!dialog.current?.open) dialog.current?.showModal()
    setTyped('')
  }, [asked])
  const confirm = async (soft: boolean): Promise<void> => {
    if (asked === undefined) return
    setRunning(true)
    await run(asked, soft)
    setRunning(false)
    ask(undefined)
  }
  const isLocked = isRunning || (asked?.kind === 'all' && typed !== 'everything')
  return (
    <dialog ref={dialog} onClose={() => ask(undefined)} aria-labelledby="purge-title">
      {asked && (
        <>
          <h2 id="purge-title" class="dialog-title">
            Purge <Text text={nameOf(asked)} />?
          </h2>
          <p>This covers {MEANING[asked.kind]}.</p>
          <dl class="choices">
            <div>
              <dt>Soft</dt>
              <dd>Entries become stale. They are served while one process refreshes them.</dd>
            </div>
            <div>
              <dt>Hard</dt>
              <dd>Entries are dropped. The next request waits for the origin.</dd>
            </div>
          </dl>
          {asked.kind === 'all' && (
            <label class="field">
              Type “everything” to go on
              <input
                value={typed}
                autocomplete="off"
                onInput={(event) => setTyped(event.currentTarget.value)}
              />
            </label>
          )}
          <p class="buttons">
            <button type="button" onClick={() => ask(undefined)}>
              Cancel
            </button>
            <button type="button" disabled={isLocked} onClick={() => void confirm(true)}>
              Purge soft
            </button>
            <button
              type="button"
              class="danger"
              disabled={isLocked}
              onClick={() => void confirm(false)}
            >
              Purge hard
            </button>
          </p>
        </>
      )}
    </dialog>
  )
}
