// Writes the pages of docs/start from one text, with a program for each framework.
//
// `node tools/start-pages.mjs` writes them. A test checks that they are up to date.
// @ts-check
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const TARBALLS = '../stampede/tarballs/stampede'
/** The slow handler, and the option that clears the list after a POST. */
const WAIT = 'await new Promise((resolve) => setTimeout(resolve, 500)) // slow'
const CLEAR = "invalidateOn: 'all', // a POST clears the list"
const SCOPE = '// The owner of the keys. In your app: the id of the user.'
const PRODUCTS = "const products = [{ id: 7, name: 'Sencha' }]"
const OPTIONS = `{
  stampede,
  ttlMs: 10_000,
  ${CLEAR}
}`

/**
 * @typedef {object} Start
 * @property {string} name of the framework
 * @property {string} needs versions, after "Node 20.19 or newer"
 * @property {string} install all lines that install packages
 * @property {string} program
 * @property {string} [note] after the program
 * @property {string} [save] how to save and start the program
 * @property {string} [language] of the blocks of code
 * @property {string} [next] more links at the end
 * @property {string} [mount] where to mount the cache in an existing app
 */

/** @param {string} packages @param {string} name of our package */
const installed = (packages, name) =>
  `npm install ${TARBALLS}-core-0.1.0.tgz ${TARBALLS}-node-http-0.1.0.tgz
npm install ${packages}${TARBALLS}-${name}-0.1.0.tgz`

