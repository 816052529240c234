// Real HTTP requests, many at once: the testkit's, which the adapter contract sends too.
export {
  type Answer,
  ask,
  burst,
  type RequestOptions,
} from '../../packages/testkit/src/requests.ts'
