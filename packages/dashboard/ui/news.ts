// Changes that a screen reader announces: the connection, and processes that come, go or fall
// silent. Figures that change each second are not announced.

import { useEffect, useRef, useState } from 'preact/hooks'
import type { FleetView } from '../src/fleet-view.ts'
import type { Status } from './connection.ts'

export function useNews(view: FleetView | undefined, status: Status): string {
  const [news, setNews] = useState('')
  const known = useRef<ReadonlyMap<string, string>>(undefined)
  useEffect(() => {
    if (status.type === 'waiting') setNews('The connection is lost. The page tries again.')
    if (status.type === 'live') setNews('Live.')
  }, [status.type])
  useEffect(() => {
    if (view === undefined) return
    const before = known.current
    const now = new Map(view.processes.map((each) => [each.id, each.isSilent ? 'silent' : 'live']))
    known.current = now
    if (before === undefined) return
    const nameOf = (id: string): string => {
      const each = [...view.processes, ...view.gone].find((process) => process.id === id)
      return each ? `${each.host}:${each.pid}` : 'A process'
    }
    const joined = [...now.keys()].filter((id) => !before.has(id))
    const left = [...before.keys()].filter((id) => !now.has(id))
    const silent = [...now].filter(([id, state]) => state === 'silent' && before.get(id) === 'live')
    const texts = [
      ...joined.map((id) => `${nameOf(id)} reports now.`),
      ...left.map((id) => `${nameOf(id)} is gone.`),
      ...silent.map(([id]) => `${nameOf(id)} is silent.`),
    ]
    if (texts.length > 0) setNews(texts.join(' '))
  }, [view])
  return news
}
