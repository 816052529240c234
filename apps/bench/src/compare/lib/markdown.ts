// Tables of a page.

/** The first column is text, the others are figures. */
export function table(head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const rule = head.map((_, column) => (column === 0 ? '---' : '--:'))
  return [line(head), `|${rule.join('|')}|`, ...rows.map(line)].join('\n')
}
