// @stampede/dashboard: a live page about a fleet that caches with Stampede.

export { type KoaContext, type KoaDashboard, stampedeDashboardKoa } from './koa.ts'
export { type DashboardHandler, stampedeDashboard } from './node.ts'
