// Types of the older major versions, installed under other names. For our tests they have the shape
// of the newer ones.
declare module 'express4' {
  import express from 'express'
  export default express
}
declare module 'koa2' {
  import Koa from 'koa'
  export default Koa
}
