// Installs Nest 10 when the tests on older versions first run (vitest.config.ts).

import { fileURLToPath } from 'node:url'
import { installOnDemand } from '../../tools/on-demand.mjs'

export default function setUp(): void {
  installOnDemand(fileURLToPath(new URL('nest10', import.meta.url)))
}
