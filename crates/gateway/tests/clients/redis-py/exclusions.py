"""The tests of redis-py that a store of strings cannot pass, with the reasons.

A plugin of pytest. A test is excluded if it fails with the refusal of a command that COMMANDS names, or if TESTS names it. Every other
failure is a failure, and a name in TESTS of a test that is run and excludes nothing is one, too. The tests in NOT_RUN are left out from the start.
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
    SUBSTRINGS: "LCS SUBSTR",
    MONITORING: "BGREWRITEAOF BGSAVE DEBUG LASTSAVE LATENCY LOLWUT MONITOR SAVE",
    COPIES: "FAILOVER MODULE PSYNC REPLICAOF ROLE SLAVEOF SYNC",
    DUMPS: "DUMP MIGRATE RESTORE",
    DATABASES: "MOVE SELECT SWAPDB",
}

# Commands of which the gateway has some subcommands, with those that it does not have.
SUBCOMMANDS = {
    ACCESS: {"ACL": "HELP LOG"},
    CONNECTIONS: {"CLIENT": "GETREDIR NO-EVICT NO-TOUCH PAUSE REPLY TRACKING TRACKINGINFO UNBLOCK UNPAUSE"},
    MONITORING: {"CONFIG": "RESETSTAT SET", "MEMORY": "MALLOC-STATS STATS"},
}

ALL_COMMANDS = "it expects the commands of Redis, or their number"
SETTINGS = "it reads settings that the gateway does not have"
OTHER_COMMANDS = "it gives a user the right to a command of hashes, which the gateway does not have"
IDLE_TIMES = "times without a read: a one-sided read leaves no trace at the server"

TESTS = {
    "test_select": DATABASES,
    "test_acl_getuser_setuser": OTHER_COMMANDS,
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
}

ELSEWHERE = "it connects to the default port, where another server may be"
SLOW = "it waits for seconds for a command of Redis's own replication"

SELECTED = "asynchronous, it begins by choosing another database: " + DATABASES
CLUSTER = "it is a test of Redis's own cluster"

NOT_RUN = {
    "test_bitfield_operations": SELECTED,
    "test_mset_on_cluster_multiple_slots": CLUSTER,
    "test_client_setinfo": ELSEWHERE,
    "test_client_setinfo_with_driver_info": ELSEWHERE,
    "test_psync": SLOW,
    "test_sync": SLOW,
}

REASONS = {name: reason for reason, names in COMMANDS.items() for name in names.split()}
REASONS |= {
    f"{command} {name}": reason
    for reason, commands in SUBCOMMANDS.items()
    for command, names in commands.items()
    for name in names.split()
}
REFUSED = re.compile(
    r"unknown command '(\w+)'"
    r"|^(?:Command # \d+ \(.*\) of pipeline caused error: )?(\w+)(?: ([A-Za-z-]+))?(?: option \S+)? is not supported by this store"
)


def _name_of(item):
    """The name of the function: asynchronous tests have the way of connecting in the name of the item."""
    return item.originalname


def _reason_of(item, error):
    name = _name_of(item)
    if name in TESTS:
        return TESTS[name]
    if not (refused := REFUSED.search(str(error))):
        return None
    unknown, command, subcommand = (name and name.upper() for name in refused.groups())
    return REASONS.get(unknown or command) or REASONS.get(f"{command} {subcommand}")


class Exclusions:
    def __init__(self):
        self.excluded, self.run, self.used = {}, set(), set()

    def pytest_collection_modifyitems(self, config, items):
        left_out = [item for item in items if _name_of(item) in NOT_RUN]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
        self.run = {_name_of(item) for item in items}

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item, call):
        report = (yield).get_result()
        if report.failed and (reason := _reason_of(item, call.excinfo.value)):
            self.used.add(_name_of(item))
            self.excluded[reason] = self.excluded.get(reason, 0) + 1
            report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {reason}")

    def pytest_sessionfinish(self, session):
        stale = sorted((TESTS.keys() & self.run) - self.used)
        if stale:
            print(f"\nexclusions without a failure: {', '.join(stale)}")
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter):
        for reason, count in sorted(self.excluded.items()):
            terminalreporter.write_line(f"excluded: {count} for {reason}")


def pytest_configure(config):
    config.pluginmanager.register(Exclusions())
