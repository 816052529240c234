// Clients and counters of the cache contract, for other suites.
export {
  Counter,
  statusOf,
  type Whole,
  whole,
} from '../../../packages/testkit/src/cache-contract/bench.ts'
