// Bar and line plots as SVG, narrow enough for a phone, in colours for light and dark pages.

const WIDTH = 480
const STYLE = `<style>
text { font: 13px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 15px }
.quiet { fill: #59636e }
.ours { fill: #0969da; stroke: #0969da } .peer { fill: #848d97; stroke: #848d97 } .floor { fill: #c4cad1; stroke: #c4cad1 }
.line { fill: none; stroke-width: 2.5 } .axis { stroke: #d1d9e0 }
text.ours, text.peer { stroke: none }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .quiet { fill: #9198a1 }
  .ours { fill: #58a6ff; stroke: #58a6ff } .peer { fill: #848d97; stroke: #848d97 } .floor { fill: #4a525b; stroke: #4a525b }
  .axis { stroke: #3d444d } text.ours { fill: #58a6ff } text.peer { fill: #9198a1 }
}
</style>`

export type Tone = 'ours' | 'peer' | 'floor'

export interface Bar {
  readonly label: string
  readonly value: number
  /** The value as text. */
  readonly text: string
  readonly tone: Tone
}

export interface Panel {
  readonly title: string
  readonly bars: readonly Bar[]
}

const BAR_HEIGHT = 34
const TITLE_HEIGHT = 34

/** Bars with their labels, in panels. Each panel has its own scale, or all share one. */
export function barPanels(title: string, panels: readonly Panel[], isOneScale: boolean): string {
  const parts: string[] = [text(0, 16, title, 'title')]
  const highest = (bars: readonly Bar[]) => Math.max(...bars.map(({ value }) => value), 1e-9)
  const common = highest(panels.flatMap(({ bars }) => bars))
  let y = 24
  for (const { title: heading, bars } of panels) {
    parts.push(text(0, y + 20, heading, 'quiet'))
    y += TITLE_HEIGHT
    const scale = WIDTH / (isOneScale ? common : highest(bars))
    for (const { label, value, text: shown, tone } of bars) {
      parts.push(text(0, y + 10, label), text(WIDTH, y + 10, shown, 'quiet', 'end'))
      const width = Math.max(1, value * scale).toFixed(1)
      parts.push(
        `<rect class="${tone}" x="0" y="${y + 15}" width="${width}" height="8" rx="2" stroke="none"/>`,
      )
      y += BAR_HEIGHT
    }
  }
  return svg(title, y, parts)
}

export interface Line {
  readonly label: string
  readonly tone: Tone
  readonly points: ReadonlyArray<readonly [x: number, y: number]>
}

const PLOT = { left: 56, top: 66, right: WIDTH - 12, bottom: 300 }

/** Lines over two logarithmic axes. */
export function logLines(
  title: string,
  axes: { x: string; y: string },
  lines: readonly Line[],
): string {
  const points = lines.flatMap((line) => line.points)
  const x = logScale([...new Set(points.map((point) => point[0]))], PLOT.left, PLOT.right)
  const y = logScale(decades(points.map((point) => point[1])), PLOT.bottom, PLOT.top)
  const parts = [text(0, 16, title, 'title'), text(0, PLOT.top - 12, axes.y, 'quiet')]
  for (const { value, at } of x.ticks)
    parts.push(text(at, PLOT.bottom + 18, short(value), 'quiet', 'middle'))
  for (const { value, at } of y.ticks) {
    parts.push(`<line class="axis" x1="${PLOT.left}" x2="${PLOT.right}" y1="${at}" y2="${at}"/>`)
    parts.push(text(PLOT.left - 6, at + 4, short(value), 'quiet', 'end'))
  }
  parts.push(text(PLOT.right, PLOT.bottom + 38, axes.x, 'quiet', 'end'))
  lines.forEach(({ label, tone, points: own }, index) => {
    const path = own.map(([px, py]) => `${x.at(px)},${y.at(py)}`).join(' ')
    parts.push(`<polyline class="line ${tone}" style="fill:none" points="${path}"/>`)
    for (const [px, py] of own)
      parts.push(`<circle class="${tone}" cx="${x.at(px)}" cy="${y.at(py)}" r="3.5"/>`)
    parts.push(text(index * 170, 36, `● ${label}`, tone))
  })
  return svg(title, PLOT.bottom + 46, parts)
}

function logScale(ticks: readonly number[], from: number, to: number) {
  const [low, high] = [Math.log10(Math.min(...ticks)), Math.log10(Math.max(...ticks))]
  const at = (value: number): number =>
    Number((from + ((Math.log10(value) - low) / (high - low || 1)) * (to - from)).toFixed(1))
  return { at, ticks: ticks.map((value) => ({ value, at: at(value) })) }
}

/** The powers of ten that enclose `values`. */
function decades(values: readonly number[]): number[] {
  const low = Math.floor(Math.log10(Math.min(...values)) + 1e-9)
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(...values)) - 1e-9))
  return Array.from({ length: high - low + 1 }, (_, step) => 10 ** (low + step))
}

/** 10 000 as 10k. */
const short = (value: number): string =>
  value >= 1e6
    ? `${value / 1e6}M`
    : value >= 1e3
      ? `${value / 1e3}k`
      : String(Number(value.toPrecision(2)))

const text = (x: number, y: number, words: string, style = '', anchor = 'start'): string =>
  `<text x="${x}" y="${y}" class="${style}" text-anchor="${anchor}">${escaped(words)}</text>`

const escaped = (words: string): string =>
  words.replaceAll('`', '').replaceAll('&', '&amp;').replaceAll('<', '&lt;')

/** The title is also the text that a screen reader reads. */
const svg = (title: string, height: number, parts: readonly string[]): string =>
  `<svg xmlns="http://www.w3.org/2000/svg" role="img" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}">\n<title>${escaped(title)}</title>\n${STYLE}\n${parts.join('\n')}\n</svg>\n`
