// The page of idempotency keys: their outcomes in the fleet, one key, and on demand all records.

import { useState } from 'preact/hooks'
import type { FleetView } from '../../src/fleet-view.ts'
import type { KeyRecordView, RecordsView } from '../../src/idempotency-page.ts'
import { askRecord, askRecords, type KeyRef } from '../api.ts'
import { bytes, count, duration, time } from '../format.ts'
import { Bars } from '../parts/bars.tsx'
import { Text } from '../parts/key-text.tsx'
import { Panel, Table } from '../parts/panel.tsx'
import type { Notify } from '../parts/purge-form.tsx'
import { nameOf, SettleDialog, type Settling } from '../parts/settle-form.tsx'

type StoredRecord = RecordsView['records'][number]
type State = StoredRecord['state']

/** The states in the order in which operators have to look at them. */
const STATES: readonly State[] = [
  'unreadable',
  'uncertain',
  'lapsed',
  'running',
  'released',
  'completed',
]
const BAD: ReadonlySet<State> = new Set(['unreadable', 'uncertain', 'lapsed'])

export function Idempotency({ view, notify }: { view: FleetView; notify: Notify }) {
  const { running = 0, unstored = 0, outcomes = {} } = view.totals?.idempotency ?? {}
  const figures = [
    ['Running', running, 'handlers in the processes now'],
    ['Not stored yet', unstored, 'results, because the store was unavailable'],
    ['Refused as uncertain', outcomes.uncertain ?? 0, 'requests and jobs since start'],
  ] as const
  return (
    <>
      <h1>Idempotency keys</h1>
      <dl class="key-figures">
        {figures.map(([name, value, note]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <span class="figure">{count(value)}</span>
              <span class="figure-note">{note}</span>
            </dd>
          </div>
        ))}
      </dl>
      <div class="grid">
        <OneKey notify={notify} />
        <Panel title="Outcomes" note="since start">
          <Bars counts={outcomes} empty="No process of the fleet has seen an idempotency key." />
        </Panel>
        <Stored />
      </div>
    </>
  )
}

interface Shown {
  readonly ref: KeyRef
  readonly at: number
  readonly record?: KeyRecordView | undefined
  readonly error?: string
}

function OneKey({ notify }: { notify: Notify }) {
  const [kind, setKind] = useState<'request' | 'job'>('request')
  const [scope, setScope] = useState('')
  const [key, setKey] = useState('')
  const [shown, setShown] = useState<Shown>()
  const [settling, setSettling] = useState<Settling>()
  const look = async (ref: KeyRef): Promise<void> => {
    const found = await askRecord(ref).catch((error: Error) => ({ error: error.message }))
    setShown({ ref, at: Date.now(), ...found })
  }
  const plain = { spellcheck: false, autocomplete: 'off', autocapitalize: 'off' } as const
  return (
    <Panel title="One key" note={shown && `as of ${time(shown.at)}`} class="two">
      <form
        class="purge"
        onSubmit={(event) => {
          event.preventDefault()
          void look(refOf(kind, scope, key))
        }}
      >
        <label class="field">
          Of a
          <select
            value={kind}
            onChange={(event) => setKind(event.currentTarget.value as typeof kind)}
          >
            <option value="request">request</option>
            <option value="job">job</option>
          </select>
        </label>
        <label class="field grow">
          {kind === 'job' ? 'Scope, if it has one' : 'Scope'}
          <input
            {...plain}
            required={kind === 'request'}
            value={scope}
            placeholder="customer:7"
            onInput={(event) => setScope(event.currentTarget.value)}
          />
        </label>
        <label class="field grow">
          Key
          <input
            {...plain}
            required
            value={key}
            placeholder={kind === 'job' ? 'invoice:7' : '8e03978e-40d5-43e8-bc93-6894a57f9324'}
            onInput={(event) => setKey(event.currentTarget.value)}
          />
        </label>
        <button type="submit">Show</button>
      </form>
      {shown && <Found shown={shown} onSettle={setSettling} />}
      <SettleDialog
        settling={settling}
        onEnd={(text, isBad) => {
          setSettling(undefined)
          if (text === undefined) return
          notify(text, isBad)
          if (shown) void look(shown.ref)
        }}
      />
    </Panel>
  )
}

