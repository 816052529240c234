// cacheable in memory, in a handler of Express 5.
import type { RequestListener } from 'node:http'
import { memoryGet } from '../../data/memory-peers.ts'
import type { Origin } from '../subject.ts'
import { getting } from './getting.ts'

export const listener = (origin: Origin): RequestListener => getting(memoryGet('cacheable', origin))
