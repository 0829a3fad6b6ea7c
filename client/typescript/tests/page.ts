// A program that takes the platform for that of a page: node build/page.js URL

const [server] = process.argv.slice(2);
const { log } = console;
const { smoke } = await import("./smoke.js");
delete (globalThis as Record<string, unknown>).process; // Node's own fetch needs the other names
await smoke(server!, false);
log("done");
