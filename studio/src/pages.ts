// All pages of the studio. A page is one line here and one component, which is fetched when it is first shown.
import type { Component } from "svelte";
import type { IconName } from "./ui/icons";

export interface PageProps {
  /** What `:name` in the pattern stands for. */
  params: Record<string, string>;
}

export interface Page {
  /** Its address behind `#`. */
  pattern: string;
  title: string;
  /** Whether it is in the navigation, and how it looks there. */
  icon?: IconName;
  /** The page in the navigation to which it belongs. */
  within?: string;
  /** Goes there after `g`. */
  shortcut?: string;
  /** Fills the window, without room around it and without scrolling. */
  full?: boolean;
  /** A component that takes `PageProps`, or nothing. */
  load: () => Promise<{ default: Component<PageProps> | Component<Record<string, never>> }>;
}

export const pages: Page[] = [
  { pattern: "/", title: "Home", icon: "home", shortcut: "h", load: () => import("./pages/Home.svelte") },
  { pattern: "/flows", title: "Flows", icon: "flow", shortcut: "f", load: () => import("./pages/Flows.svelte") },
  { pattern: "/flows/:flow", title: "Flow", within: "/flows", full: true, load: () => import("./pages/Flow.svelte") },
  { pattern: "/flows/:flow/edit", title: "Flow", within: "/flows", full: true, load: () => import("./pages/Flow.svelte") },
  { pattern: "/cluster", title: "Cluster", icon: "cluster", shortcut: "c", load: () => import("./pages/Cluster.svelte") },
  { pattern: "/cluster/:node", title: "Node", within: "/cluster", load: () => import("./pages/ClusterNode.svelte") },
  { pattern: "/broker", title: "Broker", icon: "broker", shortcut: "b", load: () => import("./pages/Broker.svelte") },
  { pattern: "/plugins", title: "Plug-ins", icon: "plugin", shortcut: "p", load: () => import("./pages/Plugins.svelte") },
  { pattern: "/crawls", title: "Crawls", icon: "crawl", shortcut: "w", load: () => import("./pages/Crawls.svelte") },
  { pattern: "/crawls/:flow", title: "Crawl", within: "/crawls", load: () => import("./pages/CrawlFlow.svelte") },
  { pattern: "/services", title: "Services", icon: "service", shortcut: "s", load: () => import("./pages/Services.svelte") },
  { pattern: "/alerts", title: "Alerts", icon: "bell", shortcut: "a", load: () => import("./pages/Alerts.svelte") },
  { pattern: "/logs", title: "Logs", icon: "logs", shortcut: "l", load: () => import("./pages/Logs.svelte") },
  // All parts of the design on one page, while developing only.
  ...(import.meta.env.DEV ? [{ pattern: "/gallery", title: "Gallery", load: () => import("../dev/Gallery.svelte") }] : []),
];
