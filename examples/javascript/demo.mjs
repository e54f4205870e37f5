// node examples/javascript/demo.mjs [TOPIC]
import { Refused, publish, subscribe } from "./sidegate.mjs";

const topic = process.argv[2] ?? "javascript.demo";

for (const n of [1, 2, 3]) {
  const placed = await publish(topic, { n });
  console.log(`published ${n} at offset ${placed.offset}, ${placed.durability}`);
}
let seen = 0;
for await (const received of subscribe(topic, { from: "earliest" })) {
  console.log(`received ${JSON.stringify(received.message)} from ${received.principal}`);
  if (++seen === 3) break;
}
try {
  await publish("forbidden.fruit", 1);
} catch (error) {
  if (!(error instanceof Refused)) throw error;
  console.log(`refused: ${error.problem.code}, decision ${error.problem.decision_id}`);
}
process.exit();
