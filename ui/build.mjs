// Builds the user interface into the package: hashed names, one page that names them. `node build.mjs FOLDER` builds
// elsewhere, for the test that compares.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const folder = process.argv[2] ?? join(here, "../src/leveret/management/ui");
const shared = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  legalComments: "none",
  write: false,
  outdir: folder,
  entryNames: "[name]",
  logLevel: "warning",
};

async function save(name, contents) {
  const digest = createHash("sha256").update(contents).digest("hex").slice(0, 10);
  const [stem, ending] = [name.replace(/\.[^.]+$/, ""), name.slice(name.lastIndexOf("."))];
  const hashed = `${stem}-${digest}${ending}`;
  await writeFile(join(folder, hashed), contents);
  return hashed;
}

await mkdir(folder, { recursive: true });
for (const old of await readdir(folder)) {
  if (/\.(js|css|svg|html)$/.test(old)) await rm(join(folder, old));
}

const worker = await build({ ...shared, entryPoints: ["src/layout_worker.ts"] });
const workerName = await save("layout_worker.js", worker.outputFiles[0].contents);
const main = await build({
  ...shared,
  entryPoints: ["src/main.tsx"],
  define: { LAYOUT_WORKER: JSON.stringify(`/assets/${workerName}`) },
});
const names = {};
for (const file of main.outputFiles) {
  const name = basename(file.path);
  names[name] = await save(name, file.contents);
}
names["icon.svg"] = await save("icon.svg", await readFile(join(here, "src/icon.svg")));
let page = await readFile(join(here, "src/index.html"), "utf8");
for (const [plain, hashed] of Object.entries(names)) page = page.replaceAll(`{${plain}}`, `/assets/${hashed}`);
await writeFile(join(folder, "index.html"), page);
