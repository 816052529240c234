// The API reference: a page for each entry point of each package. The TypeScript of this folder
// reads the sources, because the compiler of the repository has no API.
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { declarationOf, describe, linkTo, openingOf, ts } from './api-text.mjs'
import { ROOT } from './pages.mjs'

/** Entry points for users have a page in `api`, those for stores and adapters in `api/authors`. */
function entryPoints() {
  return readdirSync(join(ROOT, 'packages')).flatMap((folder) => {
    const path = join(ROOT, 'packages', folder)
    const { name, exports = {} } = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'))
    return Object.keys(exports)
      .filter((door) => !/^\.\/(package\.json|testing)/.test(door))
      .map((door) => {
        const isForUsers = door === '.' && !['testkit', 'operate'].includes(folder)
        return {
          name: name + door.slice(1),
          file: join(path, 'src', `${door === '.' ? 'index' : door.slice(2)}.ts`),
          page: `${isForUsers ? '' : 'authors/'}${folder}${door.slice(1).replace('/', '-')}.md`,
          isForUsers,
        }
      })
  })
}

/** @param {readonly string[]} files */
function createProgram(files) {
  const { config } = ts.readConfigFile(join(ROOT, 'tsconfig.check.json'), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [], files }, ts.sys, ROOT)
  return ts.createProgram(files, options)
}

/**
 * A name that several entry points export is described by the package that declares it, and there
 * by the entry point for users if possible.
 */
const distance = (symbol, { file, isForUsers }) => {
  const isDeclaredHere = declarationOf(symbol).getSourceFile().fileName.startsWith(dirname(file))
  return (isDeclaredHere ? 0 : 2) + (isForUsers ? 0 : 1)
}

/**
 * Writes the pages. Returns the names without a docstring. Members need one, too, if their type is
 * for users. Members of types for authors may speak for themselves.
 * @param {string} folder emptied first
 * @returns {string[]}
 */
export function writeReference(folder) {
  const points = entryPoints()
  const program = createProgram(points.map(({ file }) => file))
  const checker = program.getTypeChecker()
  const homes = new Map()
  const listed = points.map((point) => {
    const source = program.getSourceFile(point.file)
    const exported = checker.getExportsOfModule(checker.getSymbolAtLocation(source))
    const symbols = exported.map((symbol) =>
      symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol,
    )
    for (const symbol of symbols) {
      const home = homes.get(symbol)
      if (!home || distance(symbol, point) < distance(symbol, home)) homes.set(symbol, point)
    }
    return { ...point, source, symbols }
  })
  const links = new Map([...homes].map(([{ name }, { page }]) => [name, `${page}#${name}`]))
  const undocumented = []
  rmSync(folder, { recursive: true, force: true })
  for (const { name, page, source, symbols, isForUsers } of listed) {
    const own = symbols.filter((symbol) => homes.get(symbol).name === name).sort(byKind)
    const others = symbols.filter((symbol) => homes.get(symbol).name !== name)
    const view = { checker, links, page, undocumented: [] }
    const text = [
      '---\neditLink: false\noutline: 2\npageClass: api\n---\n',
      `# ${name}\n`,
      `${openingOf(source.text)}\n`,
      others.length > 0
        ? `Also exported, and described elsewhere: ${others.map((each) => linkTo(view, each.name)).join(', ')}.\n`
        : '',
      ...own.flatMap((symbol) => describe(symbol, view)),
    ].join('\n')
    mkdirSync(dirname(join(folder, page)), { recursive: true })
    writeFileSync(join(folder, page), text)
    const needed = view.undocumented.filter((each) => isForUsers || !each.includes('.'))
    undocumented.push(...needed.map((each) => `${name}: ${each}`))
  }
  return undocumented
}

const { FunctionDeclaration, ClassDeclaration, InterfaceDeclaration, TypeAliasDeclaration } =
  ts.SyntaxKind
const KINDS = [FunctionDeclaration, ClassDeclaration, InterfaceDeclaration, TypeAliasDeclaration]
/** Functions come first, constants last. */
const byKind = (a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name)
const rank = (symbol) => {
  const at = KINDS.indexOf(declarationOf(symbol).kind)
  return at === -1 ? KINDS.length : at
}
