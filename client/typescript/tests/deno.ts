// A program for Deno: deno run build/deno.js URL

import process from "node:process";
import { smoke } from "./smoke.js";

await smoke(process.argv[2]!, true);
console.log("done");
