// Fetching lists that are longer than one answer.

/** Page after page, until there is no more, it is enough, or nobody wants it. */
export async function allPages<T>(page: (after: string | undefined) => Promise<{ items: T[]; next: string | null }>, items_max: number): Promise<{ items: T[]; more: boolean }> {
  const items: T[] = [];
  let after: string | undefined;
  do {
    const { items: some, next } = await page(after);
    items.push(...some);
    if (next === null || some.length === 0) return { items, more: false };
    after = next;
  } while (items.length < items_max);
  return { items, more: true };
}
