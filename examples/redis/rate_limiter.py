"""A limit of calls for each caller and window of time, in a gateway of Stonecast.

    pip install redis
    stonecast serve --resp 127.0.0.1:6379 &
    python rate_limiter.py redis://127.0.0.1:6379/0

Counter and expiry of a window come into being in one transaction: whatever dies in between, no counter without an expiry stays
behind and locks its caller out.
"""

import sys

import redis


class RateLimiter:
    def __init__(self, client: redis.Redis, calls: int, window_ms: int):
        self._client, self._calls, self._window_ms = client, calls, window_ms

    def allows(self, caller: str) -> bool:
        """Counts a call of `caller`, and returns whether it is among the first of the window."""
        key = f"calls:{caller}"
        with self._client.pipeline(transaction=True) as transaction:
            # The first call of a window sets its end, and INCR keeps it.
            transaction.set(key, 0, px=self._window_ms, nx=True).incr(key)
            _, calls = transaction.execute()
        return calls <= self._calls


if __name__ == "__main__":
    limiter = RateLimiter(redis.Redis.from_url(sys.argv[1]), calls=3, window_ms=1000)
    for call in range(1, 6):
        print(f"call {call}: {'allowed' if limiter.allows('Ada') else 'refused'}")
