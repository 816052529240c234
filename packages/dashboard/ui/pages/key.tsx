// The page of a key: what is stored, how long it lives, why it was filled, and its purges.

import type { ComponentChildren } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { KeyView } from '../../src/key-page.ts'
import { askKey } from '../api.ts'
import { bytes, count, dateTime, duration, plural } from '../format.ts'
import { Events } from '../parts/events.tsx'
import { Text } from '../parts/key-text.tsx'
import { Lifetime } from '../parts/lifetime.tsx'
import { Panel, Table } from '../parts/panel.tsx'
import type { Purges } from '../parts/purge-form.tsx'
import { keyHref } from '../routing.ts'

/** Time between two requests for the facts of the key that is shown. */
const EVERY_MS = 2_000

interface KeyPageProps {
  readonly asked: string
  readonly isLive: boolean
  readonly purges: Purges
}

export function KeyPage({ asked, isLive, purges }: KeyPageProps) {
  const [result, setResult] = useState<{ view?: KeyView; error?: string; at: number }>()
  useEffect(() => setResult(undefined), [asked])
  useEffect(() => {
    if (asked === '') return
    let isCurrent = true
    const refresh = (): Promise<void> =>
      askKey(asked).then(
        (view) => isCurrent && setResult({ view, at: Date.now() }),
        (error: Error) => isCurrent && setResult({ error: error.message, at: Date.now() }),
      ) as Promise<void>
    void refresh()
    const timer = isLive ? setInterval(() => void refresh(), EVERY_MS) : undefined
    return () => {
      isCurrent = false
      clearInterval(timer)
    }
  }, [asked, isLive, purges.log])
  return (
    <>
      <h1>Key</h1>
      <Search asked={asked} />
      {asked === '' && (
        <p class="empty">
          Search for a URL, a key of <code>getOrSet</code>, or a key that the option{' '}
          <code>key</code> returned. Keys in the lists of the fleet page lead here.
        </p>
      )}
      {result?.error !== undefined && <p class="problem">{result.error}</p>}
      {result?.view && <Facts view={result.view} at={result.at} purges={purges} />}
    </>
  )
}

function Search({ asked }: { asked: string }) {
  const [typed, setTyped] = useState(asked)
  useEffect(() => setTyped(asked), [asked])
  return (
    <search>
      <form
        class="search"
        onSubmit={(event) => {
          event.preventDefault()
          location.hash = keyHref(typed.trim())
        }}
      >
        <label for="search-key">URL or key</label>
        <input
          id="search-key"
          value={typed}
          placeholder="https://shop.example/products/42"
          spellcheck={false}
          autocomplete="off"
          autocapitalize="off"
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
        <button type="submit">Show</button>
      </form>
    </search>
  )
}

const KINDS = {
  response: 'Response, under its URL',
  custom: 'Response, under a key of the app',
  value: 'Value of getOrSet',
}

function Facts({ view, at, purges }: { view: KeyView; at: number; purges: Purges }) {
  const { record, entry } = view
  return (
    <div class="grid">
      <Panel title="Stored" note={KINDS[view.kind]} class="two">
        <p class="key-name">
          <Text text={view.key} />
        </p>
        {view.bypass !== undefined && (
          <p class="problem">A request with this URL bypasses the cache: {view.bypass}.</p>
        )}
        {view.isUnreadable && (
          <p class="problem">An entry is stored, but this process cannot decode it.</p>
        )}
        <Variants view={view} />
        {record?.variants && entry === undefined ? null : record === undefined ? (
          <p class="empty">
            {view.variants.length > 0 ? 'No entry' : 'Nothing'} is stored under this key itself. If{' '}
            <code>stampedeCache</code> has the options <code>query</code>, <code>vary</code>,{' '}
            <code>identity</code> or <code>key</code>, the key differs: choose it on the fleet page.
          </p>
        ) : (
          <Lifetime record={record} at={at} hasEntry={entry !== undefined} />
        )}
        {entry && <EntryFactsList view={view} />}
      </Panel>
      <div class="stack">
        <Panel title="Why it was filled">
          <LastFill view={view} />
          <Flights view={view} />
        </Panel>
        <Panel title="Purge">
          <PurgeChoices view={view} purges={purges} />
        </Panel>
      </div>
      {entry && entry.headers.length > 0 && (
        <Panel title="Header fields" class="wide">
          <dl class="facts mono">
            {entry.headers.map(([name, value], index) => (
              <Fact key={`${name} ${index}`} name={name}>
                <Text text={String(value)} />
              </Fact>
            ))}
          </dl>
        </Panel>
      )}
      <Panel title="Events of this key" class="wide">
        <Events events={view.events} isOneKey />
      </Panel>
    </div>
  )
}

