// Limits of what each package adds to a bundled server. About a tenth above today's figures.
// Minified, compressed by Brotli, with all imports except frameworks and clients.

const LIMITS = {
  core: 50,
  dashboard: 20.4,
  express: 80,
  fastify: 80,
  hono: 81,
  koa: 82,
  locks: 10.5,
  metrics: 5,
  nest: 80,
  operate: 8,
  otel: 3.3,
  postgres: 14.5,
  redis: 36,
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
const FRONTS = { stampedeFront: 75.5, idempotentFront: 58.2 }

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
