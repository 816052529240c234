// The page of purges: a form for any target, and the log of this session.

import type { TargetedKeyboardEvent } from 'preact'
import { useState } from 'preact/hooks'
import type { PurgeTarget } from '../api.ts'
import { time } from '../format.ts'
import { Text } from '../parts/key-text.tsx'
import { Panel, Table } from '../parts/panel.tsx'
import { nameOf, type PurgeRecord, type Purges } from '../parts/purge-form.tsx'

const EXAMPLES: Readonly<Record<PurgeTarget['kind'], string>> = {
  tag: 'product:42',
  route: '/products/:id',
  path: '/products/42',
  key: 'rates:eur',
  cache: 'rates',
  all: '',
}

const TITLES: readonly (readonly [PurgeTarget['kind'], string])[] = [
  ['tag', 'Tag'],
  ['route', 'Route'],
  ['path', 'Path'],
  ['key', 'Key'],
  ['cache', 'Cache'],
  ['all', 'Everything'],
]

/** The name in the field, or the names of its lines. */
function namesIn(text: string): string | readonly string[] {
  const names = text.split('\n').flatMap((line) => line.trim() || [])
  return names.length === 1 ? (names[0] ?? '') : names
}

/** As in a field of one line. Shift and Enter begin the next line. */
function submitOnEnter(event: TargetedKeyboardEvent<HTMLTextAreaElement>): void {
  if (event.key !== 'Enter' || event.shiftKey) return
  event.preventDefault()
  event.currentTarget.form?.requestSubmit()
}

export function PurgePage({ purges }: { purges: Purges }) {
  const [kind, setKind] = useState<PurgeTarget['kind']>('tag')
  const [value, setValue] = useState('')
  const [host, setHost] = useState('')
  return (
    <>
      <h1>Purge</h1>
      <div class="grid">
        <Panel title="Purge entries" class="two">
          <form
            class="purge"
            onSubmit={(event) => {
              event.preventDefault()
              const where = kind === 'path' ? { host: host.trim() } : {}
              purges.ask({ kind, value: namesIn(value), ...where })
            }}
          >
            <label class="field">
              What
              <select
                value={kind}
                onChange={(event) => setKind(event.currentTarget.value as PurgeTarget['kind'])}
              >
                {TITLES.map(([name, title]) => (
                  <option key={name} value={name}>
                    {title}
                  </option>
                ))}
              </select>
            </label>
            {kind !== 'all' && (
              <label class="field grow">
                {kind === 'cache' ? 'Name' : 'Name, or one a line (Shift+Enter)'}
                <textarea
                  required
                  rows={1}
                  value={value}
                  placeholder={EXAMPLES[kind]}
                  spellcheck={false}
                  autocomplete="off"
                  autocapitalize="off"
                  onInput={(event) => setValue(event.currentTarget.value)}
                  onKeyDown={submitOnEnter}
                />
              </label>
            )}
            {kind === 'path' && (
              <label class="field">
                Host (all, if empty)
                <input
                  value={host}
                  placeholder="shop.example"
                  spellcheck={false}
                  autocomplete="off"
                  autocapitalize="off"
                  onInput={(event) => setHost(event.currentTarget.value)}
                />
              </label>
            )}
            <button type="submit">Purge…</button>
          </form>
        </Panel>
        <Panel title="Purges of this session" class="two">
          <Table
            caption="Targets and results"
            rows={purges.log}
            columns={[
              { title: 'Time', cell: ({ at }: PurgeRecord) => time(at) },
              {
                title: 'Target',
                cell: ({ target }: PurgeRecord) => <Text text={nameOf(target)} />,
              },
              { title: 'Kind', cell: ({ soft }: PurgeRecord) => (soft ? 'soft' : 'hard') },
              {
                title: 'Result',
                cell: ({ error }: PurgeRecord) =>
                  error === undefined ? (
                    <span class="state good">done</span>
                  ) : (
                    <span class="state bad">
                      <Text text={error} />
                    </span>
                  ),
              },
            ]}
            rowKey={({ at }) => String(at)}
            empty="No purge yet in this tab."
          />
        </Panel>
      </div>
    </>
  )
}
