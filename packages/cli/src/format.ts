// Durations, sizes and tables as text for people.

/** Such as `350 ms`, `4.2 s`, `3 min 5 s` or `2 d 3 h`. */
export function duration(ms: number): string {
  const all = Math.max(0, Math.round(ms))
  if (all < 1_000) return `${all} ms`
  if (all < 10_000) return `${(all / 1_000).toFixed(1)} s`
  const seconds = Math.round(all / 1_000)
  if (seconds < 60) return `${seconds} s`
  const parts = [
    [Math.floor(seconds / 86_400), 'd'],
    [Math.floor(seconds / 3_600) % 24, 'h'],
    [Math.floor(seconds / 60) % 60, 'min'],
    [seconds % 60, 's'],
  ] as const
  const first = parts.findIndex(([value]) => value > 0)
  return parts
    .slice(first, first + 2)
    .filter(([value]) => value > 0)
    .map(([value, unit]) => `${value} ${unit}`)
    .join(' ')
}

export function bytes(count: number): string {
  if (count < 1_024) return `${count} B`
  if (count < 1_024 ** 2) return `${(count / 1_024).toFixed(1)} KiB`
  if (count < 1_024 ** 3) return `${(count / 1_024 ** 2).toFixed(1)} MiB`
  return `${(count / 1_024 ** 3).toFixed(1)} GiB`
}

/** Such as `1 key`, `3 processes` or `2 entries`. */
export function count(value: number, noun: string): string {
  const several = /[^aeo]y$/.test(noun)
    ? `${noun.slice(0, -1)}ies`
    : `${noun}${/(s|x|ch|sh)$/.test(noun) ? 'es' : 's'}`
  return `${number(value)} ${value === 1 ? noun : several}`
}

export function number(value: number): string {
  return Math.round(value).toLocaleString('en')
}

/** A fraction as a percentage. `-` if nothing was counted. */
export function percent(share: number | undefined): string {
  return share === undefined ? '-' : `${(100 * share).toFixed(1)} %`
}

/** The columns of a table by title, each with the text for a row. */
export type Columns<Row> = Readonly<Record<string, (row: Row) => string>>

/** Rows in columns. Columns whose values are all numbers are aligned to the right. */
export function table<Row>(rows: readonly Row[], columns: Columns<Row>): string[] {
  const all = Object.entries(columns).map(([title, textOf]) => {
    const cells = rows.map((row) => printable(textOf(row)))
    // Not `Math.max(...lengths)`, which fails for more than about 100,000 rows.
    const width = cells.reduce((most, cell) => Math.max(most, cell.length), title.length)
    const isNumeric = cells.every((cell) => /^[-\d.,]/.test(cell))
    return [title, ...cells].map((cell) => (isNumeric ? cell.padStart(width) : cell.padEnd(width)))
  })
  return [undefined, ...rows].map((_, line) =>
    all
      .map((cells) => cells[line])
      .join('  ')
      .trimEnd(),
  )
}

/** Names with their values, in two columns. Pairs without a value are left out. */
export function pairs(
  list: ReadonlyArray<readonly [name: string, value: string | undefined]>,
): string[] {
  const known = list.filter(([, value]) => value !== undefined)
  const width = Math.max(0, ...known.map(([name]) => name.length))
  return known.map(([name, value]) => `${name.padEnd(width)}  ${printable(value ?? '')}`)
}

/** Keys and messages come from clients, so control characters must not reach the terminal. */
export function printable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (char) => {
    const code = char.codePointAt(0) ?? 0
    return `\\u${code.toString(16).padStart(4, '0')}`
  })
}
