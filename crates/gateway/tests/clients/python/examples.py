"""The examples for Redis clients, against the gateway at a port: `examples.py FOLDER PORT`."""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import redis

sys.path.insert(0, sys.argv[1])
from rate_limiter import RateLimiter
from session_cache import Sessions

client = redis.Redis(port=int(sys.argv[2]))
client.flushdb()


def a_session_stays_while_it_is_used_and_ends_when_it_is_not():
    sessions = Sessions(client, idle_ms=1000)
    used, unused = sessions.begin({"user": "Ada"}), sessions.begin({"user": "Bob"})
    for _ in range(6):
        time.sleep(0.3)
        assert sessions.use(used) == {"user": "Ada"}
    assert sessions.use(unused) is None
    assert sessions.end(used) and not sessions.end(used)
    assert sessions.use(used) is None


def a_caller_has_so_many_calls_in_a_window_however_many_threads_ask():
    limiter = RateLimiter(client, calls=25, window_ms=2000)
    with ThreadPoolExecutor(8) as threads:
        allowed = list(threads.map(lambda _: limiter.allows("Ada"), range(100)))
    assert sum(allowed) == 25, sum(allowed)
    assert limiter.allows("Bob")
    assert 0 < client.pttl("calls:Ada") <= 2000
    time.sleep(2.1)
    assert limiter.allows("Ada")


a_session_stays_while_it_is_used_and_ends_when_it_is_not()
a_caller_has_so_many_calls_in_a_window_however_many_threads_ask()
print("done")
