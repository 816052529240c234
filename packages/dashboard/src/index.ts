// @stampede/dashboard: a live page about a fleet that caches with Stampede.

export { stampedeDashboardKoa } from './koa.ts'
export { stampedeDashboard } from './node.ts'
