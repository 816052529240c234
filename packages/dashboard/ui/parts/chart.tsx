// A chart over time with its legend, and the same figures as a table.

import { useEffect, useRef, useState } from 'preact/hooks'
import uPlot from 'uplot'
import { count, rate, time } from '../format.ts'

export interface ChartSeries {
  readonly name: string
  /** Name of the CSS colour. */
  readonly colour: string
  /** A value for each bucket, per second. */
  readonly values: readonly number[]
}

interface ChartProps {
  readonly title: string
  /** Wall-clock end of each bucket, in seconds. */
  readonly times: readonly number[]
  readonly series: readonly ChartSeries[]
  /** Whether the areas stand on each other. */
  readonly isStacked?: boolean
  readonly theme: string
}

const HEIGHT = 176
/** Length of the time axis. The history of a new process is shorter. */
const WINDOW_S = 600

export function Chart(props: ChartProps) {
  const { title, times, series, isStacked = false, theme } = props
  const holder = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot>(null)
  const [hovered, setHovered] = useState<number>()
  const names = series.map((each) => each.name).join()

  useEffect(() => {
    if (holder.current === null) return
    const options = optionsOf(series, isStacked, holder.current, setHovered)
    const created = new uPlot(options, dataOf(props), holder.current)
    plot.current = created
    const observer = new ResizeObserver(([entry]) => {
      if (entry) created.setSize({ width: entry.contentRect.width, height: HEIGHT })
    })
    observer.observe(holder.current)
    return () => {
      observer.disconnect()
      created.destroy()
    }
  }, [names, isStacked, theme])

  useEffect(() => plot.current?.setData(dataOf(props)))

  const at = hovered ?? times.length - 1
  return (
    <figure class="chart">
      <figcaption>
        <span class="chart-title">{title}</span>
        <span class="chart-time">
          {times[at] === undefined ? '' : time((times[at] ?? 0) * 1_000)}
        </span>
        <ul class="legend">
          {series.map(({ name, colour, values }) => (
            <li key={name} data-colour={colour}>
              {name} <b>{rate(values[at] ?? 0)}</b>/s
            </li>
          ))}
        </ul>
      </figcaption>
      <div ref={holder} class="plot" aria-hidden="true" />
      <ChartTable {...props} />
    </figure>
  )
}

/** Shows the last buckets, newest first. */
function ChartTable({ title, times, series }: ChartProps) {
  const [isOpen, setOpen] = useState(false)
  const rows = times.map((_, at) => at).slice(-24)
  return (
    <details class="figures" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Figures of “{title}”</summary>
      {isOpen && (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a table that scrolls has to take focus.
        <section class="scroll" tabIndex={0} aria-label={`${title}: figures`}>
          <table>
            <caption class="hidden">{title}, per second</caption>
            <thead>
              <tr>
                <th scope="col">Until</th>
                {series.map(({ name }) => (
                  <th key={name} scope="col" class="number">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows.reverse().map((at) => (
                <tr key={times[at]}>
                  <th scope="row">{time((times[at] ?? 0) * 1_000)}</th>
                  {series.map(({ name, values }) => (
                    <td key={name} class="number">
                      {rate(values[at] ?? 0)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </section>
      )}
    </details>
  )
}

/** uPlot draws stacked areas from the top one down, each down to the axis. */
function dataOf({ times, series, isStacked }: ChartProps): uPlot.AlignedData {
  const sums = times.map(() => 0)
  const values = series.map((each) =>
    isStacked
      ? each.values.map((value, at) => {
          sums[at] = (sums[at] ?? 0) + value
          return sums[at]
        })
      : [...each.values],
  )
  return [[...times], ...values.reverse()] as uPlot.AlignedData
}

const scaleText = (value: number): string => (Number.isInteger(value) ? count(value) : rate(value))

function optionsOf(
  series: readonly ChartSeries[],
  isStacked: boolean,
  holder: HTMLElement,
  setHovered: (at: number | undefined) => void,
): uPlot.Options {
  const style = getComputedStyle(holder)
  // A canvas gets the colour that the palette means now. The holder has no caret.
  const colour = (name: string): string => {
    holder.style.caretColor = `var(--${name})`
    return style.caretColor
  }
  const axis = {
    stroke: colour('soft'),
    font: `11px ${style.fontFamily}`,
    grid: { stroke: colour('line'), width: 1 },
    ticks: { show: false },
  }
  const lines = series.map(({ name, colour: own }) => ({
    label: name,
    stroke: colour(own),
    fill: isStacked ? colour(`${own}-area`) : undefined,
    width: 1.5,
    points: { show: false },
  }))
  // Each area ends at the line below it. The first series is the x axis.
  const bands = lines.slice(1).map((_, at): uPlot.Band => ({ series: [at + 1, at + 2] }))
  return {
    width: holder.clientWidth,
    height: HEIGHT,
    padding: [8, 20, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: !isStacked, size: 6 } },
    ...(isStacked && { bands }),
    scales: {
      x: { range: (_, _min, max) => [max - WINDOW_S, max] },
      y: { range: (_, _min, max) => [0, Math.max(1, max * 1.1)] },
    },
    axes: [
      {
        ...axis,
        size: 24,
        values: (_, splits) => splits.map((at) => time(at * 1_000).slice(0, 5)),
      },
      { ...axis, size: 44, values: (_, splits) => splits.map(scaleText) },
    ],
    series: [{}, ...lines.reverse()] as uPlot.Series[],
    hooks: { setCursor: [({ cursor }) => setHovered(cursor.idx ?? undefined)] },
  }
}
