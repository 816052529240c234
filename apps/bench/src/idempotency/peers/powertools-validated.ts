// powertools.ts with the option that compares payloads.
import { startPowertools } from './powertools.ts'

export const start = (url: string): Promise<number> => startPowertools(url, 'body')