/** Clients may send the key in quotation marks, and logs have it as it was sent. */
function refOf(kind: 'request' | 'job', scope: string, key: string): KeyRef {
  if (kind === 'request') return { key: key.trim().replace(/^"(.*)"$/s, '$1'), scope }
  return scope === '' ? { job: key } : { job: key, scope }
}

const MEANING: Readonly<Record<KeyRecordView['state'], string>> = {
  running: 'An attempt runs now. Repeats wait, or are refused (409).',
  lapsed:
    'The lease of the last attempt ran out: its process died, was frozen or was cut off. The next request runs the handler as a recovery, or makes the key uncertain, as onLeaseExpired says.',
  completed: 'The work was done. Repeats get its result.',
  released:
    'The last attempt failed, or an operator released the key. Part of the work may be done. The next request runs the handler.',
  uncertain:
    'It is unknown whether the work was done. Repeats are refused (409) until you settle the key, or it expires and the handler runs. Find out first, for example from the payment provider.',
}

interface FoundProps {
  readonly shown: Shown
  readonly onSettle: (settling: Settling) => void
}

function Found({ shown: { ref, record, error }, onSettle }: FoundProps) {
  if (error !== undefined) return <p class="problem">{error}</p>
  if (record === undefined) {
    return (
      <p class="problem">
        No record of <Text text={nameOf(ref)} />: the key was not used, has expired, runs now in a
        transaction, or has another scope, or its app has another secret or store.
      </p>
    )
  }
  const { state, attempt, ageMs, leaseForMs, keepForMs, steps, response, internalKey } = record
  const facts: ReadonlyArray<readonly [string, string]> = [
    ['Key', nameOf(ref)],
    ['Attempts', count(attempt)],
    ['First attempt', `${duration(ageMs)} ago`],
    ...(leaseForMs > 0 ? [['Lease left', duration(leaseForMs)] as const] : []),
    ['Kept for', duration(keepForMs)],
    ...(steps.length > 0 ? [['Steps done', steps.join(', ')] as const] : []),
    ...(response ? [['Response', shownResponse(response)] as const] : []),
    ['Fence', record.fence],
    ['Record', internalKey],
  ]
  const ask = (how: Settling['how']) => () => onSettle({ ref, record, how })
  return (
    <>
      <p class={`life-state ${BAD.has(state) ? 'seal' : state === 'completed' ? 'leaf' : 'amber'}`}>
        {state}
      </p>
      <p>{MEANING[state]}</p>
      <dl class="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <Text text={value} />
            </dd>
          </div>
        ))}
      </dl>
      <p class="buttons">
        <button type="button" onClick={ask('resolve')}>
          Set the result…
        </button>
        <button type="button" onClick={ask('release')}>
          Release…
        </button>
      </p>
    </>
  )
}

function shownResponse({ status, bodyBytes }: NonNullable<KeyRecordView['response']>): string {
  return `HTTP ${status}, ${bodyBytes === undefined ? 'body not stored' : bytes(bodyBytes)}`
}

/** Limits of one press of a button. Each page is a small piece of work for the store. */
const MOST_PAGES = 40
const ENOUGH = 50

const WANTED = {
  attention: ['Those that need attention', STATES.slice(0, 3)],
  open: ['Those not completed', STATES.slice(0, 5)],
  all: ['All', STATES],
} as const

interface Page extends Pick<RecordsView, 'cursor' | 'store'> {
  readonly records: readonly StoredRecord[]
  readonly at: number
}

