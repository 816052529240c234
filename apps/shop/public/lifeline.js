// The life of an answer as a bar: fresh, then stale, then kept only in case the database fails. The
// needle goes on moving between answers, by the page's own clock.

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

  /** Where an answer is that turned stale `staleFor` ms ago (negative: will turn): third, and how far into it. */
  const place = (staleFor) => {
    if (staleFor <= 0) return { phase: 0, part: 1 + staleFor / ttlMs }
    if (staleFor <= staleMs) return { phase: 1, part: staleFor / staleMs }
    if (staleFor <= staleMs + failingMs) return { phase: 2, part: (staleFor - staleMs) / failingMs }
    return { phase: 3, part: 0 }
  }

  const tick = () => {
    if (last === undefined) return
    const staleFor = performance.now() - last.at - last.freshMs
    const { phase, part } = place(staleFor)
    const at = Math.min(Math.max(phase + part, 0), 3) / 3
    needle.style.setProperty('--at', at.toFixed(4))
    countdown.textContent = words(phase, staleFor, last.kind)
  }
  setInterval(tick, 200)

  return {
    /** @param {number} httpStatus @param {{ kind: string, ttlS: number | undefined }} status */
    show(httpStatus, { kind, ttlS }) {
      // A hit says how long it stays fresh, in whole seconds rounded down: half a second more is the
      // best guess. What was stored this moment does not say, and has its whole life before it.
      const freshMs = ttlS === undefined ? ttlMs : ttlS * 1000 + 500
      const kept = httpStatus === 200 && kind !== 'none' && kind !== 'bypass'
      last = kept ? { kind, at: performance.now(), freshMs } : undefined
      if (last === undefined) countdown.textContent = 'This answer is not kept'
      else tick()
    },
    clear() {
      last = undefined
      needle.style.setProperty('--at', '0')
      countdown.textContent = 'Not asked yet'
    },
  }
}

function words(phase, staleFor, kind) {
  if (phase === 0) return `Fresh for ${Math.ceil(-staleFor / 1000)} s more`
  if (phase === 3) return 'Expired; the next asker waits for the database'
  const stale = `Stale for ${Math.floor(staleFor / 1000)} s`
  if (phase === 2) return `${stale}; kept in case the database fails`
  return kind === 'stale'
    ? `${stale}; being refreshed behind`
    : `${stale}; the next asker gets it once more`
}

function write(selector, ms) {
  document.querySelector(selector).textContent = `${Math.round(ms / 100) / 10} s`
}
