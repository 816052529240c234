// Tables of a page.

/** The first column is text, the others are figures. */
export function table(head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const rule = head.map((_, column) => (column === 0 ? '---' : '--:'))
  return [line(head), `|${rule.join('|')}|`, ...rows.map(line)].join('\n')
}

/** A list item in lines of at most 120 columns. */
export function listItem(text: string): string {
  const lines = ['-']
  for (const word of text.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`
    if (longer.length <= 120) lines[lines.length - 1] = longer
    else lines.push(`  ${word}`)
  }
  return lines.join('\n')
}

/** Rounded, with a narrow space before each three digits: 1 234 567. */
export const whole = (value: number): string =>
  Math.round(value).toLocaleString('en-US').replaceAll(',', '\u202f')
