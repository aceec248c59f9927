# The first commands of the README: a server, a put and a get.
said=/tmp/serve
: >"$said"
cargo run --release -- serve >"$said" 2>&1 &
server=$!
tail -f --pid="$server" "$said" &
until grep -q '^ready' "$said"; do
    kill -0 "$server"
    sleep 0.2
done
cargo run --release -- put greeting hello
test "$(cargo run --release -- get greeting)" = hello
kill -TERM "$server"
# Its status is the one of the script: it ends in order.
wait "$server"
