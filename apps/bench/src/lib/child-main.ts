// Main module of a child process: offers what `start` of a module returns, until the parent ends.
const [, , module, args = '[]'] = process.argv
process.on('disconnect', () => process.exit())
const { start } = await import(`../${module}.js`)
const functions = await start(...JSON.parse(args))
process.on('message', async ({ id, name, args: given }: { id: number; name: string; args: [] }) => {
  try {
    process.send?.({ id, value: await functions[name](...given) })
  } catch (error) {
    process.send?.({ id, error: String(error) })
  }
})
process.send?.({ id: 0 })
