// The time, once a second, for all texts that say how long ago something was.
import { createSubscriber } from "svelte/reactivity";

const subscribe = createSubscriber((update) => {
  const timer = setInterval(update, 1_000);
  return () => clearInterval(timer);
});

export const clock = {
  get now_ms(): number {
    subscribe();
    return Date.now();
  },
};
