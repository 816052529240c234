// Numbers, durations and times for readers.

const whole = new Intl.NumberFormat('en')
const compact = new Intl.NumberFormat('en', { notation: 'compact', maximumFractionDigits: 1 })

export const count = (value: number): string =>
  Math.abs(value) < 10_000 ? whole.format(Math.round(value)) : compact.format(value)

export function rate(value: number): string {
  if (value === 0) return '0'
  if (value < 10) return value.toFixed(1)
  return count(value)
}

export const percent = (part: number, total: number): string =>
  total === 0 ? '–' : `${((100 * part) / total).toFixed(part === total ? 0 : 1)} %`

export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  const seconds = ms / 1_000
  if (seconds < 10) return `${seconds.toFixed(1)} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  const minutes = seconds / 60
  if (minutes < 120) return `${Math.round(minutes)} min`
  const hours = minutes / 60
  return hours < 48 ? `${Math.round(hours)} h` : `${count(hours / 24)} days`
}

export function bytes(value: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB']
  const power = Math.min(Math.floor(Math.log2(Math.max(value, 1)) / 10), units.length - 1)
  const scaled = value / 1024 ** power
  return `${scaled < 10 && power > 0 ? scaled.toFixed(1) : Math.round(scaled)} ${units[power]}`
}

const clock = new Intl.DateTimeFormat('en-GB', {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
})

export const time = (at: number): string => clock.format(at)

const dateClock = new Intl.DateTimeFormat('en-GB', {
  day: 'numeric',
  month: 'short',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
})

export const dateTime = (at: number): string => dateClock.format(at)

export const plural = (value: number, one: string, many: string = `${one}s`): string =>
  `${count(value)} ${value === 1 ? one : many}`
