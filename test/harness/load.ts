// Many real HTTP requests at once. They come from the testkit, where the adapter contract uses them
// too.
export {
  type Answer,
  ask,
  burst,
  type RequestOptions,
} from '../../packages/testkit/src/requests.ts'
