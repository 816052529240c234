// The floor: the same handlers without a library. It shows which rows a plain handler passes.
import express from 'express'
import { expressHandlers } from '../handlers/express-handlers.ts'
import { listen } from './listen.ts'

export async function start(): Promise<number> {
  const app = express()
  for (const { path, handler } of expressHandlers) app.post(path, express.json(), handler)
  return listen(app)
}