/** @type {Record<string, Start>} */
const STARTS = {
  express: {
    name: 'Express',
    needs: ' and Express 5 or 4 (from 4.17)',
    install: installed('express ', 'express'),
    program: `import { createStampede } from '@stampede/core'
import { idempotency, stampedeCache } from '@stampede/express'
import express from 'express'

const stampede = createStampede()
const app = express()
${PRODUCTS}

app.use(stampedeCache(${OPTIONS}))
app.get('/products', async (req, res) => {
  console.log('handler: GET', req.url)
  ${WAIT}
  res.json(products)
})

${SCOPE}
const once = idempotency({ stampede, scope: (req) => String(req.ip) })
app.post('/products', express.json(), once, (req, res) => {
  console.log('handler: POST', req.url)
  const product = { id: 8 + products.length, name: req.body.name }
  products.push(product)
  res.status(201).json(product)
})

app.listen(Number(process.env.PORT ?? 3000))`,
    note: `
<a id="express-4"></a>

Express 4 does not catch the error of an async handler, with or without a cache: Node then ends the process. There,
write \`try { … } catch (error) { next(error) }\` in the handler.
`,
  },
  koa: {
    name: 'Koa',
    needs: ' and Koa 3 or 2 (from 2.13)',
    install: installed('koa @koa/router ', 'koa'),
    program: `import { json } from 'node:stream/consumers'
import Router from '@koa/router'
import { createStampede } from '@stampede/core'
import { idempotency, stampedeCache } from '@stampede/koa'
import Koa from 'koa'

const stampede = createStampede()
const app = new Koa()
const router = new Router()
${PRODUCTS}

app.use(stampedeCache(${OPTIONS}))
router.get('/products', async (ctx) => {
  console.log('handler: GET', ctx.url)
  ${WAIT}
  ctx.body = products
})

${SCOPE}
const once = idempotency({ stampede, scope: (ctx) => ctx.ip })
router.post('/products', once, async (ctx) => {
  console.log('handler: POST', ctx.url)
  const { name } = Object(await json(ctx.req)) // or a body parser
  const product = { id: 8 + products.length, name }
  products.push(product)
  ctx.status = 201
  ctx.body = product
})

app.use(router.routes())
app.listen(Number(process.env.PORT ?? 3000))`,
  },
  fastify: {
    name: 'Fastify',
    needs: ' and Fastify 5',
    install: installed('fastify ', 'fastify'),
    program: `import { createStampede } from '@stampede/core'
import { idempotency, stampedeCache } from '@stampede/fastify'
import fastify from 'fastify'

const stampede = createStampede()
const app = fastify()
${PRODUCTS}

app.register(stampedeCache(${OPTIONS}))
app.get('/products', async (request) => {
  console.log('handler: GET', request.url)
  ${WAIT}
  return products
})

${SCOPE}
const once = idempotency({ stampede, scope: (request) => request.ip })
app.post('/products', { preHandler: once }, async (request, reply) => {
  console.log('handler: POST', request.url)
  const { name } = Object(request.body)
  const product = { id: 8 + products.length, name }
  products.push(product)
  return reply.code(201).send(product)
})

await app.listen({ port: Number(process.env.PORT ?? 3000) })`,
    next: '- [Mount the cache on some routes, order hooks](../guide/fastify.md)\n',
  },
  hono: {
    name: 'Hono',
    needs: ' and Hono 4 on `@hono/node-server`',
    install: installed('hono @hono/node-server ', 'hono'),
    program: `import { serve } from '@hono/node-server'
import { getConnInfo } from '@hono/node-server/conninfo'
import { createStampede } from '@stampede/core'
import { idempotency, stampedeCache } from '@stampede/hono'
import { Hono } from 'hono'

const stampede = createStampede()
const app = new Hono()
${PRODUCTS}

app.use(stampedeCache(${OPTIONS}))
app.get('/products', async (c) => {
  console.log('handler: GET', c.req.path)
  ${WAIT}
  return c.json(products)
})

const once = idempotency({
  stampede,
  ${SCOPE}
  scope: (c) => getConnInfo(c).remote.address ?? '',
})
app.post('/products', once, async (c) => {
  console.log('handler: POST', c.req.path)
  const { name } = await c.req.json()
  const product = { id: 8 + products.length, name }
  products.push(product)
  return c.json(product, 201)
})

serve({ fetch: app.fetch, port: Number(process.env.PORT ?? 3000) })`,
    next: '- [Mount the cache on some routes, order middlewares](../guide/hono.md)\n',
  },
  nest: {
    name: 'Nest',
    needs: ', and Nest 10, 11 or 12',
    install: `npm install @nestjs/common @nestjs/core @nestjs/platform-express reflect-metadata rxjs
npm install --save-dev typescript @types/node @types/express
${installed('', 'nest')}`,
    save: `Save this as \`src/main.ts\`, compile it, and start it with \`node dist/main.js\`.

\`\`\`sh
npx tsc --target es2022 --module nodenext --skipLibCheck --outDir dist \\
  --experimentalDecorators --emitDecoratorMetadata src/main.ts
\`\`\``,
    language: 'typescript',
    mount: '',
    program: `import type { Request } from 'express'
import { Body, Controller, Get, Module, Post } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { createStampede } from '@stampede/core'
import { Idempotent, StampedeCache, StampedeModule } from '@stampede/nest'

const stampede = createStampede()
${PRODUCTS}

@Controller('products')
@StampedeCache(${OPTIONS.replace('  stampede,\n', '')})
class ProductsController {
  @Get()
  async list() {
    ${WAIT}
    return products
  }

  @Post()
  @Idempotent<Request>({ scope: (request) => String(request.ip) })
  create(@Body() { name }: { name: string }) {
    const product = { id: 8 + products.length, name }
    products.push(product)
    return product
  }
}

@Module({
  imports: [StampedeModule.forRoot({ stampede })],
  controllers: [ProductsController],
})
class AppModule {}

const app = await NestFactory.create(AppModule)
await app.listen(Number(process.env.PORT ?? 3000))`,
  },
  'node-http': {
    name: 'node:http',
    needs: '',
    mount: '',
    install: `npm install ${TARBALLS}-core-0.1.0.tgz ${TARBALLS}-node-http-0.1.0.tgz`,
    program: `import { createServer } from 'node:http'
import { json } from 'node:stream/consumers'
import { createStampede } from '@stampede/core'
import { idempotentFront, stampedeFront } from '@stampede/node-http'

const stampede = createStampede()
${PRODUCTS}

const guarded = idempotentFront(async (req, res) => {
  res.setHeader('Content-Type', 'application/json')
  console.log('handler:', req.method, req.url)
  if (req.method === 'GET') {
    ${WAIT}
    res.end(JSON.stringify(products))
    return
  }
  const { name } = Object(await json(req))
  const product = { id: 8 + products.length, name }
  products.push(product)
  res.writeHead(201).end(JSON.stringify(product))
}, {
  stampede,
  ${SCOPE}
  scope: (req) => String(req.socket.remoteAddress),
})

const front = stampedeFront(guarded, ${OPTIONS})
createServer(front).listen(Number(process.env.PORT ?? 3000))`,
    next: '- [In front of any listener](../guide/front.md)\n',
  },
}

