import type { IconName } from "../ui/icons";

export interface Empty {
  icon?: IconName;
  title: string;
  /** What it is for and what to do next. */
  text: string;
  actions?: { label: string; icon?: IconName; variant?: "primary"; href?: string; onclick?: () => void }[];
}
