// The calls of users of node-redis, against the gateway at a port, in both protocols.
import assert from "node:assert/strict";
import { createClient } from "redis";

const port = Number(process.argv[2]);
for (const RESP of [2, 3]) {
  const client = createClient({ socket: { port }, RESP });
  client.on("error", (error) => { throw error; });
  await client.connect();
  await client.flushDb();
  assert.equal(await client.ping(), "PONG");
  assert.equal(await client.set("greeting", "hello"), "OK");
  assert.equal(await client.get("greeting"), "hello");
  assert.equal(await client.get("nothing"), null);
  assert.equal(await client.set("greeting", "x", { condition: "NX" }), null);
  assert.equal(await client.getDel("greeting"), "hello");
  assert.equal(await client.set("k", "v", { expiration: { type: "EX", value: 100 } }), "OK");
  assert.ok((await client.ttl("k")) > 0);
  assert.equal(await client.del("k"), 1);
  // Commands of one turn go out as one pipeline.
  const sums = await Promise.all(Array.from({ length: 100 }, () => client.incr("counter")));
  assert.deepEqual(sums, Array.from({ length: 100 }, (_, index) => index + 1));
  await Promise.all(Array.from({ length: 100 }, (_, index) => client.set(`key:${index}`, `${index}`)));
  assert.deepEqual(await client.mGet(["key:1", "nothing", "key:2"]), ["1", null, "2"]);
  const keys = new Set();
  for await (const page of client.scanIterator({ MATCH: "key:*", COUNT: 10 })) {
    [page].flat().forEach((key) => keys.add(key));
  }
  assert.equal(keys.size, 100);
  assert.equal(await client.dbSize(), 101);
  assert.match(await client.info(), /loading:0/);
  assert.equal(await client.del(["key:1", "nothing"]), 1);
  await client.close();
}
console.log("done");
