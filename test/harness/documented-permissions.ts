// The permissions in docs/guide/redis-topologies.md, and the commands that scripts and sources use.

import { readdirSync, readFileSync } from 'node:fs'
import type { Redis } from 'ioredis'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const filesIn = (folder: string) =>
  readdirSync(new URL(`../../${folder}`, import.meta.url), { recursive: true, encoding: 'utf8' })
    .map((name) => `${folder}/${name}`)
    .filter((path) => /\.(ts|lua)$/.test(path))

const LINES = read('docs/guide/redis-topologies.md').match(/^ACL SETUSER .+$/gm) ?? []
const RULES = LINES.map((line) => line.split(' ').slice(3))
export const DOCUMENTED = RULES.flat()
  .filter((rule) => rule.startsWith('+'))
  .map((rule) => rule.slice(1).toUpperCase())

/** Sent by ioredis itself: when it connects, and in a cluster. */
const BY_IOREDIS = ['INFO', 'CLUSTER|SLOTS', 'CLUSTER|INFO', 'ASKING']
export const LOGIN = { username: 'shop', password: 'secret' }

/**
 * `redis.call('HGET', …)`, or a call of a table: `local read = {'HMGET', …}`,
 * `redis.call(unpack(read))`.
 */
function commandsOfScript(path: string): string[] {
  const lua = read(path)
  return [...lua.matchAll(/redis\.p?call\(\s*(?:'([A-Z]+)'|unpack\((\w+)\))?/g)].map((call) => {
    const [text, literal, table] = call
    const [, first] = new RegExp(`local ${table} = \\{\\s*'([A-Z]+)'`).exec(lua) ?? []
    const command = literal ?? first
    if (command === undefined) throw new Error(`${path}: which command is ${text}…?`)
    return command
  })
}

/** Commands sent by name, and methods called on a connection that client-types.ts declares. */
function commandsOfSource(path: string, known: ReadonlySet<string>): string[] {
  const source = read(path)
  const sent = [...source.matchAll(/(?<![#\w])(?:send|ask|callBuffer)\(([^)]*)\)/g)].flatMap(
    ([text, args = '']) => {
      const [, literal] = /'([A-Z]+)'/.exec(args) ?? []
      // Methods that pass a command on to another of these.
      if (literal === undefined && !/\bcommand\b/.test(args)) throw new Error(`${path}: ${text}`)
      return literal ?? []
    },
  )
  if (!path.endsWith('/client-types.ts')) return sent
  const methods = [...source.matchAll(/^ {2}(\w+)\(.*\): /gm)].map(([, name = '']) => name)
  return [...sent, ...methods.map((name) => name.toUpperCase()).filter((name) => known.has(name))]
}

/** Sentinels have users of their own. */
const isForServers = (path: string) => !path.endsWith('sentinels.ts')

/** `known`: the commands of the server, by which a method is recognised as a command. */
export function commandsInUse(known: ReadonlySet<string>): string[] {
  const scripts = filesIn('lua').filter((path) => path.endsWith('.lua'))
  const sources = filesIn('packages/redis/src').filter(
    (path) => !/\.(test|generated)\.ts$/.test(path),
  )
  return [
    ...scripts.flatMap(commandsOfScript),
    ...sources.filter(isForServers).flatMap((path) => commandsOfSource(path, known)),
    ...BY_IOREDIS,
  ]
}

/** Creates the user of the page, from its lines. */
export async function addUser(to: Redis): Promise<void> {
  for (const rules of RULES) await to.call('ACL', 'SETUSER', LOGIN.username, ...rules)
}

/** Commands that a server refused, apart from those that ioredis sends about itself. */
export async function refusedBy(by: Redis): Promise<string[]> {
  const log = (await by.call('ACL', 'LOG')) as string[][]
  const objects = log.map((entry) => String(entry[entry.indexOf('object') + 1]))
  return objects.filter((object) => !object.startsWith('client'))
}
