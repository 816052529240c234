// Starts the four parts of the page, and updates the line at its foot.

import { ask } from './api.js'
import { startDoubleClick } from './double-click.js'
import { counted, whole } from './format.js'
import { startInspector } from './inspector.js'
import { startLab } from './lab.js'
import { startShelf } from './shelf.js'

/** Shown if the lab refuses to respond. It responds only to its own machine. */
const UNKNOWN = { ttlMs: 10_000, staleWhileRevalidateMs: 30_000, staleIfErrorMs: 60_000 }

const announce = (text) => {
  document.querySelector('#announcement').textContent = text
}

let inspector
const shelf = startShelf((id) => inspector?.inspect(id))
const about = await showAbout()
// The lab fills the database with queries, so it starts after the shelf.
const teas = await shelf
startLab(about, () => void showAbout())
startDoubleClick(teas, () => void showAbout())
inspector = startInspector(about ?? UNKNOWN, teas, announce)

async function showAbout() {
  const line = document.querySelector('#about')
  try {
    const { body } = await ask('/api/lab/stats')
    line.textContent = describe(body)
    return body
  } catch (error) {
    line.textContent = error.message
    return undefined
  }
}

function describe(about) {
  const where =
    about.store === 'memory'
      ? 'with the cache in this process'
      : `with the cache in Redis and in ${about.fleet === null ? 'this' : 'each'} process`
  const runs = Object.entries(about.originRuns)
  const sum = (prefix) =>
    runs.filter(([route]) => route.startsWith(prefix)).reduce((total, [, n]) => total + n, 0)
  const pool = `PostgreSQL takes ${about.originLatencyMs} ms per query and runs ${about.databaseConnections} at a time`
  return (
    `${about.framework}, ${where}. ${pool}. So far: ${counted(sum('GET /api'), 'query', 'queries')} ` +
    `with the cache, ${whole(sum('GET /uncached'))} without it.`
  )
}
