// Tables of a page.

/** The first column is text, the others are figures. */
export function table(head: readonly string[], rows: ReadonlyArray<readonly string[]>): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const rule = head.map((_, column) => (column === 0 ? '---' : '--:'))
  return [line(head), `|${rule.join('|')}|`, ...rows.map(line)].join('\n')
}

/** A paragraph in lines of at most 120 columns. */
export function paragraph(text: string, indent = ''): string {
  const [first = '', ...words] = text.split(' ')
  const lines = [first]
  for (const word of words) {
    const longer = `${lines.at(-1)} ${word}`
    if (longer.length <= 120) lines[lines.length - 1] = longer
    else lines.push(indent + word)
  }
  return lines.join('\n')
}

export const listItem = (text: string): string => paragraph(`- ${text}`, '  ')

/** Rounded, with a narrow space before each three digits: 1 234 567. */
export const whole = (value: number): string =>
  Math.round(value).toLocaleString('en-US').replaceAll(',', '\u202f')
