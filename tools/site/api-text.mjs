// The text of the API reference: signature, docstring, members and source of an exported name.
import { dirname, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { loadOnDemand } from '../on-demand.mjs'
import { REPOSITORY, ROOT } from './pages.mjs'

export const ts = loadOnDemand(fileURLToPath(new URL('.', import.meta.url)), 'typescript')

export const declarationOf = ({ valueDeclaration, declarations }) =>
  valueDeclaration ?? declarations[0]

/** First paragraph of the comment that a file begins with, without the name of the package. */
export function openingOf(text) {
  const [comment = ''] = /^(\/\/.*\n)+/.exec(text) ?? []
  const words = comment
    .replace(/^\/\/ ?/gm, '')
    .replace(/^@[\w/-]+: /, '')
    .replace(/\s+/g, ' ')
  return (words.charAt(0).toUpperCase() + words.slice(1)).trim()
}

export function linkTo({ links, page }, name) {
  const path = relative(dirname(page), links.get(name))
  return `[\`${name}\`](${path.startsWith('.') ? path : `./${path}`})`
}

/** One exported name as Markdown. */
export function describe(symbol, view) {
  const { name } = symbol
  const node = declarationOf(symbol)
  const shape = ts.isTypeAliasDeclaration(node) ? node.type : node
  const hasMembers =
    ts.isInterfaceDeclaration(shape) || ts.isClassDeclaration(shape) || ts.isTypeLiteralNode(shape)
  const isFunction = ts.isFunctionDeclaration(node)
  const source = node.getSourceFile()
  const { line } = source.getLineAndCharacterOfPosition(node.getStart())
  const path = relative(ROOT, source.fileName)
  return [
    `## ${name}${isFunction ? '()' : ''} {#${name}}\n`,
    codeBlock(hasMembers ? headOf(node, view) : signaturesOf(symbol), name, view),
    docOf(symbol, name, view),
    ...(hasMembers ? membersOf(symbol, view) : []),
    `<p class="source"><a href="${REPOSITORY}/blob/main/${path}#L${line + 1}">${path}</a></p>\n`,
  ]
}

/** Docstring with its examples. `name` is noted if there is none. */
function docOf(symbol, name, { checker, undocumented }) {
  const text = ts.displayPartsToString(symbol.getDocumentationComment(checker))
  if (text === '') undocumented.push(name)
  const examples = symbol
    .getJsDocTags(checker)
    .filter((tag) => tag.name === 'example')
    .map((tag) => `\n\`\`\`ts\n${ts.displayPartsToString(tag.text)}\n\`\`\`\n`)
  // A `<` outside of code would begin an HTML element.
  return `${text.replace(/(`[^`]*`)|</g, (_, code) => code ?? '&lt;')}\n${examples.join('')}`
}

/** All overloads as written, without bodies and docstrings. */
function signaturesOf({ declarations }) {
  const isOverloaded = declarations.length > 1
  const shown = declarations.filter((node) => !(isOverloaded && node.body))
  return shown
    .map((node) => (ts.isVariableDeclaration(node) ? 'const ' : '') + signatureOf(node))
    .join('\n')
}

function signatureOf(node) {
  const { text } = node.getSourceFile()
  const start = node.getStart()
  const [indent] = /[ \t]*$/.exec(text.slice(0, start))
  const signature = text.slice(start, node.body?.pos ?? node.end)
  return withoutUndefined(
    signature
      .replace(/^export /, '')
      .replaceAll(`\n${indent}`, '\n')
      // A parameter that no caller passes: it makes `app.use(stampedeCache)` a type error.
      .replace(/\(\n +(.+),\n +\.\.\._uncalled: Uncalled\n\)/, '($1)')
      .trim(),
  )
}

/**
 * Such as `class Lease implements AsyncDisposable`, without the members. The page has the members
 * of an interface that is not exported, so its name would say nothing.
 */
function headOf(node, { links }) {
  const head = signatureOf(node).replace(/ (= )?\{[\s\S]*$/, '')
  const bases = ts.isInterfaceDeclaration(node) ? (node.heritageClauses ?? []) : []
  const isHidden = bases.some(({ types }) => types.some((type) => !links.has(type.expression.text)))
  const shown = isHidden ? head.replace(/\s+extends (?![^<]*>)[\s\S]*$/, '') : head
  return /^(interface|type) \w+$/.test(shown) ? '' : shown
}

/** A block of code, and links to the exported types in it. */
function codeBlock(code, self, view) {
  if (code === '') return ''
  const words = code.replace(/\/\*[\s\S]*?\*\/|'[^'\n]*'/g, '').match(/\b[A-Z]\w+\b/g)
  const types = [...new Set(words)].filter((word) => word !== self && view.links.has(word))
  const links = types.map((type) => linkTo(view, type)).join(', ')
  return `\`\`\`ts\n${code}\n\`\`\`\n${links === '' ? '' : `\nTypes: ${links}\n`}`
}

/** `ttlMs?: number` for `ttlMs?: number | undefined`: the question mark says it already. */
const withoutUndefined = (code) =>
  code
    .replace(/(\?: [^;,{}=]+) \| undefined/g, '$1')
    .replace(/(\?: [\s\S]+) \| undefined$/, '$1')
    .replace(/\?: \(([^|]*)\)$/, '?: $1')

/** Members that this repository declares. Inherited ones are among them. */
function membersOf(symbol, view) {
  const type = view.checker.getDeclaredTypeOfSymbol(symbol)
  return view.checker.getPropertiesOfType(type).flatMap((member) => {
    const node = member.declarations && declarationOf(member)
    const file = node?.getSourceFile().fileName ?? ''
    const name = node?.name.getText() ?? '#'
    if (name.startsWith('#') || !/\/packages\/[\w-]+\/src\//.test(file)) return []
    return [
      `### ${name} {#${symbol.name}-${name.replace(/\W+/g, '-')}}\n`,
      codeBlock(signaturesOf(member), symbol.name, view),
      docOf(member, `${symbol.name}.${name}`, view),
    ]
  })
}
