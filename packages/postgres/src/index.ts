// @stampede/postgres: idempotency keys and locks in PostgreSQL.

export { type Migration, migrations } from './migrations.ts'
export { type PostgresStore, postgresStore } from './postgres-store.ts'
export { fromDrizzle, fromKnex, fromKysely, fromPostgresJs, fromPrisma } from './runners.ts'
