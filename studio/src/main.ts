import { mount } from "svelte";
import App from "./App.svelte";
import { router } from "./router/router.svelte";
import { session } from "./session/session.svelte";
import { theme } from "./shell/theme.svelte";
import "./styles/tokens.css";
import "./styles/base.css";

theme.begin();
// Before the router reads the address: the token must be out of it.
session.begin();
router.begin();
mount(App, { target: document.getElementById("studio") as HTMLElement });
