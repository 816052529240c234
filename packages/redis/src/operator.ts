// Exports of @stampede/redis/operator: names of keys and channels, for tools of operators.

export { type Names, names } from './protocol/keys.ts'
