# Pools on persistent memory through the binary. `domain` is the kernel's statement about the memory, `platform` its meaning.

stonecast=${stonecast:-/programs/stonecast}

# serve POOL OPTION...: starts a server and waits until it is ready.
serve() {
    pool=$1
    shift
    rm -f /tmp/ready
    $stonecast serve --data "$pool" --ready-file /tmp/ready "$@" >/tmp/serve.output 2>&1 &
    server=$!
    await 30 test -e /tmp/ready || {
        cat /tmp/serve.output
        return 1
    }
}

# stop: ends the server in order.
stop() {
    kill "$server"
    wait "$server"
}

# kill_server: ends the server as a crash does.
kill_server() {
    kill -9 "$server"
    wait "$server" 2>/dev/null
    return 0
}

says() {
    text=$1
    shift
    "$@" >/tmp/says.output 2>&1 || { cat /tmp/says.output; return 1; }
    grep -q -e "$text" /tmp/says.output || { cat /tmp/says.output; return 1; }
}

# life POOL OPTION...: a pool is created, served, killed, served again, closed, verified.
life() {
    pool=$1
    shift
    export STONECAST_DATA=$pool
    case_ "$pool: a new pool is served" serve "$pool" --segment-size 1MiB "$@"
    case_ "$pool: a value is put" $stonecast put greeting hello
    case_ "$pool: a value is found" says '^hello$' $stonecast get greeting
    refused "$pool: a second server is refused" "is in use by another process (process $server)" \
        $stonecast serve --data "$pool" --listen shm:/tmp/other
    case_ "$pool: inspect names the server" says "by process $server" $stonecast inspect "$pool"
    kill_server
    case_ "$pool: what a killed server left verifies" $stonecast verify "$pool"
    case_ "$pool: a killed server's pool is served again" serve "$pool"
    case_ "$pool: acknowledged writes are there" says '^hello$' $stonecast get greeting
    case_ "$pool: a client closes in order" $stonecast delete greeting
    case_ "$pool: it is closed in order" stop
    case_ "$pool: its platform is $platform" says "\"platform\":\"$platform\"" $stonecast inspect "$pool" --json
    case_ "$pool: the pool reports that it was closed" says '"clean":true' $stonecast inspect "$pool" --json
    case_ "$pool: it verifies" $stonecast verify "$pool"
}
