// The queries of the Grafana dashboard and of the alert rules.

import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const path = (name: string): string =>
  fileURLToPath(new URL(`../../packages/metrics/${name}`, import.meta.url))

export const RULES_FILE: string = path('prometheus/alerts.yml')

export interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly description?: string
  readonly gridPos: {
    readonly x: number
    readonly y: number
    readonly w: number
    readonly h: number
  }
  readonly targets?: readonly {
    readonly expr: string
    readonly datasource: { readonly uid: string }
  }[]
}

interface Variable {
  readonly name: string
  readonly type: string
}

export interface Dashboard {
  readonly panels: readonly Panel[]
  readonly templating: { readonly list: readonly Variable[] }
}

export const dashboard: Dashboard = JSON.parse(readFileSync(path('grafana/stampede.json'), 'utf8'))

export interface Alert {
  readonly name: string
  readonly expr: string
  readonly runbook: string
}

/** The alert rules, in the layout in which the file has them. */
export const alerts: readonly Alert[] = readFileSync(RULES_FILE, 'utf8')
  .split(/^ +- alert: /m)
  .slice(1)
  .map((text) => ({
    name: /^\w+/.exec(text)?.[0] ?? '',
    expr: /^ +expr: (?:\|\n)?([\s\S]*?)^ +(?:for|labels):/m.exec(text)?.[1] ?? '',
    runbook: /^ +runbook_url: (.+)$/m.exec(text)?.[1] ?? '',
  }))

/** The queries of all panels, for all values of the variables. */
export const panelQueries: readonly { readonly panel: string; readonly expr: string }[] =
  dashboard.panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }) => ({
      panel: title,
      expr: expr
        .replace(/\$__(?:rate_interval|range)/g, '30s')
        .replace(/"\$(?:job|instance|stampede|route)"/g, '".*"'),
    })),
  )

/** Names of the metrics in a query. */
export const metricsIn = (expr: string): string[] => expr.match(/\bstampede_\w+/g) ?? []
