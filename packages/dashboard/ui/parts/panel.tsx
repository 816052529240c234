// A part of a page with its heading, and the tables in it.

import type { ComponentChildren } from 'preact'

interface PanelProps {
  readonly title: string
  readonly note?: string | undefined
  readonly class?: string
  readonly children: ComponentChildren
}

let panels = 0
const ids = new Map<string, string>()

/** An id for the heading of a panel. Titles are unique within a page. */
function idOf(title: string): string {
  const id = ids.get(title) ?? `panel-${panels++}`
  ids.set(title, id)
  return id
}

export function Panel({ title, note, class: name = '', children }: PanelProps) {
  const id = idOf(title)
  return (
    <section class={`panel ${name}`} aria-labelledby={id}>
      <header class="panel-head">
        <h2 id={id}>{title}</h2>
        {note && <p>{note}</p>}
      </header>
      {children}
    </section>
  )
}

export interface Column<Row> {
  readonly title: string
  readonly isNumber?: boolean
  /** Hidden where there is little room. */
  readonly isExtra?: boolean
  readonly cell: (row: Row) => ComponentChildren
}

interface TableProps<Row> {
  readonly caption: string
  readonly rows: readonly Row[]
  readonly columns: readonly Column<Row>[]
  readonly rowKey: (row: Row) => string
  readonly rowClass?: (row: Row) => string
  readonly empty: string
  readonly class?: string
}

/** The first column names the row. */
export function Table<Row>(props: TableProps<Row>) {
  const { caption, rows, columns, rowKey, rowClass, empty, class: name } = props
  if (rows.length === 0) return <p class="empty">{empty}</p>
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: a table that scrolls has to take the focus.
    <section class="scroll" tabIndex={0} aria-label={caption}>
      <table class={name}>
        <caption class="hidden">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => (
              <th key={column.title} scope="col" class={classOf(column)}>
                {column.title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={rowKey(row)} class={rowClass?.(row)}>
              {columns.map((column, at) =>
                at === 0 ? (
                  <th key={column.title} scope="row" class={classOf(column)}>
                    {column.cell(row)}
                  </th>
                ) : (
                  <td key={column.title} class={classOf(column)}>
                    {column.cell(row)}
                  </td>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  )
}

const classOf = ({ isNumber, isExtra }: Column<never>): string =>
  [isNumber ? 'number' : '', isExtra ? 'extra' : ''].join(' ').trim()
