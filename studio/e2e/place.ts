// Where the tests take place: what the one who starts them says in the environment.
function needed(name: string): string {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: these tests are started by tests/tests/studio.rs, see e2e/README.md`);
  return value;
}

export const place = {
  /** The address of the studio, without a path. */
  url: needed("STUDIO_URL"),
  token: needed("STUDIO_TOKEN"),
  /** Hosts with ports of the site that is there to be crawled; all pages of one can be reached from its first. */
  hosts: needed("STUDIO_SITE").split(","),
  /** The names of the node and of the one that joins it when asked to. */
  node: needed("STUDIO_NODE"),
  other: needed("STUDIO_OTHER"),
  /** A component that can be uploaded. */
  component: needed("STUDIO_COMPONENT"),
  /** Where wishes, pictures and what is left of failures go. */
  folder: needed("STUDIO_FOLDER"),
};
