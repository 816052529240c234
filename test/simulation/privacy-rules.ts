// The rule about people: no byte for one person reaches another. Every response names its person in
// the body, and every cookie its owner. `*` stands for all people.

import type { Got } from './sim-exchange.ts'
import type { Judge } from './violation.ts'

export class PrivacyRules {
  readonly #judge: Judge

  constructor(judge: Judge) {
    this.#judge = judge
  }

  /** A variant is for people who sent the same header. */
  spoke(process: string, user: string, path: string, language: string, { body }: Got): void {
    const [, made = language] = /lang=(\w+)/.exec(Buffer.from(body ?? []).toString()) ?? []
    if (made === language) return
    const detail = `${process} gave ${user} at ${path}, who reads ${language}, what was made in ${made}`
    this.#judge.fail('nothing of another', detail, path)
  }

  got(process: string, user: string, path: string, { headers, body }: Got): void {
    const cookies = headers.filter(([name]) => name === 'set-cookie').map(([, value]) => value)
    const text = [Buffer.from(body ?? []).toString(), ...cookies].join('\n')
    for (const [, whose] of text.matchAll(/for=([^\s;]+)/g)) {
      if (whose === '*' || whose === user) continue
      const detail = `${process} gave ${user} at ${path} what was made for ${whose}`
      this.#judge.fail('nothing of another', detail, path)
    }
  }
}
