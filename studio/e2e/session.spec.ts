// Who may see the studio.
import { expect, picture, place, test } from "./studio";

test("without a token there is only the page that asks for it", async ({ page, watch }) => {
  // A token that is not taken is an answer with 401.
  watch.allowed.push(/401 \(Unauthorized\)/);
  await page.goto("/#/flows");
  await expect(page.getByRole("heading", { name: "Sign in to Hivewire" })).toBeVisible();
  await expect(page.getByRole("navigation")).toHaveCount(0);
  await picture(page, "sign-in");
  const token = page.getByLabel("Token", { exact: true });
  const button = page.getByRole("button", { name: "Sign in" });
  await button.click();
  await expect(page.getByText("Paste the token of the node here.")).toBeVisible();
  await token.fill("wrong");
  await button.click();
  await expect(page.getByText("The node does not take this token.")).toBeVisible();
  await token.fill(place.token);
  await button.click();
  // Where one wanted to go.
  await expect(page.getByRole("heading", { level: 1, name: "Flows" })).toBeVisible();
  await page.reload();
  await expect(page.getByRole("heading", { level: 1, name: "Flows" })).toBeVisible();
});

test("the address that the node prints signs in, and the token leaves it", async ({ page, watch }) => {
  // What is asked at the moment of signing out.
  watch.allowed.push(/401 \(Unauthorized\)/);
  await page.goto(`/#token=${place.token}`);
  await expect(page.getByRole("heading", { level: 1 })).toBeVisible();
  expect(page.url()).not.toContain(place.token);
  expect(page.url()).not.toContain("token");
  await page.getByRole("button", { name: "Theme, help, sign out" }).click();
  await page.getByRole("menuitem", { name: "Sign out" }).click();
  await expect(page.getByRole("heading", { name: "Sign in to Hivewire" })).toBeVisible();
  expect(await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }]))).not.toContain(place.token);
});
