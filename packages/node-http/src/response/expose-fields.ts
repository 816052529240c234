// Fields that a framework keeps in an object of its own, such as the reply of Fastify.

import type { ServerResponse } from 'node:http'

type Fields = Readonly<Record<string, number | string | string[] | undefined>>

/**
 * Sets the fields on the raw response, where a reply of the cache keeps them. Fields that the raw
 * response already has stay as they are. The returned function removes the added fields again,
 * because a handler may still change them in the framework's object.
 */
export function exposeFields(res: ServerResponse, fields: Fields): () => void {
  const added = Object.entries(fields).filter(([name]) => !res.hasHeader(name))
  for (const [name, value] of added) if (value !== undefined) res.setHeader(name, value)
  return () => {
    for (const [name] of added) res.removeHeader(name)
  }
}