/** The other entries of a URL. Without them, an entry of a variant would seem to be missing. */
function Variants({ view: { variants, record } }: { view: KeyView }) {
  if (variants.length === 0 && record?.variants !== true) return null
  return (
    <>
      <p>
        This key has variants (<code>Vary</code>, cookies, <code>identity</code> or a proxy field),
        each with an entry of its own
        {variants.length === 0 ? '. No process has reported one lately.' : ':'}
      </p>
      <ul>
        {variants.map(({ internalKey, text }) => (
          <li key={internalKey}>
            <a href={keyHref(internalKey)}>
              <Text text={text} />
            </a>
          </li>
        ))}
      </ul>
    </>
  )
}

function Fact({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

function EntryFactsList({ view: { entry, record } }: { view: KeyView }) {
  if (entry === undefined || record === undefined) return null
  const { status, encoding, bodyBytes, compressed, tags, vary, tookMs, purges } = entry
  return (
    <dl class="facts">
      <Fact name="Content">
        {status === undefined ? `value as ${encoding}` : `HTTP ${status}`}, {bytes(bodyBytes)}; the
        record has {bytes(record.bytes)}
        {compressed && `, compressed by ${compressed}`}
      </Fact>
      <Fact name="Fill">
        took {duration(tookMs)}, fence {record.fence}
      </Fact>
      {tags.length > 0 && (
        <Fact name="Tags">
          {tags.map((tag) => (
            <span key={tag} class="tag">
              <Text text={tag} />
            </span>
          ))}
        </Fact>
      )}
      {vary.length > 0 && (
        <Fact name="Vary">
          <Text text={vary.map(([name, value]) => `${name}: ${value ?? '(absent)'}`).join('; ')} />
        </Fact>
      )}
      {purges.map(({ by, subject = '', soft, at }) => (
        <Fact key={`${by} ${subject} ${at}`} name={soft ? 'Soft-purged' : 'Purged'}>
          by {by} <Text text={subject} /> at {dateTime(at)}
        </Fact>
      ))}
      {entry.isFromLostHistory && (
        <Fact name="History">Purges of this entry may have been lost, so it counts as purged.</Fact>
      )}
    </dl>
  )
}

const REASONS: Readonly<Record<string, string>> = {
  absent: 'the store had no entry.',
  expired: 'the entry had expired.',
  purged: 'the entry had been purged.',
  stale: 'the entry was stale. It was served while it was refreshed.',
  'hit-for-miss': 'the last response could not be shared.',
}

function LastFill({ view: { lastFill, record } }: { view: KeyView }) {
  return (
    <>
      {lastFill ? (
        <p>
          {dateTime(lastFill.at)}: {REASONS[lastFill.reason] ?? 'the reason is unknown.'} Process{' '}
          <Text text={lastFill.process} /> got the lease.
        </p>
      ) : (
        <p class="empty">No process remembers a fill of this key.</p>
      )}
      {record?.failure && (
        <p class="problem">
          The last fill failed with {record.failure.status}: <Text text={record.failure.message} />.
          Requests share this failure for {duration(record.failure.forMs)}.
        </p>
      )}
      {record?.passForMs !== undefined && (
        <p class="problem">
          The last response could not be shared, so requests do not wait for each other for{' '}
          {duration(record.passForMs)}.
        </p>
      )}
    </>
  )
}

type Flight = KeyView['flights'][number]

function Flights({ view: { flights, record } }: { view: KeyView }) {
  if (flights.length === 0 && record?.lease === undefined) return null
  return (
    <>
      {record?.lease && (
        <p>
          A fill is running: its lease ends in {duration(record.lease.remainingMs)} unless it is
          renewed. {plural(record.lease.waiters, 'process', 'processes')} wait.
        </p>
      )}
      <Table
        caption="Processes that work on this key"
        rows={flights}
        columns={[
          { title: 'Process', cell: (row: Flight) => <Text text={row.process} /> },
          {
            title: 'State',
            cell: ({ state, hasLease }: Flight) => `${state}${hasLease ? ', has the lease' : ''}`,
          },
          { title: 'Waiters', isNumber: true, cell: ({ waiters }: Flight) => count(waiters) },
          { title: 'For', isNumber: true, cell: ({ ageMs }: Flight) => duration(ageMs) },
        ]}
        rowKey={(row) => `${row.process} ${row.id}`}
        empty="No process works on this key now."
      />
    </>
  )
}

function PurgeChoices({ view, purges }: { view: KeyView; purges: Purges }) {
  const { entry, purgeKey } = view
  const path = entry?.path
  return (
    <ul class="choices-list">
      {purgeKey !== undefined && (
        <li>
          <button type="button" onClick={() => purges.ask({ kind: 'key', value: purgeKey })}>
            This key
          </button>
        </li>
      )}
      {path !== undefined && (
        <li>
          <button
            type="button"
            onClick={() => purges.ask({ kind: 'path', value: path, host: entry?.host })}
          >
            This path, with all queries
          </button>
        </li>
      )}
      {entry?.tags.map((tag) => (
        <li key={tag}>
          <button type="button" onClick={() => purges.ask({ kind: 'tag', value: tag })}>
            Tag <Text text={tag} />
          </button>
        </li>
      ))}
      <li>
        <a href="#/purge">Another tag, path or route</a>
      </li>
    </ul>
  )
}
