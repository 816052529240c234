// The floor: the same handlers with nothing before them, to see which rows ask for a guard at all.
import express from 'express'
import { expressHandlers } from '../handlers/express-answers.ts'
import { listen } from './listen.ts'

export async function start(): Promise<number> {
  const app = express()
  for (const { path, handler } of expressHandlers) app.post(path, express.json(), handler)
  return listen(app)
}
