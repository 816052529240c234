// Numbers, prices and times as text.

const EURO = new Intl.NumberFormat('en-IE', { style: 'currency', currency: 'EUR' })
const WHOLE = new Intl.NumberFormat('en', { useGrouping: true })

/** @param {number} cents */
export const euros = (cents) => EURO.format(cents / 100)

/** With a thin space between thousands. @param {number} value */
export const whole = (value) => WHOLE.format(value).replaceAll(',', '\u2009')

/** @param {number} ms */
export function duration(ms) {
  if (ms < 9.95) return `${ms.toFixed(1)} ms`
  return ms < 999.5 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`
}

/** @param {number} count @param {string} one @param {string} many */
export const counted = (count, one, many) => `${whole(count)} ${count === 1 ? one : many}`
