// A client for a sidecar, for Node 18 and newer, browsers' fetch, Deno and Bun. No dependencies.

const sidecar = globalThis.process?.env.SIDEGATE_URL ?? "http://localhost:9000";
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** What a refusal says: application/problem+json, RFC 9457. */
export class Refused extends Error {
  constructor(problem) {
    super(`${problem.title}: ${problem.detail}`);
    this.problem = problem;
  }
}

/** Publish, and return where the message is now. All tries have one id: it is stored once. */
export async function publish(topic, message, { key = null, id = crypto.randomUUID(), tries = 5 } = {}) {
  const body = JSON.stringify({ topic, message, key, id });
  for (;;) {
    const answer = await fetch(`${sidecar}/publish`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body,
    });
    if (answer.ok) return answer.json();
    if (![429, 503].includes(answer.status) || --tries <= 0) throw new Refused(await answer.json());
    await pause(1000 * Number(answer.headers.get("Retry-After") ?? 1));
  }
}

/** A topic's messages, for ever: `for await (const message of subscribe("orders"))`. */
export async function* subscribe(topic, { from = "latest", subscription = null } = {}) {
  const query = new URLSearchParams(subscription ? { from, subscription } : { from });
  let position = null;
  for (;;) {
    try {
      const headers = { Accept: "text/event-stream" };
      // Wins over `from`: go on where the last event was.
      if (position !== null) headers["Last-Event-ID"] = position;
      const answer = await fetch(`${sidecar}/subscribe/${encodeURIComponent(topic)}?${query}`, { headers });
      if (!answer.ok) throw new Refused(await answer.json());
      for await (const line of lines(answer.body)) {
        if (line.startsWith("id: ")) position = line.slice(4);
        else if (line.startsWith("data: ")) yield JSON.parse(line.slice(6));
      }
    } catch (error) {
      if (error instanceof Refused && error.problem.status < 500) throw error;
      console.error(`the connection broke: ${error.message}; trying again`);
    }
    await pause(1000);
  }
}

async function* lines(body) {
  let rest = "";
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    const found = (rest + chunk).split("\n");
    rest = found.pop() ?? "";
    yield* found;
  }
}
