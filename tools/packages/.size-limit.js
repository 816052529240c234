// Limits of what each package adds to a bundled server. About a tenth above today's figures.
// Minified, compressed by Brotli, with all imports except frameworks and clients.

const LIMITS = {
  core: 48.5,
  dashboard: 22.5,
  express: 82,
  fastify: 82,
  hono: 83.3,
  koa: 83.6,
  locks: 10,
  metrics: 5,
  nest: 82.3,
  operate: 7.5,
  otel: 3.3,
  postgres: 14,
  redis: 36.5,
}
const EXTERNAL = [
  'express',
  'koa',
  'fastify',
  'hono',
  '@nestjs/common',
  'rxjs',
  'ioredis',
  'pg',
  'prom-client',
  '@opentelemetry/api',
]

/** An app has one of the two fronts, or both, which share most of their code. */
const FRONTS = { stampedeFront: 77.3, idempotentFront: 60.6 }

const entries = [
  ...Object.entries(LIMITS).map(([name, kB]) => ({ name, kB })),
  ...Object.entries(FRONTS).map(([front, kB]) => ({ name: 'node-http', kB, front })),
]

export default entries.map(({ name, kB, front }) => ({
  name: `@stampede/${name}${front ? `, ${front}` : ''}`,
  ...(front && { import: `{ ${front} }` }),
  path: `../../packages/${name}/dist/index.js`,
  limit: `${kB} kB`,
  modifyEsbuildConfig: (config) => ({ ...config, platform: 'node', external: EXTERNAL }),
}))
