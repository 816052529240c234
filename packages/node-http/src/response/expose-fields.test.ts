import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { expect, it } from 'vitest'
import { exposeFields } from './expose-fields.ts'

it('sets fields that the response does not have, and removes only those again', () => {
  const res = new ServerResponse(new IncomingMessage(new Socket()))
  res.setHeader('X-Raw', 'raw')
  const hide = exposeFields(res, { 'x-raw': 'other', link: ['<a>', '<b>'], none: undefined })
  expect({ ...res.getHeaders() }).toEqual({ 'x-raw': 'raw', link: ['<a>', '<b>'] })
  hide()
  expect({ ...res.getHeaders() }).toEqual({ 'x-raw': 'raw' })
})
