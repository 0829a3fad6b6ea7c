// What the package does on every platform: inserts, performs, waits.

import { Client, Worker, jsonOf, textOf } from "@stint-tasks/client";

function same(found: unknown, wanted: unknown): void {
  const [one, other] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (one !== other) throw new Error(`found ${one}, wanted ${other}`);
}

/** Performs tasks by a worker, which the service sees if it can keep a stream. */
export async function smoke(server: string, seen: boolean): Promise<void> {
  const client = new Client(server);
  const action = `smoke-${crypto.randomUUID()}`;
  const ids = [`${action}/a`, `${action}/b`];
  await client.insert([
    { action, id: ids[0]!, body: Uint8Array.of(0, 255), postResult: true },
    { action, id: ids[1]!, body: '{"ä": 1}', after: ids[0]!, postResult: true },
  ]);
  const worker = new Worker(client);
  worker.handles(action, async (task) => {
    const sees = async () => (await client.actors()).some((each) => each.actions.includes(action));
    while (seen && !(await sees())) await new Promise((resolve) => setTimeout(resolve, 10));
    const inputs = await task.inputs();
    if (inputs.length === 0) return task.body;
    const step = await task.step("of JSON", () => jsonOf(task.body));
    return JSON.stringify([step, [...inputs[0]!.result!]]);
  });
  const running = worker.run();
  const [first, second] = await client.wait(ids, { timeout: 60 });
  same([...first!.result!], [0, 255]);
  same(textOf(second!.result), '[{"ä":1},[0,255]]');
  const [none] = await Promise.all([
    client.own("nobody", `${action}/none`, { wait: 0.01 }), worker.stop(), running]);
  same(none, []);
}
