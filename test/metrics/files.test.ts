// The dashboard, the alert rules and their pages, without a Prometheus.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { BUCKETS, HISTOGRAMS } from '../../packages/metrics/src/histograms.ts'
import { METRICS } from '../../packages/metrics/src/metric-table.ts'
import { alerts, dashboard, metricsIn, panelQueries } from './queries.ts'

const read = (path: string): string =>
  readFileSync(fileURLToPath(new URL(`../../${path}`, import.meta.url)), 'utf8')

const histograms = Object.values(HISTOGRAMS)
const known = new Set([
  ...Object.keys(METRICS),
  ...histograms.flatMap(({ name }) => ['_bucket', '_sum', '_count'].map((end) => name + end)),
])

it('the dashboard of Grafana has the share of requests saved from the origin', () => {
  const { targets = [] } = dashboard.panels.find(({ title }) => /Saved/.test(title)) ?? {}
  const [expr = ''] = targets.map((target) => target.expr.replace(/\{[^}]*\}/g, ''))
  expect(expr).toBe(
    'clamp_min(1 - sum(rate(stampede_route_origin_runs_total[$__rate_interval])) / ' +
      'sum(rate(stampede_requests_total[$__rate_interval])), 0)',
  )
})

describe('docs/guide/metrics.md', () => {
  const page = read('docs/guide/metrics.md')

  it('has a row for each metric, with its type, labels and help', () => {
    const rows = [...page.matchAll(/^\| `(\w+)` \| (\w+) \| (.*?) ?\| (.+) \|$/gm)].map(
      ([, name, type, labels, help]) => ({ name, type, labels, help }),
    )
    const shown = (labels: readonly string[]) => labels.map((label) => `\`${label}\``).join(' ')
    expect(rows).toEqual([
      ...Object.entries(METRICS).map(([name, { type, labels, help }]) => ({
        name,
        type,
        labels: shown(labels),
        help,
      })),
      ...histograms.map(({ name, label, help }) => ({
        name,
        type: 'histogram',
        labels: shown([label]),
        help,
      })),
    ])
  })

  it('has the buckets of the histograms', () => {
    expect(page).toContain(BUCKETS.join(', '))
  })
})

describe('the dashboard', () => {
  it('uses only metrics that exist, and all but one', () => {
    const used = new Set(panelQueries.flatMap(({ expr }) => metricsIn(expr)))
    const names = [...used].map((name) => name.replace(/^stampede_/, ''))
    expect(names.filter((name) => !known.has(name))).toEqual([])
    const unused = Object.keys(METRICS).filter((name) => !names.includes(name))
    expect(unused).toEqual(['store_info'])
  })

  it('has a data source variable, which each panel uses', () => {
    const { list } = dashboard.templating
    expect(list.map(({ name }) => name)).toEqual([
      'datasource',
      'job',
      'instance',
      'stampede',
      'route',
    ])
    for (const { targets = [] } of dashboard.panels)
      for (const { datasource } of targets)
        expect(datasource.uid).toBe(['$', '{datasource}'].join(''))
  })

  it('has panels with different ids that do not overlap', () => {
    const { panels } = dashboard
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, i) => `${x + (i % w)} ${y + Math.floor(i / w)}`),
    )
    expect(new Set(cells).size).toBe(cells.length)
    for (const { gridPos } of panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24)
  })
})

describe('the alerts', () => {
  const page = read('docs/guide/alerts.md')
  const sections = page.split(/^## /m).slice(1)

  it('use only metrics that exist', () => {
    expect(alerts.length).toBeGreaterThan(10)
    for (const { name, expr } of alerts) {
      const metrics = metricsIn(expr)
      expect(metrics.length, name).toBeGreaterThan(0)
      for (const metric of metrics) expect([...known], name).toContain(metric.slice(9))
    }
  })

  it('have a section each, which their runbook_url links to', () => {
    const titles = sections.map((text) => text.split('\n', 1)[0])
    expect(titles).toEqual([...alerts.map(({ name }) => name), 'Change the rules'])
    for (const { name, runbook } of alerts)
      expect(runbook).toBe(`docs/guide/alerts.md#${name.toLowerCase()}`)
  })

  it('have sections that say what it means, what to look at and what to do', () => {
    for (const section of sections.slice(0, alerts.length)) {
      const parts = [...section.matchAll(/^- \*\*(.+?)\*\*: /gm)].map(([, part]) => part)
      expect(parts, section).toEqual(['Meaning', 'Look at', 'Do'])
    }
  })
})
