// Parts of a page in Markdown, and pages from their templates in `pages`.
import { readFileSync } from 'node:fs'

/** The first column is text, the others are figures. */
export function table(
  head: readonly string[],
  rows: ReadonlyArray<readonly string[]>,
  align: readonly string[] = head.map((_, column) => (column === 0 ? '---' : '--:')),
): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  return [line(head), `|${align.join('|')}|`, ...rows.map(line)].join('\n')
}

/** An item of a list, in lines of at most 120 columns. */
export function listItem(text: string): string {
  const [first = '', ...words] = `- ${text}`.split(' ')
  const lines = [first]
  for (const word of words) {
    const longer = `${lines.at(-1)} ${word}`
    if (longer.length <= 120) lines[lines.length - 1] = longer
    else lines.push(`  ${word}`)
  }
  return lines.join('\n')
}

export const list = (texts: readonly string[], empty: string): string =>
  (texts.length > 0 ? texts : [empty]).map(listItem).join('\n')

/** Rounded, with a narrow space before each three digits: 1 234 567. */
export const whole = (value: number): string =>
  Math.round(value).toLocaleString('en-US').replaceAll(',', '\u202f')

/**
 * Fills the template of a page. `{{name}}` is a value, and `{{#name}} … {{/name}}` is left out if
 * there is no such value. `{{versions:a b}}` names installed packages.
 */
export function fillPage(page: string, values: Readonly<Record<string, string>>): string {
  const file = new URL(`../../pages/${page}.txt`, import.meta.url)
  return readFileSync(file, 'utf8')
    .replace(/\{\{#(\S+)\}\}\n([\s\S]*?)\{\{\/\1\}\}\n/g, (_all, name: string, part: string) =>
      values[name] === undefined ? '' : part,
    )
    .replace(/\{\{versions:(.+?)\}\}/g, (_all, names: string) =>
      names.split(' ').map(installed).join(', '),
    )
    .replace(/\{\{(\S+?)\}\}/g, (_all, name: string) => {
      if (values[name] === undefined) throw new Error(`bench: no value for {{${name}}} of ${page}`)
      return values[name]
    })
    .replace(/^- (.{119,})$/gm, (_all, text: string) => listItem(text))
    .replace(/\n{3,}/g, '\n\n')
    .replace(/\n+$/, '\n')
}

/** Returns `name version`. For an alias (`redis4`), the name of the package behind it. */
export function installed(name: string): string {
  const path = new URL(`../../node_modules/${name}/package.json`, import.meta.url)
  const found = JSON.parse(readFileSync(path, 'utf8')) as { name: string; version: string }
  return `${found.name} ${found.version}`
}
