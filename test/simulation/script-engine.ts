// The script engine of the simulated server: a Lua VM in JavaScript (fengari) runs the scripts of
// lua/. Redis has Lua 5.1 and the VM has 5.3, so here every number is a float, and a whole float is
// written without `.0`. Scripts get the part of Redis' libraries that they need. Any other name
// fails, as a global that does not exist.

import { createRequire } from 'node:module'
import { CommandError, type Reply } from './keyspace.ts'
import { formatted, parsed } from './lua-numbers.ts'

/** Executes one command of a script. */
export type Call = (name: string, args: readonly string[]) => Reply

/** A script failed by itself: not by the error of a command, which a server may give. */
export class ScriptBug extends Error {}

declare const STATE: unique symbol
interface State {
  readonly [STATE]: never
}
type Bytes = Uint8Array
type Native = (state: State) => number

/** The part of fengari that is used here. It has no types of its own. */
interface Fengari {
  readonly to_luastring: (text: string) => Bytes
  readonly lauxlib: {
    luaL_newstate(): State
    luaL_requiref(state: State, name: Bytes, open: Native, isGlobal: number): void
    luaL_loadbuffer(state: State, text: Bytes, size: number | null, name: Bytes): number
    luaL_ref(state: State, table: number): number
  }
  readonly lualib: Readonly<Record<string, Native>>
  readonly lua: Readonly<Record<`LUA_${string}`, number>> & {
    lua_absindex(state: State, at: number): number
    lua_createtable(state: State, items: number, fields: number): void
    lua_error(state: State): number
    lua_getfield(state: State, at: number, name: Bytes): number
    lua_gettop(state: State): number
    lua_pcall(state: State, args: number, results: number, handler: number): number
    lua_pop(state: State, count: number): void
    lua_pushboolean(state: State, value: boolean): void
    lua_pushcfunction(state: State, native: Native): void
    lua_pushnil(state: State): void
    lua_pushnumber(state: State, value: number): void
    lua_pushstring(state: State, value: Bytes): void
    lua_rawgeti(state: State, at: number, index: number): number
    lua_rawseti(state: State, at: number, index: number): void
    lua_setfield(state: State, at: number, name: Bytes): void
    lua_setglobal(state: State, name: Bytes): void
    lua_settop(state: State, top: number): void
    lua_toboolean(state: State, at: number): boolean
    lua_tolstring(state: State, at: number): Bytes | null
    lua_tonumber(state: State, at: number): number
    lua_type(state: State, at: number): number
  }
}

const require = createRequire(import.meta.url)
// The VM takes these from here when it loads. Its modules need each other, in this order.
require('fengari/src/defs.js')
Object.assign(require('fengari/src/luaconf.js'), {
  LUA_COMPAT_FLOATSTRING: true,
  lua_number2str: (number: number) => formatted(number, 14),
})
const { lua, lauxlib, lualib, to_luastring: utf8 } = require('fengari') as Fengari
// A number in the text of a script, and a string that is calculated with, become floats.
Object.assign(require('fengari/src/lobject.js'), {
  luaO_str2num(text: Bytes, target: { setfltvalue(value: number): void }) {
    const number = parsed(latin1(text))
    if (number === undefined) return 0
    target.setfltvalue(number)
    return text.length + 1
  },
})
const { LUA_REGISTRYINDEX = 0, LUA_TNIL, LUA_TBOOLEAN, LUA_TNUMBER, LUA_TSTRING, LUA_TTABLE } = lua
const [CALL, PCALL, ERR, OK] = ['call', 'pcall', 'err', 'ok'].map(utf8) as [
  Bytes,
  Bytes,
  Bytes,
  Bytes,
]
const [KEYS, ARGV, REDIS] = ['KEYS', 'ARGV', 'redis'].map(utf8) as [Bytes, Bytes, Bytes]

/** Cuts the libraries of the VM, and refuses other globals, as Redis does. */
const PRELUDE = `
local floor, ceil = math.floor, math.ceil
function math.floor(number) return floor(number) + 0.0 end
function math.ceil(number) return ceil(number) + 0.0 end
unpack = table.unpack
KEYS, ARGV = {}, {}
local function cut(library, names)
  local kept = {}
  for name in names:gmatch('%S+') do kept[name] = true end
  for name in pairs(library) do if not kept[name] then library[name] = nil end end
end
cut(string, 'byte char find format gmatch gsub len lower match rep reverse sub upper')
cut(table, 'concat insert remove sort')
cut(math, 'abs ceil exp floor fmod huge log max min modf pi sqrt')
local function no(what)
  return function(_, name) error('Script attempted to ' .. what .. ' ' .. name, 2) end
end
setmetatable(_G, {
  __index = no('access nonexistent global variable'),
  __newindex = no('create global variable'),
})
cut(_G, [[assert error getmetatable ipairs next pairs pcall rawequal rawget rawset select setmetatable
  tonumber tostring type unpack xpcall string table math redis KEYS ARGV]])
`

export class ScriptEngine {
  readonly #state = lauxlib.luaL_newstate()
  /** By text: each script is parsed once. */
  readonly #functions = new Map<string, number>()
  #call: Call = () => null
  /** An exception of a command that is no error reply. The VM would turn it into a Lua error. */
  #thrown: unknown

