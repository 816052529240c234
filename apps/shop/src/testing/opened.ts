// The shop that a suite tests: its server, database and pages.

import type { Server } from 'node:http'
import type { Database } from '../database.ts'
import type { Pages } from '../pages.ts'

export interface Opened {
  readonly framework: string
  readonly server: Server
  readonly database: Database
  readonly pages: Pages
}
