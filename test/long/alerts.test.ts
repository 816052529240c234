// The alert rules in promtool: each alert fires for its own fault, and only then.

import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { findProgram, HOW_TO_INSTALL } from '../metrics/prometheus.ts'
import { alerts, RULES_FILE } from '../metrics/queries.ts'

const promtool = findProgram('promtool')

/** An app without faults: one sample a minute. `0+60x90`: rises by 60 each minute. */
const HEALTHY: Readonly<Record<string, string>> = {
  store_available: '1x90',
  store_failures_total: '0x90',
  store_confirmed_age_seconds: '1x90',
  store_gaps_total: '0x90',
  fills_started_total: '0+60x90',
  'fills_total{outcome="committed"}': '0+60x90',
  'fills_total{outcome="failed"}': '0x90',
  'fills_total{outcome="fenced"}': '0x90',
  'stale_served_total{reason="if-error"}': '0x90',
  wait_timeouts_total: '0x90',
  unleased_queued: '0x90',
  'requests_total{outcome="hit"}': '0+600x90',
  'requests_total{outcome="stale"}': '0+60x90',
  'requests_total{outcome="miss"}': '0+60x90',
  'idempotency_requests_total{outcome="unavailable"}': '0x90',
  'idempotency_requests_total{outcome="unprotected"}': '0x90',
  'idempotency_requests_total{outcome="uncertain"}': '0x90',
  idempotency_unstored: '0x90',
  'lock_leases_ended_total{outcome="released"}': '0+60x90',
  'lock_leases_ended_total{outcome="lost"}': '0x90',
  'lock_calls_total{outcome="acquired"}': '0+60x90',
  'lock_calls_total{outcome="timed-out"}': '0x90',
  'lock_calls_total{outcome="unavailable"}': '0x90',
}

const FAULTS: readonly (readonly [alert: string, faulty: Readonly<Record<string, string>>])[] = [
  ['StampedeStoreUnavailable', { store_available: '0x90' }],
  ['StampedeStoreFailing', { store_failures_total: '0+60x90' }],
  ['StampedePurgesUnconfirmed', { store_confirmed_age_seconds: '9x90' }],
  ['StampedePurgeGaps', { store_gaps_total: '0+1x90' }],
  ['StampedeFillsFailing', { 'fills_total{outcome="failed"}': '0+12x90' }],
  ['StampedeServingStaleOnError', { 'stale_served_total{reason="if-error"}': '0+6x90' }],
  ['StampedeCommitsRefused', { 'fills_total{outcome="fenced"}': '0+6x90' }],
  ['StampedeWaitsTimingOut', { wait_timeouts_total: '0+6x90' }],
  ['StampedeOriginQueue', { unleased_queued: '5x90' }],
  [
    'StampedeHitRatioLow',
    { 'requests_total{outcome="hit"}': '0x90', 'requests_total{outcome="miss"}': '0+600x90' },
  ],
  [
    'StampedeIdempotencyUnavailable',
    { 'idempotency_requests_total{outcome="unavailable"}': '0+1x90' },
  ],
  [
    'StampedeIdempotencyUnprotected',
    { 'idempotency_requests_total{outcome="unprotected"}': '0+1x90' },
  ],
  ['StampedeIdempotencyUncertain', { 'idempotency_requests_total{outcome="uncertain"}': '0+1x90' }],
  ['StampedeIdempotencyUnstored', { idempotency_unstored: '1x90' }],
  ['StampedeLocksLost', { 'lock_leases_ended_total{outcome="lost"}': '0+1x90' }],
  ['StampedeLockWaitsTimingOut', { 'lock_calls_total{outcome="timed-out"}': '0+12x90' }],
  ['StampedeLocksUnavailable', { 'lock_calls_total{outcome="unavailable"}': '0+1x90' }],
]

/** One test of promtool: after 80 minutes, exactly these alerts fire. */
function testOf(values: Readonly<Record<string, string>>, firing: readonly string[]) {
  const own = 'instance="shop:9464",job="shop",stampede="default"'
  const series = (name: string) =>
    name.includes('{') ? `stampede_${name.slice(0, -1)},${own}}` : `stampede_${name}{${own}}`
  return {
    interval: '1m',
    input_series: Object.entries(values).map(([name, value]) => ({
      series: series(name),
      values: value,
    })),
    promql_expr_test: [
      {
        expr: 'count by (alertname) (ALERTS{alertstate="firing"})',
        eval_time: '80m',
        exp_samples: firing.map((name) => ({ labels: `{alertname="${name}"}`, value: 1 })),
      },
    ],
  }
}

function runTool(...args: string[]): string {
  try {
    return execFileSync(promtool ?? '', args, { encoding: 'utf8', stdio: 'pipe' })
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string }
    return `${stdout}${stderr}`
  }
}

describe.skipIf(promtool === undefined)(`promtool${promtool ? '' : HOW_TO_INSTALL}`, () => {
  it('accepts the rules', () => {
    expect(runTool('check', 'rules', RULES_FILE)).toMatch(`SUCCESS: ${alerts.length} rules found`)
  })

  it('fires each alert for its own fault, and none for a healthy app', () => {
    expect(FAULTS.map(([name]) => name)).toEqual(alerts.map(({ name }) => name))
    const folder = mkdtempSync(join(tmpdir(), 'stampede-promtool-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const file = join(folder, 'tests.yml')
    const tests = [
      testOf(HEALTHY, []),
      ...FAULTS.map(([name, faulty]) => testOf({ ...HEALTHY, ...faulty }, [name])),
    ]
    // JSON is YAML.
    writeFileSync(
      file,
      JSON.stringify({ rule_files: [RULES_FILE], evaluation_interval: '1m', tests }),
    )
    expect(runTool('test', 'rules', file)).toMatch(/^\s*Unit Testing: .*\n\s*SUCCESS\s*$/)
  })
})
