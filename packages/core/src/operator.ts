// Exports of @stampede/core/operator: what tools for operators need, such as a dashboard.

export {
  type EventView,
  type FlightView,
  type Observer,
  observe,
  type ProcessSnapshot,
} from './observe/observer.ts'
