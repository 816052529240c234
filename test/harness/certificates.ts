// The certificates of the folder certificates/, for servers and clients of tests over TLS.

import { readFileSync } from 'node:fs'

export interface Certificate {
  readonly cert: string
  readonly key: string
}

const read = (name: string): string =>
  readFileSync(new URL(`./certificates/${name}.pem`, import.meta.url), 'utf8')
const identityOf = (name: string): Certificate => ({ cert: read(name), key: read(`${name}-key`) })

export const AUTHORITY: string = read('ca')
export const SERVER: Certificate = identityOf('server')
export const ALICE: Certificate = identityOf('alice')
export const BOB: Certificate = identityOf('bob')
/** Self-signed. */
export const MALLORY: Certificate = identityOf('mallory')
