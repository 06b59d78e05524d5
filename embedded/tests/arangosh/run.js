// Runs script files as arangosh would: node run.js --socket S [--user U] [--password P] [--only REGEX] FILE.js …
'use strict';
const path = require('path');
const { makeShell } = require('./shell');
const { printed } = require('./print');

function options(words) {
  const out = { files: [] };
  for (let at = 0; at < words.length; at += 1) {
    const match = /^--(socket|user|password|database|only)$/.exec(words[at]);
    if (match) { at += 1; out[match[1]] = words[at]; } else out.files.push(words[at]);
  }
  return out;
}

function main() {
  const given = options(process.argv.slice(2));
  if (!given.socket || given.files.length === 0) {
    process.stderr.write('usage: node run.js --socket FILE [--user NAME] [--password TEXT] [--database NAME] [--only REGEX] SCRIPT.js …\n');
    process.exit(64);
  }
  const shell = makeShell(given);
  if (given.database) shell.connection.database = given.database;
  if (given.only) shell.unit.state.only = new RegExp(given.only);
  let failed = 0;
  for (const file of given.files) {
    try {
      const result = shell.loadFile(path.resolve(file));
      if (result && result.status === false) failed += 1;
    } catch (error) {
      failed += 1;
      process.stderr.write(`${file}: ${error && error._PRINT ? printed(error) : ''} ${error.stack}\n`);
    }
  }
  shell.close();
  process.exitCode = failed === 0 ? 0 : 1;
}

main();
