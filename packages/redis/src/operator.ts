// Exports of @stampede/redis/operator: names of keys and channels, for tools of operators.

export { names } from './protocol/keys.ts'
