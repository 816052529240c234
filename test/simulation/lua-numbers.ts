// Numbers as text, as C's printf writes them for Lua and Redis.

/** As `%.14g` (Lua's `..` and `tostring`) and `%.17g` (arguments of `redis.call`, scores). */
export function formatted(number: number, digits: 14 | 17): string {
  if (Number.isNaN(number)) return '-nan'
  if (!Number.isFinite(number)) return number > 0 ? 'inf' : '-inf'
  const scientific = number.toExponential(digits - 1)
  const at = scientific.indexOf('e')
  const exponent = Number(scientific.slice(at + 1))
  if (exponent >= -4 && exponent < digits) {
    return Number.isInteger(number) ? String(number) : trimmed(number.toPrecision(digits))
  }
  const sign = exponent < 0 ? '-' : '+'
  return `${trimmed(scientific.slice(0, at))}e${sign}${String(Math.abs(exponent)).padStart(2, '0')}`
}

function trimmed(text: string): string {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text
}

/** As Lua 5.1 reads a number. Undefined: the text is none. */
export function parsed(text: string): number | undefined {
  const isNumber = /^\s*[-+]?(\d+\.?\d*(e[-+]?\d+)?|\.\d+(e[-+]?\d+)?|0x[\da-f]+)\s*$/i.test(text)
  if (!isNumber) return undefined
  const [sign, digits] =
    text.includes('-') && /^\s*-/.test(text) ? [-1, text.replace('-', '')] : [1, text]
  return sign * Number(digits)
}
