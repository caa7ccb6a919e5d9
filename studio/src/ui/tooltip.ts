// One small text over what is pointed at or focused. It lies above everything else, dialogs too.
import type { Attachment } from "svelte/attachments";

const ID = "tooltip";
const WAIT_MS = 350;
let shown: HTMLElement | null = null;
let waiting: ReturnType<typeof setTimeout> | undefined;

function element(): HTMLElement {
  let made = document.getElementById(ID);
  if (!made) {
    made = document.createElement("div");
    made.id = ID;
    made.role = "tooltip";
    made.popover = "manual";
    document.body.append(made);
  }
  return made;
}

function show(at: HTMLElement, text: string): void {
  const tip = element();
  tip.textContent = text;
  if (!tip.matches(":popover-open")) tip.showPopover();
  shown = at;
  const box = at.getBoundingClientRect();
  const own = tip.getBoundingClientRect();
  const above = box.bottom + own.height + 10 > innerHeight;
  const left = Math.min(Math.max(6, box.left + box.width / 2 - own.width / 2), innerWidth - own.width - 6);
  tip.style.left = `${left}px`;
  tip.style.top = `${above ? box.top - own.height - 6 : box.bottom + 6}px`;
}

function hide(at?: HTMLElement): void {
  clearTimeout(waiting);
  if (at && shown !== at) return;
  shown = null;
  const tip = document.getElementById(ID);
  if (tip?.matches(":popover-open")) tip.hidePopover();
}

/** `<button {@attach tooltip("Says more")}>`. What it says must also be there for those who cannot point. */
export function tooltip(text: string | undefined): Attachment<HTMLElement> {
  return (node) => {
    if (!text) return;
    const soon = () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => node.isConnected && show(node, text), WAIT_MS);
    };
    // Later, as focus may come while a menu is being closed, and then nothing may be opened.
    const focused = () => setTimeout(() => node.isConnected && node.matches(":focus-visible") && show(node, text));
    const gone = () => hide(node);
    const escape = (event: KeyboardEvent) => event.key === "Escape" && hide(node);
    node.addEventListener("pointerenter", soon);
    node.addEventListener("pointerleave", gone);
    node.addEventListener("pointerdown", gone);
    node.addEventListener("focus", focused);
    node.addEventListener("blur", gone);
    node.addEventListener("keydown", escape);
    return () => {
      gone();
      node.removeEventListener("pointerenter", soon);
      node.removeEventListener("pointerleave", gone);
      node.removeEventListener("pointerdown", gone);
      node.removeEventListener("focus", focused);
      node.removeEventListener("blur", gone);
      node.removeEventListener("keydown", escape);
    };
  };
}
