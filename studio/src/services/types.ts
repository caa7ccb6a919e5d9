// The types of services, by short names.
import type { components } from "../api/schema";

type Schemas = components["schemas"];

export type Services = Schemas["Services"];
export type ServiceRoute = Schemas["ServiceRoute"];
export type Times = Schemas["TimesExplained"];
export type ServiceClass = Schemas["Class"];
export type Conflict = Schemas["Conflict"];
export type MountedService = Schemas["MountedService"];
export type MountedRoute = Schemas["RouteExplained"];
export type MountedState = Schemas["StateExplained"];