function Stored() {
  const [wanted, setWanted] = useState<keyof typeof WANTED>('attention')
  const [page, setPage] = useState<Page>()
  const [isReading, setReading] = useState(false)
  const [error, setError] = useState('')
  const read = async (from: string): Promise<void> => {
    setReading(true)
    const found = new Map<string, StoredRecord>()
    let [cursor, store] = [from, '']
    try {
      for (let pages = 0; pages < MOST_PAGES && found.size < ENOUGH; pages++) {
        const next = await askRecords(cursor)
        ;({ cursor, store } = next)
        for (const each of next.records)
          if ((WANTED[wanted][1] as readonly State[]).includes(each.state))
            found.set(each.key, each)
        if (cursor === '') break
      }
      const records = [...found.values()].sort(byUrgency)
      setPage({ cursor, store, records, at: Date.now() })
      setError('')
    } catch (failure) {
      setError((failure as Error).message)
    }
    setReading(false)
  }
  return (
    <Panel title="In the store" note={page && `${page.store}, as of ${time(page.at)}`} class="wide">
      <form
        class="purge"
        onSubmit={(event) => {
          event.preventDefault()
          void read('')
        }}
      >
        <label class="field">
          Show
          <select
            value={wanted}
            disabled={isReading}
            onChange={(event) => {
              setWanted(event.currentTarget.value as typeof wanted)
              setPage(undefined)
            }}
          >
            {Object.entries(WANTED).map(([name, [title]]) => (
              <option key={name} value={name}>
                {title}
              </option>
            ))}
          </select>
        </label>
        <button type="submit" disabled={isReading}>
          {isReading ? 'Reading…' : page === undefined ? 'Read from the store' : 'Read again'}
        </button>
        {page !== undefined && page.cursor !== '' && (
          <button type="button" disabled={isReading} onClick={() => void read(page.cursor)}>
            Next page
          </button>
        )}
      </form>
      {error !== '' && <p class="problem">{error}</p>}
      {page && (
        <>
          <Table
            caption="Idempotency keys in the store"
            rows={page.records}
            columns={COLUMNS}
            rowKey={({ key }) => key}
            empty={
              page.cursor === ''
                ? `No such key in this store (${page.store}). It has the keys of idempotency() and stampede.idempotent with the Stampede of this dashboard.`
                : 'No such key among those that were read.'
            }
          />
          {page.cursor !== '' && <p>The store has more. Press “Next page”.</p>}
          {page.records.length > 0 && (
            <p class="source">
              The store has only hashes of keys. To find a key, search your logs of the events
              idempotency.answered and idempotency.finished: the hash is their internalKey.
            </p>
          )}
        </>
      )}
    </Panel>
  )
}

/** The most urgent first. Within a state, the oldest first. */
const byUrgency = (a: StoredRecord, b: StoredRecord): number =>
  STATES.indexOf(a.state) - STATES.indexOf(b.state) || b.ageMs - a.ageMs

const COLUMNS = [
  { title: 'Record', cell: ({ key }: StoredRecord) => <Text text={key} /> },
  {
    title: 'State',
    cell: ({ state }: StoredRecord) => (
      <span class={`state ${BAD.has(state) ? 'bad' : state === 'completed' ? 'good' : ''}`}>
        {state}
      </span>
    ),
  },
  { title: 'Age', isNumber: true, cell: ({ ageMs }: StoredRecord) => duration(ageMs) },
  { title: 'Attempt', isNumber: true, cell: ({ attempt }: StoredRecord) => count(attempt) },
  {
    title: 'Lease left',
    isNumber: true,
    cell: ({ leaseForMs }: StoredRecord) => (leaseForMs > 0 ? duration(leaseForMs) : '–'),
  },
  { title: 'Kept for', isNumber: true, cell: ({ keepForMs }: StoredRecord) => duration(keepForMs) },
  {
    title: 'Fence',
    isNumber: true,
    isExtra: true,
    cell: ({ fence }: StoredRecord) => fence,
  },
]
