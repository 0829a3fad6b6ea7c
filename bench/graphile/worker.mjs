// Runs Graphile Worker for the benchmark. Its one argument is JSON: the url of the database, what it
// does, the names of the tasks, how many workers there are where that is for the workload to say,
// and after how many jobs to stop by itself, if at all.
//
// It writes "loaded", waits for a line on its standard input, works until that ends, and writes what
// it performs, a line each: if it does "hear", the body of a job, at once; otherwise how many jobs
// there were since the last line. By its end it has written all results to the database.

import { createInterface } from "node:readline";
import { Logger, run, runMigrations } from "graphile-worker";

const { url, does, tasks, workers, until } = JSON.parse(process.argv[2]);

const logger = new Logger(() => (level, message) => {
  if (level === "error") {
    console.error(message);
    process.exitCode = 1;
  }
});

const presets = {
  // That of its own performance test, but for the size of the local queue, which is 500 there.
  drain: {
    concurrentJobs: 24,
    maxPoolSize: 25,
    localQueue: { size: 2000, refetchDelay: { durationMs: 10 } },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
  // Its default: each worker takes one job and completes it.
  singly: { concurrentJobs: workers, maxPoolSize: Math.min(workers, 25) },
  // Its default, too: a local queue would wait before it looks again.
  hear: { concurrentJobs: 24, maxPoolSize: 25 },
};

// Milliseconds between two lines with numbers.
const beat = 10;

async function work() {
  let performed = 0;
  let told = 0;
  let stop;
  const stopped = new Promise((resolve) => (stop = resolve));
  const perform = async ({ body }) => {
    performed++;
    if (does === "hear") {
      console.log(body);
    } else if (performed === until) {
      stop();
    }
  };
  const tell = () => {
    if (performed > told) {
      console.log(performed - told);
      told = performed;
    }
  };

  console.log("loaded");
  const lines = createInterface({ input: process.stdin });
  await new Promise((resolve) => lines.once("line", resolve));
  lines.once("close", stop);
  const runner = await run({
    connectionString: url,
    logger,
    noHandleSignals: true,
    taskList: Object.fromEntries(tasks.map((name) => [name, perform])),
    preset: { worker: presets[does] },
  });
  const telling = does === "hear" ? undefined : setInterval(tell, beat);
  await Promise.race([stopped, runner.promise]);
  clearInterval(telling);
  await runner.stop();
  if (does !== "hear") {
    tell();
  }
  lines.close();
}

if (does === "migrate") {
  await runMigrations({ connectionString: url, logger });
} else {
  await work();
}
