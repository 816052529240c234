// Names of attempts.

import { randomBytes } from 'node:crypto'

const process = randomBytes(16).toString('base64url')
let attempts = 0

/** 128 bits that nobody else knows, and a number: nobody else can name, and so end, this attempt. */
export function newToken(): string {
  attempts += 1
  return `${process}.${attempts.toString(36)}`
}
