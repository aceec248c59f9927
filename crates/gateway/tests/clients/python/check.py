"""The calls of users of redis-py, against the gateway at a port, in protocol 2 or 3."""

import asyncio
import sys

import redis
import redis.asyncio

port, protocol = int(sys.argv[1]), int(sys.argv[2])
client = redis.Redis(port=port, protocol=protocol, decode_responses=True)
client.flushdb()

assert client.ping()
assert client.set("greeting", "hello") is True
assert client.get("greeting") == "hello"
assert client.get("nothing") is None
assert client.set("greeting", "other", nx=True) is None
assert client.set("greeting", "hi", xx=True, get=True) == "hello"
assert client.setnx("greeting", "x") is False
assert client.getset("greeting", "ho") == "hi"
assert client.append("greeting", "!") == 3
assert client.getrange("greeting", 0, -2) == "ho"
assert client.strlen("greeting") == 3
assert client.type("greeting") == "string"
assert client.getdel("greeting") == "ho!"
assert client.exists("greeting") == 0

assert client.incr("counter") == 1
assert client.incrby("counter", 10) == 11
assert client.decr("counter", 2) == 9
assert client.mset({"a": 1, "b": 2}) is True
assert client.mget("a", "nothing", "b") == ["1", None, "2"]
assert client.delete("a", "b", "nothing") == 2

assert client.set("k", "v", ex=100) and 0 < client.ttl("k") <= 100
assert client.expire("k", 50, gt=True) == 0 and client.expire("k", 500) == 1
assert client.getex("k", px=90_000) == "v" and 0 < client.pttl("k") <= 90_000
assert client.expiretime("k") * 1000 <= client.pexpiretime("k") + 500
assert client.incr("hits") == 1 and client.pexpire("hits", 60_000) and client.incr("hits") == 2
assert client.ttl("hits") > 0 and client.persist("hits") and client.ttl("hits") == -1
assert client.setex("s", 100, "v") and client.psetex("s", 100_000, "w") and client.ttl("nothing") == -2
assert client.expireat("s", 1) == 1 and client.get("s") is None
assert client.delete("k", "hits") == 2
try:
    client.execute_command("SET", "k", "v", "IFNE", "w")
    raise SystemExit("a condition was ignored")
except redis.ResponseError as error:
    assert str(error) == "SET option IFNE is not supported by this store", error

for number in range(100):
    client.set(f"key:{number}", number)
assert len(set(client.scan_iter(match="key:*", count=7))) == 100
assert len(client.keys("key:*")) == 100
assert client.dbsize() == 101
assert client.randomkey() is not None

with client.pipeline(transaction=False) as pipe:
    for number in range(200):
        pipe.set(f"pipe:{number}", number).get(f"pipe:{number}")
    replies = pipe.execute()
assert replies[1::2] == [str(number) for number in range(200)], replies[:10]

with client.pipeline() as pipe:
    pipe.set("whole", 1).incr("whole").get("whole").mget("whole", "nothing").delete("pipe:0")
    assert pipe.execute() == [True, 2, "2", ["2", None], 1]
with client.pipeline() as pipe:
    pipe.watch("whole")
    pipe.multi()
    pipe.set("whole", int(client.get("whole")) + 1)
    client.set("whole", 7)
    try:
        pipe.execute()
        raise SystemExit("a watched key has changed")
    except redis.WatchError:
        pass
assert client.transaction(lambda pipe: (pipe.multi(), pipe.incr("whole")), "whole") == [8]
assert client.msetnx({"whole": 1, "new": 1}) is False and client.delete("whole") == 1


def pipelined(count):
    with client.pipeline() as pipe:
        for number in range(count):
            pipe.set(f"many:{number}", number).get(f"many:{number}")
        return pipe.execute()


keys = client.dbsize()
try:
    pipelined(5000)
    raise SystemExit("a transaction was longer than a batch")
except redis.ResponseError as error:
    assert "5000 keys" in str(error), error
assert client.dbsize() == keys
with client.pipeline() as pipe:
    for number in range(5000):
        pipe.get(f"none:{number}")
    assert pipe.execute() == [None] * 5000
assert pipelined(4000)[1::2] == [str(number) for number in range(4000)]
assert client.delete(*(f"many:{number}" for number in range(4000))) == 4000

assert client.wait(0, 10) == 0
assert client.waitaof(0, 0, 10) in ([0, 0], [1, 0])
info = client.info()
assert info["loading"] == 0 and info["redis_version"], info
assert client.config_get("appendonly") in ({"appendonly": "yes"}, {"appendonly": "no"})
assert client.client_setname("checker") and client.client_getname() == "checker"
assert client.client_id() > 0
assert client.command_count() > 30

raw = redis.Redis(port=port, protocol=protocol)
binary = bytes(range(256))
assert raw.set(binary, binary * 1000)
assert raw.get(binary) == binary * 1000


async def together():
    connection = redis.asyncio.Redis(port=port, protocol=protocol)
    await connection.set("sum", 0)
    await asyncio.gather(*(connection.incr("sum") for _ in range(100)))
    assert await connection.get("sum") == b"100"
    await connection.aclose()


asyncio.run(together())
client.flushdb()
assert client.dbsize() == 0
print("done")
