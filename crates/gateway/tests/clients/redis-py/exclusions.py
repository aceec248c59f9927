"""The tests of redis-py that a store of strings cannot pass, with the reasons.

A plugin of pytest. A test is excluded if it fails with the refusal of a command that COMMANDS names, or if TESTS names it. Every other
failure is a failure, and a name in TESTS that excludes nothing is one, too. The tests in NOT_RUN are left out from the start.
"""

import re

import pytest

LISTS = "lists: a value is a string"
HASHES = "hashes: a value is a string"
SETS = "sets: a value is a string"
SORTED = "sorted sets and geographical indexes: a value is a string"
STREAMS = "streams: a value is a string"
COUNTERS = "HyperLogLog: a value is a string"
BITS = "single bits of values"
SCRIPTS = "scripts and functions: the gateway has no interpreter"
CHANNELS = "publish and subscribe: the store keeps keys alone"
MONITORING = "Redis's own means of administration: the admin port has metrics and status"
COPIES = "Redis's own replication, persistence and modules"
DUMPS = "Redis's own format of values"
ACCESS = "a log of denied commands, help, and users kept by the server: users are in a file, and rules have no selectors"
CONNECTIONS = "control of other connections, and caches that the server invalidates"
SUBSTRINGS = "common substrings, and the old name of GETRANGE"
DATABASES = "several databases: a pool has one space of keys"

COMMANDS = {
    LISTS: "BLMOVE BLMPOP BLPOP BRPOP BRPOPLPUSH LINDEX LINSERT LLEN LMOVE LMPOP LPOP LPOS LPUSH LPUSHX LRANGE LREM LSET LTRIM "
    "RPOP RPOPLPUSH RPUSH RPUSHX SORT SORT_RO",
    HASHES: "HDEL HEXISTS HGET HGETALL HINCRBY HINCRBYFLOAT HKEYS HLEN HMGET HMSET HRANDFIELD HSCAN HSET HSETNX HSTRLEN HVALS",
    SETS: "SADD SCARD SDIFF SDIFFSTORE SINTER SINTERCARD SINTERSTORE SISMEMBER SMEMBERS SMISMEMBER SMOVE SPOP SRANDMEMBER SREM SSCAN "
    "SUNION SUNIONSTORE",
    SORTED: "BZMPOP BZPOPMAX BZPOPMIN GEOADD GEODIST GEOHASH GEOPOS GEORADIUS GEORADIUSBYMEMBER GEOSEARCH GEOSEARCHSTORE ZADD ZCARD "
    "ZCOUNT ZDIFF ZDIFFSTORE ZINCRBY ZINTER ZINTERCARD ZINTERSTORE ZLEXCOUNT ZMPOP ZMSCORE ZPOPMAX ZPOPMIN ZRANDMEMBER ZRANGE "
    "ZRANGEBYLEX ZRANGEBYSCORE ZRANGESTORE ZRANK ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREVRANGE ZREVRANGEBYLEX "
    "ZREVRANGEBYSCORE ZREVRANK ZSCAN ZSCORE ZUNION ZUNIONSTORE",
    STREAMS: "XACK XADD XAUTOCLAIM XCLAIM XDEL XGROUP XINFO XLEN XPENDING XRANGE XREAD XREADGROUP XREVRANGE XTRIM",
    COUNTERS: "PFADD PFCOUNT PFMERGE",
    BITS: "BITCOUNT BITFIELD BITFIELD_RO BITOP BITPOS GETBIT SETBIT",
    SCRIPTS: "EVAL EVALSHA FCALL FUNCTION SCRIPT",
    CHANNELS: "PSUBSCRIBE PUBLISH PUBSUB SUBSCRIBE",
    CONNECTIONS: "CLIENT",
    SUBSTRINGS: "LCS SUBSTR",
    MONITORING: "BGREWRITEAOF BGSAVE CONFIG DEBUG LASTSAVE LATENCY LOLWUT MEMORY MONITOR OBJECT SAVE SLOWLOG",
    COPIES: "FAILOVER MODULE PSYNC REPLICAOF ROLE SLAVEOF SYNC",
    DUMPS: "DUMP MIGRATE RESTORE",
    ACCESS: "ACL",
    DATABASES: "MOVE SELECT SWAPDB",
}

ALL_COMMANDS = "it expects the commands of Redis, or their number"
SETTINGS = "it reads settings that the gateway does not have"
SIZES = "a value has at most 1 MiB"
IDLE_TIMES = "times without a read: a one-sided read leaves no trace at the server"

TESTS = {
    "test_select": DATABASES,
    "test_acl_getuser_setuser": ACCESS,
    "test_client_kill_filter_by_user": ALL_COMMANDS,
    "test_object": IDLE_TIMES,
    "test_copy_to_another_database": DATABASES,
    "test_command": ALL_COMMANDS,
    "test_command_count": ALL_COMMANDS,
    "test_command_list": ALL_COMMANDS,
    "test_command_getkeys": ALL_COMMANDS,
    "test_command_getkeysandflags": ALL_COMMANDS,
    "test_module": COPIES,
    "test_module_loadex": COPIES,
    "test_config_get_multi_params": SETTINGS,
    "test_slowlog_get": SETTINGS,
    "test_slowlog_get_limit": SETTINGS,
    "test_slowlog_length": SETTINGS,
    "test_large_responses": SIZES,
}

ELSEWHERE = "it connects to the default port, where another server may be"
SLOW = "it waits for seconds for a command of Redis's own replication"

CLUSTER = "it is a test of Redis's own cluster"

NOT_RUN = {
    "test_mset_on_cluster_multiple_slots": CLUSTER,
    "test_client_setinfo": ELSEWHERE,
    "test_client_setinfo_with_driver_info": ELSEWHERE,
    "test_psync": SLOW,
    "test_sync": SLOW,
}

REASONS = {name: reason for reason, names in COMMANDS.items() for name in names.split()}
REFUSED = re.compile(
    r"unknown command '(\w+)'|^(?:Command # \d+ \(.*\) of pipeline caused error: )?(\w+)(?: [A-Z-]+)? is not supported by this store"
)


def _name_of(item):
    return item.nodeid.rsplit("::", 1)[-1]


def _reason_of(item, error):
    name = _name_of(item)
    if name in TESTS:
        return TESTS[name]
    refused = REFUSED.search(str(error))
    return refused and REASONS.get((refused[1] or refused[2]).upper())


class Exclusions:
    def __init__(self):
        self.excluded, self.used = {}, set()

    def pytest_collection_modifyitems(self, config, items):
        left_out = [item for item in items if _name_of(item) in NOT_RUN]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = (yield).get_result()
        if report.failed and (reason := _reason_of(item, call.excinfo.value)):
            self.used.add(_name_of(item))
            self.excluded[reason] = self.excluded.get(reason, 0) + 1
            report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {reason}")

    def pytest_sessionfinish(self, session):
        stale = sorted(TESTS.keys() - self.used)
        if stale:
            print(f"\nexclusions without a failure: {', '.join(stale)}")
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter):
        for reason, count in sorted(self.excluded.items()):
            terminalreporter.write_line(f"excluded: {count} for {reason}")


def pytest_configure(config):
    config.pluginmanager.register(Exclusions())
