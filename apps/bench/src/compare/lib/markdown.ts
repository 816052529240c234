// Tables of a page.

/** The first column is text, the others are figures. */
export function table(head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const rule = head.map((_, column) => (column === 0 ? '---' : '--:'))
  return [line(head), `|${rule.join('|')}|`, ...rows.map(line)].join('\n')
}

/** Rounded, with a narrow space before each three digits: 1 234 567. */
export const whole = (value: number): string =>
  Math.round(value).toLocaleString('en-US').replaceAll(',', '\u202f')
