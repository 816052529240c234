// The contracts of both adapters on the oldest versions of Express and Koa that the packages allow.

import { fileURLToPath } from 'node:url'
import { memoryStore } from '@stampede/core'
import { cacheAdapterContract, idempotencyAdapterContract } from '@stampede/testkit'
import type express from 'express'
import type Koa from 'koa'
import { loadOnDemand } from '../../tools/on-demand.mjs'
import { cacheOnExpress, cacheOnKoa } from '../harness/apps.ts'
import { expressFramework, koaFramework } from '../harness/idempotent-apps.ts'

const folder = fileURLToPath(new URL('../harness/oldest', import.meta.url))
const expressOf = (version: string): typeof express =>
  loadOnDemand(folder, `express-${version}`) as typeof express
const koaOf = (version: string): typeof Koa => loadOnDemand(folder, `koa-${version}`) as typeof Koa

const EXPRESS = ['4.17', '4.18'].map(
  (version) => [`Express ${version}`, expressOf(version)] as const,
)
const KOA = ['2.13'].map((version) => [`Koa ${version}`, koaOf(version)] as const)

for (const framework of EXPRESS) cacheAdapterContract(cacheOnExpress(...framework))
for (const framework of KOA) cacheAdapterContract(cacheOnKoa(...framework))

async function open() {
  const store = memoryStore()
  return { a: store, b: store }
}
for (const framework of EXPRESS)
  idempotencyAdapterContract(expressFramework(...framework), { open })
for (const framework of KOA) idempotencyAdapterContract(koaFramework(...framework), { open })
