// How a fleet member sends a request to the test's origin. Loading `fetch` would cost each member
// as much as Express.
// @ts-check
import { request } from 'node:http'

const PER_CONNECTION = /^(connection|keep-alive|date|transfer-encoding|content-length)$/

/**
 * @param {string} target
 * @param {{ method?: string, headers?: Record<string, string> }} [options]
 * @returns {Promise<{ status: number, headers: Array<[string, string]>, body: Buffer }>}
 */
export function askOrigin(target, options = {}) {
  return new Promise((resolve, reject) => {
    const asked = request(process.env.ORIGIN_URL + target, { ...options, agent: false }, (res) => {
      /** @type {Buffer[]} */
      const chunks = []
      res.on('data', (chunk) => chunks.push(chunk))
      res.on('error', reject)
      res.on('end', () => {
        const { statusCode: status = 0, headersDistinct } = res
        const headers = Object.entries(headersDistinct)
          .filter(([name]) => !PER_CONNECTION.test(name))
          .flatMap(([name, values = []]) => oneLine(name, values))
        resolve({ status, headers, body: Buffer.concat(chunks) })
      })
    })
    asked.on('error', reject).end()
  })
}

/** @param {string} name @param {readonly string[]} values @returns {Array<[string, string]>} */
function oneLine(name, values) {
  if (name !== 'set-cookie') return [[name, values.join(', ')]]
  return values.map((value) => [name, value])
}
