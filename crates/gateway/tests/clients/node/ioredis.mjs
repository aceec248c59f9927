// The calls of users of ioredis, against the gateway at a port.
import assert from "node:assert/strict";
import { Redis } from "ioredis";

const client = new Redis({ port: Number(process.argv[2]), enableAutoPipelining: true });
await client.flushdb();
assert.equal(await client.set("greeting", "hello"), "OK");
assert.equal(await client.get("greeting"), "hello");
assert.equal(await client.get("nothing"), null);
assert.equal(await client.getset("greeting", "hi"), "hello");
assert.equal(await client.set("k", "v", "EX", 100), "OK");
assert.ok((await client.ttl("k")) > 0);
assert.equal(await client.del("k"), 1);
const sums = await Promise.all(Array.from({ length: 100 }, () => client.incr("counter")));
assert.deepEqual(sums, Array.from({ length: 100 }, (_, index) => index + 1));
const pipeline = client.pipeline();
for (let index = 0; index < 100; index += 1) {
  pipeline.set(`key:${index}`, index).get(`key:${index}`);
}
const replies = await pipeline.exec();
assert.deepEqual(replies.filter((_, index) => index % 2).map(([error, value]) => [error, Number(value)]),
  Array.from({ length: 100 }, (_, index) => [null, index]));
const keys = new Set();
for await (const page of client.scanStream({ match: "key:*", count: 10 })) {
  page.forEach((key) => keys.add(key));
}
assert.equal(keys.size, 100);
assert.deepEqual(await client.getBuffer("key:7"), Buffer.from("7"));
await client.quit();
console.log("done");
