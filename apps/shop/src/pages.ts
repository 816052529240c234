// Files of the page, read from disk at the start and served from memory. Only listed files exist,
// so no request can name another one.

import { readFile } from 'node:fs/promises'
import { basename } from 'node:path'
import { etagOf, type ShopResponse } from './response.ts'

// The path is the same from src and from dist. tsc does not copy these files.
const FOLDER = new URL('../public/', import.meta.url)

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
}

const FILES: readonly string[] = [
  'index.html',
  'icon.svg',
  '../../../packages/dashboard/ui/styles/palette.css',
  'base.css',
  'controls.css',
  'shelf.css',
  'hero.css',
  'lab.css',
  'timeline.css',
  'double-click.css',
  'inspector.css',
  'log.css',
  'main.js',
  'api.js',
  'format.js',
  'shelf.js',
  'cup.js',
  'lab.js',
  'lane.js',
  'fleet.js',
  'timeline.js',
  'timeline-model.js',
  'story.js',
  'verdict.js',
  'double-click.js',
  'customer.js',
  'histogram.js',
  'herd.js',
  'inspector.js',
  'lifeline.js',
  'log.js',
  'readout.js',
  'price-change.js',
]

// Stampede does not cache the page, because the page needs no query. The policy has no
// `unsafe-inline`, so scripts set styles through the CSSOM only.
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-cache',
}

/** The page's files by path: `/`, `/main.js`, ... */
export type Pages = ReadonlyMap<string, ShopResponse>

export async function readPages(): Promise<Pages> {
  const pages = await Promise.all(
    FILES.map(async (name): Promise<[string, ShopResponse]> => {
      const body = await readFile(new URL(name, FOLDER))
      const type = TYPES[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream'
      const headers = { 'content-type': type, etag: etagOf(body), ...HEADERS }
      return [name === 'index.html' ? '/' : `/${basename(name)}`, { status: 200, headers, body }]
    }),
  )
  return new Map(pages)
}
