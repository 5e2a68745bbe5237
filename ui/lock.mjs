// Takes addresses out of package-lock.json, which npm puts there for people who want to give money. After every change of
// a dependency: npm install && node lock.mjs
import { readFile, writeFile } from "node:fs/promises";

const file = new URL("package-lock.json", import.meta.url);
const lock = JSON.parse(await readFile(file, "utf8"));
for (const one of Object.values(lock.packages)) {
  delete one.funding;
  delete one.resolved;
}
await writeFile(file, `${JSON.stringify(lock, null, 2)}\n`);
