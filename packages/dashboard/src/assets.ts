// The files of the page, built by ui/build.mjs and kept in memory after their first use.

import { readdirSync, readFileSync } from 'node:fs'

/** The same folder from src/ and from dist/. */
const FOLDER = new URL('../dist/ui/', import.meta.url)

const TYPES: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
}

export interface Asset {
  readonly type: string
  readonly body: Uint8Array
  /** Whether its name has a hash of its content. */
  readonly isImmutable: boolean
}

let assets: ReadonlyMap<string, Asset> | undefined

/** `name`: path below the dashboard, such as `index.html`. */
export function assetAt(name: string): Asset | undefined {
  assets ??= new Map(readdirSync(FOLDER).map((file) => [file, readAsset(file)]))
  return assets.get(name)
}

function readAsset(file: string): Asset {
  const [, extension = ''] = /\.(\w+)$/.exec(file) ?? []
  return {
    type: TYPES[extension] ?? 'application/octet-stream',
    body: readFileSync(new URL(file, FOLDER)),
    isImmutable: /-[\w-]{8}\.(?:js|css)$/.test(file),
  }
}
