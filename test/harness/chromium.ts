// Finds the Chromium of the browser tests: a binary on the PATH, else apt as root. It never skips:
// without a browser the tests fail, and the error says what to install.

import { type Browser, chromium } from 'playwright-core'
import { aptGet, onPath } from './find-redis.ts'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome']

export function launchChromium(): Promise<Browser> {
  // The sandbox needs rights that root in a container does not have.
  return chromium.launch({ executablePath: findChromium(), args: ['--no-sandbox'] })
}

function findChromium(env: NodeJS.ProcessEnv = process.env): string {
  const found = onPath(NAMES, env.PATH)
  if (found !== undefined) return found
  console.log('No Chromium found: running apt-get update && apt-get install -y chromium')
  const failure =
    aptGet(['update'], env) ?? aptGet(['install', '-y', '--no-install-recommends', 'chromium'], env)
  const installed = onPath(NAMES, env.PATH)
  if (installed !== undefined) return installed
  throw new Error(
    `No Chromium for the tests (${failure ?? 'installed, yet not on the PATH'}). ` +
      'Install chromium so that it is on the PATH.',
  )
}