/** @param {string} page name of the file, without its extension */
export function startPage(page) {
  const {
    name = '',
    needs = '',
    install = '',
    program = '',
    note = '',
    save = 'Save this as `server.js`, and start it with `node server.js`:',
    language = 'ts',
    next = '',
    mount = ' Mount the cache behind sessions and logins, before the routes.',
  } = STARTS[page] ?? {}
  return `# Start with ${name}

From an empty folder to a cached list, and a POST that runs once for each key.
You need Node 20.19 or newer${needs}.

## Install

The packages are not on a registry yet. [Pack them](../../README.md#install) in \`../stampede\`.

\`\`\`sh
npm init -y
npm pkg set type=module
${install}
\`\`\`

In an existing app, leave out the first two lines.${mount}

## Write the server

${save}

\`\`\`${language}
${program}
\`\`\`
${note}
## Request the list

\`\`\`
$ curl -si localhost:3000/products | grep -i cache-status
cache-status: Stampede; fwd=uri-miss; fwd-status=200; stored
$ curl -si localhost:3000/products | grep -i cache-status
cache-status: Stampede; hit; ttl=8
\`\`\`

The second response is a hit. \`ttl\` is the rest of its lifetime in seconds. If 100 requests come at once, one runs the
handler, and the others wait.

## Repeat the POST

A client may send the POST again:

\`\`\`
$ for i in 1 2; do curl -s localhost:3000/products -H 'Idempotency-Key: 7d4b' \\
    -H 'Content-Type: application/json' -d '{"name":"Oolong"}'; done
{"id":9,"name":"Oolong"}{"id":9,"name":"Oolong"}
$ curl -s localhost:3000/products
[{"id":7,"name":"Sencha"},{"id":9,"name":"Oolong"}]
\`\`\`

The handler ran once, and \`invalidateOn\` cleared the list. The same key with another body gets 422.

## Add Redis

With Redis, all processes share one cache. Start \`redis-server\`, run
\`npm install ioredis ${TARBALLS}-redis-0.1.0.tgz\`, and replace the line \`const stampede\`:

\`\`\`${language}
import { redisStore } from '@stampede/redis'
import { Redis } from 'ioredis'

const url = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379'
const redis = new Redis(url, { lazyConnect: true })
const stampede = createStampede({ store: redisStore(redis) })
\`\`\`

Start two with \`PORT=3001\` and \`PORT=3002\`, and send \`-H 'Host: shop.test'\` to both: the host is in the key.
Without Redis, the list is still served, and the POST gets 503.

## Next steps

${next}- [Important defaults](../guide/caching.md#important-defaults), [why is nothing cached?](../guide/why-nothing-is-cached.md)
- [Clear pages](../guide/purging.md), [protect payments](../guide/idempotency.md), [users](../guide/users.md)
- [Production checklist](../guide/production.md)
`
}

export const START_PAGES = Object.keys(STARTS)

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const page of START_PAGES)
    writeFileSync(new URL(`../docs/start/${page}.md`, import.meta.url), startPage(page))
}
