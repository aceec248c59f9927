"""Sessions of a web application in a gateway of Stonecast: each use of a session keeps it for another half hour.

    pip install redis
    stonecast serve --resp 127.0.0.1:6379 &
    python session_cache.py redis://127.0.0.1:6379/0

A session that was begun survives whatever the store's writes survive. A session whose time is over is returned by no path, also after
a restart of the server with a clock that was set back.
"""

import json
import secrets
import sys

import redis


class Sessions:
    def __init__(self, client: redis.Redis, idle_ms: int = 1_800_000):
        self._client, self._idle_ms = client, idle_ms

    def begin(self, content: dict) -> str:
        """Stores a session durably, and returns its name."""
        name = secrets.token_urlsafe(16)
        # NX: another session with this name would be an error of the random source, and must not be overwritten.
        if not self._client.set(_key(name), json.dumps(content), px=self._idle_ms, nx=True):
            raise RuntimeError("the name of a new session is in use")
        return name

    def use(self, name: str) -> dict | None:
        """The content of a session, which is kept from now on for its idle time. None: there is no such session any more."""
        content = self._client.getex(_key(name), px=self._idle_ms)
        return None if content is None else json.loads(content)

    def end(self, name: str) -> bool:
        """Ends a session. False: it had ended."""
        return self._client.delete(_key(name)) == 1


def _key(name: str) -> str:
    return f"session:{name}"


if __name__ == "__main__":
    sessions = Sessions(redis.Redis.from_url(sys.argv[1]))
    name = sessions.begin({"user": "Ada"})
    print(f"session {name} of {sessions.use(name)['user']}")
    sessions.end(name)
