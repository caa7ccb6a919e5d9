// A plug-in of one's own.
import { expect, place, test } from "./studio";

test("a component is uploaded, shown, and in the palette", async ({ page, open, watch }) => {
  // One that does not say what it is called is refused first, and then named by hand.
  watch.allowed.push(/422 \(Unprocessable/);
  await open("/plugins");
  await page.getByRole("button", { name: "Add a plug-in" }).first().click();
  const dialog = page.getByRole("dialog", { name: "Add a plug-in" });
  await dialog.getByLabel("Component", { exact: true }).setInputFiles(place.component);
  const asks = dialog.getByRole("textbox", { name: "Id" });
  const chosen = page.locator("a[aria-current=true]");
  await expect(asks.or(chosen)).toBeVisible({ timeout: 60_000 });
  if (await asks.isVisible()) {
    await asks.fill("tests/uploaded");
    await dialog.getByRole("textbox", { name: "Version" }).fill("1.0.0");
    await dialog.getByRole("button", { name: "Add it" }).click();
  }
  await expect(dialog).toBeHidden({ timeout: 60_000 });
  await expect(page.getByText(/ is there$/)).toBeVisible();
  await expect(chosen).toBeVisible();
  const id = new URLSearchParams(new URL(page.url()).hash.split("?")[1]).get("plugin") ?? "";
  expect(id).not.toBe("");

  await open("/flows/uploads/edit");
  const palette = page.getByRole("complementary", { name: "Plug-ins" });
  await palette.getByRole("textbox", { name: "Search plug-ins" }).fill(id);
  await expect(palette.locator(`[data-plugin="${id}"]`)).toBeVisible();
});
