// Makes the bundle in out: it generates the types of the API, checks all types, bundles, and
// lists the licences of what is bundled.
import { execFileSync } from "node:child_process";
import { copyFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

// bytesMax bounds the sum of all files, each compressed with gzip.
const bytesMax = 350 * 1024;

const tool = (name, ...args) => execFileSync(process.execPath, [name, ...args], { stdio: ["ignore", "ignore", "inherit"] });
tool("node_modules/openapi-typescript/bin/cli.js", "openapi.json", "-o", "src/openapi.d.ts");
execFileSync(process.execPath, ["node_modules/typescript/bin/tsc", "--noEmit"], { stdio: "inherit" });

const result = await build({
	entryPoints: { console: "src/main.tsx" },
	bundle: true, minify: !process.env.PLAIN, format: "esm", target: "es2022", charset: "utf8", legalComments: "none",
	loader: { ".fga": "text", ".yaml": "text" },
	jsx: "automatic", jsxImportSource: "preact", outdir: "out", metafile: true, logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) copyFileSync(`src/${name}`, `out/${name}`);

const packages = new Set();
for (const input of Object.keys(result.metafile.inputs)) {
	const name = /node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(input);
	if (name) packages.add(name[1]);
}
let licences = "The console contains these packages of npm. The list is made by build.mjs.\n";
for (const name of [...packages].sort()) {
	const folder = `node_modules/${name}`;
	const about = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
	const file = readdirSync(folder).find((n) => /^licen[cs]e/i.test(n));
	if (!file || !existsSync(`${folder}/${file}`)) throw new Error(`${name} has no licence`);
	licences += `\n${"-".repeat(72)}\n${name} ${about.version}: ${about.license}\n\n${readFileSync(`${folder}/${file}`, "utf8").trim()}\n`;
}
writeFileSync("out/LICENSES.txt", licences);

let sum = 0;
for (const name of readdirSync("out")) {
	const size = gzipSync(readFileSync(`out/${name}`)).length;
	console.log(`${name}: ${size} bytes with gzip`);
	if (!name.endsWith(".txt")) sum += size;
}
if (sum > bytesMax) throw new Error(`the console has ${sum} bytes with gzip: expected at most ${bytesMax}`);
