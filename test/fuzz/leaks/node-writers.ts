// Writers that send a response through a ServerResponse, one for each way. The cache has to see the
// same in each.

import type { ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
import type { Response } from 'express'
import type { Answer } from './answer-spec.ts'
import { groupedFields, joinedFields } from './ways.ts'

export function writeOnNode(res: ServerResponse, answer: Answer): void {
  if (answer.throws) throw Object.assign(new Error(answer.text), { status: answer.status })
  const write = WRITERS[answer.way]
  if (write === undefined) throw new Error(`there is no way ${answer.way}`)
  write(res, answer)
}

type Writer = (res: ServerResponse, answer: Answer) => void

function setAll(res: ServerResponse, { status, reason, fields }: Answer): void {
  res.statusCode = status
  if (reason !== undefined) res.statusMessage = reason
  for (const [name, value] of groupedFields(fields)) res.setHeader(name, value)
}

/** The forms of writeHead, with the headers that each takes. */
function writeHead(res: ServerResponse, { status, reason }: Answer, headers: object): void {
  // The types allow objects and flat arrays only.
  const given = headers as Record<string, string>
  if (reason === undefined) res.writeHead(status, given)
  else res.writeHead(status, reason, given)
}

function halves(text: string): [string, Buffer] {
  const middle = text.length >> 1
  return [text.slice(0, middle), Buffer.from(text.slice(middle))]
}

const express = (res: ServerResponse): Response => res as Response

const WRITERS: Readonly<Record<string, Writer>> = {
  end(res, answer) {
    setAll(res, answer)
    res.end(answer.text)
  },
  write(res, answer) {
    setAll(res, answer)
    const [first, second] = halves(answer.text)
    res.write(first)
    setImmediate(() => {
      res.write(second)
      res.end()
    })
  },
  'head-object'(res, answer) {
    writeHead(res, answer, Object.fromEntries(groupedFields(answer.fields)))
    res.end(Buffer.from(answer.text).toString('hex'), 'hex')
  },
  'head-array'(res, answer) {
    writeHead(res, answer, joinedFields(answer.fields).flat())
    res.end(answer.text)
  },
  append(res, answer) {
    res.statusCode = answer.status
    if (answer.reason !== undefined) res.statusMessage = answer.reason
    for (const [name, value] of answer.fields) res.appendHeader(name, value)
    res.end(Buffer.from(answer.text))
  },
  stream(res, answer) {
    setAll(res, answer)
    Readable.from(halves(answer.text).map((part) => Buffer.from(part))).pipe(res)
  },
  flush(res, answer) {
    setAll(res, answer)
    res.flushHeaders()
    setImmediate(() => res.end(answer.text))
  },
  send(res, answer) {
    setAll(res, answer)
    express(res).send(answer.text)
  },
  json(res, answer) {
    setAll(res, answer)
    express(res).json({ text: answer.text })
  },
  'send-buffer'(res, answer) {
    setAll(res, answer)
    express(res).send(Buffer.from(answer.text))
  },
  redirect(res, answer) {
    setAll(res, answer)
    // It would replace a content type that keeps the response from other people.
    if (answer.status !== 200 || res.hasHeader('Content-Type')) express(res).send(answer.text)
    else express(res).redirect(301, `/${encodeURIComponent(answer.text)}`)
  },
}
