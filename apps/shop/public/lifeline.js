// The lifetime of a response as a bar: fresh, stale, and kept in case the database fails. The
// needle moves on between responses by the clock of the page.

const needle = document.querySelector('#needle')
const countdown = document.querySelector('#countdown')

/** @param {{ ttlMs: number, staleWhileRevalidateMs: number, staleIfErrorMs: number }} lifetimes */
export function createLifeline(lifetimes) {
  const { ttlMs, staleWhileRevalidateMs: staleMs, staleIfErrorMs } = lifetimes
  const failingMs = Math.max(staleIfErrorMs - staleMs, 0)
  write('#fresh-span', ttlMs)
  write('#stale-span', staleMs)
  write('#failing-span', failingMs)
  let last

  /**
   * The phase of a response that became stale `staleFor` ms ago (negative: it will), and the share
   * of the phase that is over.
   */
  const phaseAt = (staleFor) => {
    if (staleFor <= 0) return { phase: 0, part: 1 + staleFor / ttlMs }
    if (staleFor <= staleMs) return { phase: 1, part: staleFor / staleMs }
    if (staleFor <= staleMs + failingMs) return { phase: 2, part: (staleFor - staleMs) / failingMs }
    return { phase: 3, part: 0 }
  }

  const tick = () => {
    if (last === undefined) return
    const staleFor = performance.now() - last.at - last.freshMs
    const { phase, part } = phaseAt(staleFor)
    const at = Math.min(Math.max(phase + part, 0), 3) / 3
    needle.style.setProperty('--at', at.toFixed(4))
    countdown.textContent = words(phase, staleFor, last.kind)
  }
  setInterval(tick, 200)

  return {
    /** @param {number} httpStatus @param {{ kind: string, ttlS: number | undefined }} status */
    show(httpStatus, { kind, ttlS }) {
      // A hit states its remaining lifetime in seconds, rounded down. Half a second more is the
      // best guess. A response that was just stored does not state it, and has its whole lifetime
      // left.
      const freshMs = ttlS === undefined ? ttlMs : ttlS * 1000 + 500
      const isStored = httpStatus === 200 && kind !== 'none' && kind !== 'bypass'
      last = isStored ? { kind, at: performance.now(), freshMs } : undefined
      if (last === undefined) countdown.textContent = 'This response is not stored'
      else tick()
    },
    clear() {
      last = undefined
      needle.style.setProperty('--at', '0')
      countdown.textContent = 'No response yet'
    },
  }
}

function words(phase, staleFor, kind) {
  if (phase === 0) return `Fresh for another ${Math.ceil(-staleFor / 1000)} s`
  if (phase === 3) return 'Expired; the next request waits for the database'
  const stale = `Stale for ${Math.floor(staleFor / 1000)} s`
  if (phase === 2) return `${stale}; served only if the database fails`
  return kind === 'stale'
    ? `${stale}; a refresh is running`
    : `${stale}; the next request still gets it`
}

function write(selector, ms) {
  document.querySelector(selector).textContent = `${Math.round(ms / 100) / 10} s`
}