  constructor() {
    const state = this.#state
    for (const [name, open] of Object.entries(LIBRARIES)) {
      lauxlib.luaL_requiref(state, utf8(name), open as Native, 1)
      lua.lua_pop(state, 1)
    }
    lua.lua_createtable(state, 0, 2)
    lua.lua_pushcfunction(state, (inside) => this.#onCall(inside, false))
    lua.lua_setfield(state, -2, CALL)
    lua.lua_pushcfunction(state, (inside) => this.#onCall(inside, true))
    lua.lua_setfield(state, -2, PCALL)
    lua.lua_setglobal(state, REDIS)
    this.#start(PRELUDE)
    lua.lua_settop(state, 0)
  }

  /** Throws a CommandError for an error reply. */
  run(source: string, keys: readonly string[], args: readonly string[], call: Call): Reply {
    const state = this.#state
    this.#call = call
    try {
      this.#push(keys)
      lua.lua_setglobal(state, KEYS)
      this.#push(args)
      lua.lua_setglobal(state, ARGV)
      this.#start(source)
      return this.#pull(-1)
    } finally {
      lua.lua_settop(state, 0)
    }
  }

  /** Leaves the result on the stack. */
  #start(source: string): void {
    const state = this.#state
    const known = this.#functions.get(source) ?? this.#compile(source)
    lua.lua_rawgeti(state, LUA_REGISTRYINDEX, known)
    if (lua.lua_pcall(state, 0, 1, 0) === 0) return
    const thrown = this.#thrown
    this.#thrown = undefined
    if (thrown !== undefined) throw thrown
    if (lua.lua_type(state, -1) === LUA_TTABLE) this.#pull(-1)
    throw new ScriptBug(latin1(lua.lua_tolstring(state, -1) ?? utf8('an error without a text')))
  }

  #compile(source: string): number {
    const text = Buffer.from(source)
    if (lauxlib.luaL_loadbuffer(this.#state, text, text.length, utf8('script')) !== 0) {
      throw new ScriptBug(latin1(lua.lua_tolstring(this.#state, -1) as Bytes))
    }
    const made = lauxlib.luaL_ref(this.#state, LUA_REGISTRYINDEX)
    this.#functions.set(source, made)
    return made
  }

  #onCall(state: State, isSafe: boolean): number {
    const args: string[] = []
    for (let i = 1; i <= lua.lua_gettop(state); i++) {
      const isNumber = lua.lua_type(state, i) === LUA_TNUMBER
      const bytes = isNumber ? null : lua.lua_tolstring(state, i)
      if (!isNumber && bytes === null) throw new ScriptBug('an argument is no string and no number')
      args.push(bytes === null ? formatted(lua.lua_tonumber(state, i), 17) : latin1(bytes))
    }
    let failed: string | undefined
    try {
      this.#push(this.#call(args[0] ?? '', args.slice(1)))
    } catch (error) {
      if (error instanceof CommandError) failed = error.message
      else throw this.#noted(error)
    }
    if (failed === undefined) return 1
    lua.lua_createtable(state, 0, 1)
    lua.lua_pushstring(state, bytesOf(failed))
    lua.lua_setfield(state, -2, ERR)
    return isSafe ? 1 : lua.lua_error(state)
  }

  #noted(error: unknown): unknown {
    this.#thrown = error
    return error
  }

  #push(value: Reply): void {
    const state = this.#state
    if (value === null) lua.lua_pushboolean(state, false)
    else if (typeof value === 'number') lua.lua_pushnumber(state, value)
    else if (typeof value === 'string') lua.lua_pushstring(state, bytesOf(value))
    else if ('ok' in value) {
      lua.lua_createtable(state, 0, 1)
      lua.lua_pushstring(state, bytesOf(value.ok))
      lua.lua_setfield(state, -2, OK)
    } else {
      lua.lua_createtable(state, value.length, 0)
      for (let i = 0; i < value.length; i++) {
        this.#push(value[i] as Reply)
        lua.lua_rawseti(state, -2, i + 1)
      }
    }
  }

  /** A reply has the whole part of a number, and a table only up to its first nil. */
  #pull(at: number): Reply {
    const state = this.#state
    const type = lua.lua_type(state, at)
    if (type === LUA_TSTRING) return latin1(lua.lua_tolstring(state, at) as Bytes)
    if (type === LUA_TNUMBER) return asInt64(lua.lua_tonumber(state, at))
    if (type === LUA_TBOOLEAN) return lua.lua_toboolean(state, at) ? 1 : null
    if (type !== LUA_TTABLE) return null
    const table = lua.lua_absindex(state, at)
    const failed = this.#field(table, ERR)
    if (failed !== undefined) throw new CommandError(failed)
    const ok = this.#field(table, OK)
    if (ok !== undefined) return { ok }
    const items: Reply[] = []
    while (lua.lua_rawgeti(state, table, items.length + 1) !== LUA_TNIL) {
      items.push(this.#pull(-1))
      lua.lua_pop(state, 1)
    }
    lua.lua_pop(state, 1)
    return items
  }

  #field(table: number, name: Bytes): string | undefined {
    const state = this.#state
    const isText = lua.lua_getfield(state, table, name) === LUA_TSTRING
    const text = isText ? latin1(lua.lua_tolstring(state, -1) as Bytes) : undefined
    lua.lua_pop(state, 1)
    return text
  }
}

const LIBRARIES = {
  _G: lualib.luaopen_base,
  string: lualib.luaopen_string,
  table: lualib.luaopen_table,
  math: lualib.luaopen_math,
}

/** As C converts a double on x86: one that is too large becomes the smallest number. */
function asInt64(number: number): number {
  return Math.abs(number) < 2 ** 63 ? Math.trunc(number) : -(2 ** 63)
}

function latin1(bytes: Bytes): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
}

function bytesOf(text: string): Bytes {
  return Buffer.from(text, 'latin1')
}
