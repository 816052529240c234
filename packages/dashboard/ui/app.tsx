// The frame of all pages: header, navigation, state of the connection, notices.

import { useEffect, useRef, useState } from 'preact/hooks'
import { Connection, type ConnectionState, type Status } from './connection.ts'
import { plural } from './format.ts'
import { useNews } from './news.ts'
import { Fleet } from './pages/fleet.tsx'
import { Idempotency } from './pages/idempotency.tsx'
import { KeyPage } from './pages/key.tsx'
import { Locks } from './pages/locks.tsx'
import { PurgePage } from './pages/purge.tsx'
import { Text } from './parts/key-text.tsx'
import { type Notify, PurgeDialog, usePurges } from './parts/purge-form.tsx'
import { type Address, useAddress } from './routing.ts'
import { type Theme, useTheme } from './theme.ts'

export function App() {
  const [{ view, status }, setState] = useState<ConnectionState>({
    view: undefined,
    status: { type: 'connecting' },
  })
  const connection = useRef<Connection>(undefined)
  useEffect(() => {
    connection.current = new Connection(setState)
  }, [])
  const address = useAddress()
  const [theme, shownTheme, setTheme] = useTheme()
  const [notice, setNotice] = useState<{ text: string; isBad: boolean }>()
  const notify = (text: string, isBad = false): void => setNotice({ text, isBad })
  const purges = usePurges(notify)
  const news = useNews(view, status)
  const main = useRef<HTMLElement>(null)
  return (
    <>
      <button type="button" class="skip" onClick={() => main.current?.focus()}>
        Skip to the content
      </button>
      <header class="top">
        <a class="brand" href="#/">
          <img src="icon.svg" alt="" width="28" height="28" />
          Stampede
        </a>
        <Navigation page={address.page} />
        <State
          status={status}
          processes={view?.processes.length ?? 0}
          onPause={(isPaused) => connection.current?.pause(isPaused)}
          onRetry={() => connection.current?.retry()}
        />
        <ThemeChoice theme={theme} onChange={setTheme} />
      </header>
      <p class="hidden" aria-live="polite">
        {news}
      </p>
      <div class="notices" role="status">
        {notice && (
          <p class={notice.isBad ? 'notice bad' : 'notice'}>
            <Text text={notice.text} />
            <button type="button" class="small" onClick={() => setNotice(undefined)}>
              Close
            </button>
          </p>
        )}
      </div>
      <main ref={main} id="main" tabIndex={-1}>
        {status.type === 'waiting' && (
          <p class="problem">{status.why} These figures are old. The page tries again by itself.</p>
        )}
        {view?.storeError !== undefined && (
          <p class="problem">
            The reports of the other processes cannot be read: {view.storeError}
          </p>
        )}
        {view === undefined && address.page !== 'key' ? (
          <p class="empty">Waiting for the first figures…</p>
        ) : (
          <Page
            address={address}
            view={view}
            isLive={status.type === 'live'}
            purges={purges}
            notify={notify}
            theme={shownTheme}
          />
        )}
      </main>
      <PurgeDialog purges={purges} />
    </>
  )
}

interface PageProps {
  readonly address: Address
  readonly view: ConnectionState['view']
  readonly isLive: boolean
  readonly purges: ReturnType<typeof usePurges>
  readonly notify: Notify
  readonly theme: string
}

function Page({ address, view, isLive, purges, notify, theme }: PageProps) {
  if (address.page === 'key') {
    return <KeyPage asked={address.key} isLive={isLive} purges={purges} />
  }
  if (address.page === 'purge') return <PurgePage purges={purges} />
  if (view === undefined) return null
  if (address.page === 'idempotency') return <Idempotency view={view} notify={notify} />
  if (address.page === 'locks') return <Locks view={view} />
  return <Fleet view={view} purges={purges} theme={theme} />
}

const PAGES = [
  ['fleet', '#/', 'Fleet'],
  ['key', '#/key/', 'Key'],
  ['idempotency', '#/idempotency', 'Idempotency'],
  ['locks', '#/locks', 'Locks'],
  ['purge', '#/purge', 'Purge'],
] as const

function Navigation({ page }: { page: Address['page'] }) {
  return (
    <nav aria-label="Pages">
      <ul>
        {PAGES.map(([name, href, title]) => (
          <li key={name}>
            <a href={href} aria-current={name === page ? 'page' : undefined}>
              {title}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  )
}

interface StateProps {
  readonly status: Status
  readonly processes: number
  readonly onPause: (isPaused: boolean) => void
  readonly onRetry: () => void
}

const STATES: Readonly<Record<Status['type'], string>> = {
  connecting: 'Connecting',
  live: 'Live',
  paused: 'Paused',
  waiting: 'Reconnecting',
}

function State({ status, processes, onPause, onRetry }: StateProps) {
  const { type } = status
  return (
    <p class="connection">
      <span class={`light ${type}`} aria-hidden="true" />
      <span>
        {STATES[type]}
        {type === 'live' && (
          <span class="extra">, {plural(processes, 'process', 'processes')}</span>
        )}
      </span>
      {type === 'waiting' ? (
        <button type="button" class="small" onClick={onRetry}>
          Try now
        </button>
      ) : (
        <button type="button" class="small" onClick={() => onPause(type !== 'paused')}>
          {type === 'paused' ? 'Go on' : 'Pause'}
        </button>
      )}
    </p>
  )
}

function ThemeChoice({ theme, onChange }: { theme: Theme; onChange: (theme: Theme) => void }) {
  return (
    <label class="theme">
      <span class="hidden">Colours</span>
      <select value={theme} onChange={(event) => onChange(event.currentTarget.value as Theme)}>
        <option value="auto">Auto</option>
        <option value="light">Light</option>
        <option value="dark">Dark</option>
      </select>
    </label>
  )
}
