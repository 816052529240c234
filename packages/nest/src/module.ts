// StampedeModule: the Stampede of all decorators, as a provider.

import {
  type DynamicModule,
  type FactoryProvider,
  Module,
  type ModuleMetadata,
  type OnApplicationShutdown,
} from '@nestjs/common'
import { createStampede, type Stampede } from '@stampede/core'
import { optionError } from '@stampede/core/store'

/** The token of the Stampede, for `@Inject` and for `app.get`. */
export const STAMPEDE: symbol = Symbol.for('@stampede/nest')

const CLOSER = Symbol('closes the Stampede of a StampedeModule')

/** Options of `StampedeModule.forRoot`. */
export interface StampedeModuleOptions {
  /**
   * The Stampede of all decorators. `app.close()` does not close it. Default: a new one with a
   * memory store, which `app.close()` closes.
   */
  stampede?: Stampede
}

/**
 * Options of `StampedeModule.forRootAsync`. `useFactory` returns the Stampede of all decorators,
 * which `app.close()` closes. It gets the providers of `inject`.
 */
export interface StampedeAsyncOptions
  extends Pick<ModuleMetadata, 'imports'>,
    Pick<FactoryProvider<Stampede>, 'inject' | 'useFactory'> {}

/**
 * A global module. Import it once.
 *
 * @example
 * imports: [StampedeModule.forRoot({ stampede: createStampede({ store: redisStore(redis) }) })]
 */
// biome-ignore lint/complexity/noStaticOnlyClass: Nest configures modules by static methods.
export class StampedeModule {
  static forRoot(options: StampedeModuleOptions = {}): DynamicModule {
    const { stampede, ...others } = options
    if (Object.keys(others).length > 0) throw optionError('StampedeModule.forRoot', options, FIX)
    if (stampede === undefined) return moduleOf({ useFactory: () => createStampede() })
    return { ...MODULE, providers: [{ provide: STAMPEDE, useFactory: () => stampede }] }
  }

  static forRootAsync(options: StampedeAsyncOptions): DynamicModule {
    return moduleOf(options)
  }
}
Module({})(StampedeModule)

const FACTORY = 'StampedeModule.forRootAsync.useFactory()'
const FIX = 'pass { stampede: createStampede({ store }) }, or nothing'
const MODULE: DynamicModule = { module: StampedeModule, global: true, exports: [STAMPEDE] }

/** Nest calls `onApplicationShutdown` of a provider after the server has closed. */
function moduleOf({ imports = [], inject = [], useFactory }: StampedeAsyncOptions): DynamicModule {
  const closer = (stampede: Stampede | undefined): OnApplicationShutdown => {
    // Without this error, each decorator would use a Stampede of its own.
    if (stampede === undefined) throw optionError(FACTORY, stampede, 'return a Stampede')
    return { onApplicationShutdown: () => stampede.close() }
  }
  const providers = [
    { provide: STAMPEDE, inject, useFactory },
    { provide: CLOSER, inject: [STAMPEDE], useFactory: closer },
  ]
  return { ...MODULE, imports, providers }
}
