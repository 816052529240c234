// The page's files, read from disk once at start and answered from memory. There is no other way to a
// file: what is not in the list does not exist, so no path can climb out of the folder.

import { readFile } from 'node:fs/promises'
import { type Answer, etagOf } from './answer.ts'

// Beside src and dist alike; tsc does not copy what it does not compile.
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
  'base.css',
  'controls.css',
  'shelf.css',
  'lab.css',
  'double-click.css',
  'inspector.css',
  'log.css',
  'main.js',
  'api.js',
  'format.js',
  'shelf.js',
  'cup.js',
  'stampede.js',
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

// The page is not cached by Stampede: it costs the database nothing. Without `unsafe-inline`, styles set
// from script go through the CSSOM only.
const HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-cache',
}

/** The page's files by path: `/`, `/main.js`, ... */
export type Pages = ReadonlyMap<string, Answer>

export async function readPages(): Promise<Pages> {
  const pages = await Promise.all(
    FILES.map(async (name): Promise<[string, Answer]> => {
      const body = await readFile(new URL(name, FOLDER))
      const type = TYPES[name.slice(name.lastIndexOf('.') + 1)] ?? 'application/octet-stream'
      const headers = { 'content-type': type, etag: etagOf(body), ...HEADERS }
      return [name === 'index.html' ? '/' : `/${name}`, { status: 200, headers, body }]
    }),
  )
  return new Map(pages)
}
