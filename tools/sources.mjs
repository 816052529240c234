// Finds the sources of the packages for Vite, so that tests run them without a build.
// @ts-check
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('../packages/', import.meta.url))
const scope = `^@stampede/(${readdirSync(folder).join('|')})`

export const sourceAliases = [
  { find: /^@stampede\/shop$/, replacement: `${folder}../apps/shop/src/index.ts` },
  { find: new RegExp(`${scope}$`), replacement: `${folder}$1/src/index.ts` },
  { find: new RegExp(`${scope}/testing$`), replacement: `${folder}$1/src/testing/index.ts` },
  { find: new RegExp(`${scope}/([\\w-]+)$`), replacement: `${folder}$1/src/$2.ts` },
]
