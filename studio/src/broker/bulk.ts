// The same done to many, a few at a time; it can be stopped, and tells how far it is.

export interface BulkResult {
  done: number;
  /** Nothing was left to do: somebody was faster. */
  gone: number;
  failed: number;
  /** The first failure, to be shown. */
  failure: unknown;
  stopped: boolean;
}

const AT_ONCE = 6;
/** After so many failures in a row it makes no sense to go on. */
const FAILURES_MAX = 10;

/** `act` answers how many were dealt with: 0 if it is gone. */
export async function bulk<T>(
  source: AsyncIterable<T> | Iterable<T>,
  act: (one: T) => Promise<number>,
  signal: AbortSignal,
  progress: (result: Readonly<BulkResult>) => void,
): Promise<BulkResult> {
  const result: BulkResult = { done: 0, gone: 0, failed: 0, failure: null, stopped: false };
  const iterator = Symbol.asyncIterator in source ? source[Symbol.asyncIterator]() : source[Symbol.iterator]();
  let ends = false, in_a_row = 0;
  // Generators take one question after the other, so that the workers share it.
  const worker = async () => {
    while (!ends && !signal.aborted && in_a_row < FAILURES_MAX) {
      const next = await iterator.next();
      if (next.done) {
        ends = true;
        return;
      }
      try {
        const count = await act(next.value);
        if (count > 0) result.done += count;
        else result.gone++;
        in_a_row = 0;
      } catch (thrown) {
        if (signal.aborted) break;
        result.failed++;
        in_a_row++;
        result.failure ??= thrown;
      }
      progress(result);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  result.stopped = !ends;
  return result;
}
