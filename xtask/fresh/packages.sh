# The package of Debian and the image, with the binary that the first commands have built.
cargo xtask packaging --program target/release/stonecast
cd target/packaging

dpkg --install stonecast_*.deb
stonecast --version
test -f /usr/share/man/man1/stonecast-serve.1.gz
# The example promises durability through a power failure, and /tmp is volatile memory here.
pool=/var/lib/packaged
stonecast serve --config /etc/stonecast/stonecast.toml --data "$pool" --listen "shm:$pool/socket" --capacity 64MiB \
    --resp 127.0.0.1:0 --admin 127.0.0.1:0 --ready-file /tmp/packaged.ready &
server=$!
until test -f /tmp/packaged.ready; do
    kill -0 "$server"
    sleep 0.2
done
stonecast put greeting hello --connect "shm:$pool/socket"
test "$(stonecast get greeting --connect "shm:$pool/socket")" = hello
kill -TERM "$server"
wait "$server"
dpkg --purge stonecast
test ! -e /usr/bin/stonecast
test ! -e /etc/stonecast/stonecast.toml

# The image: each name is a hash of its content, and the binary finds its libraries in the layer alone.
mkdir /tmp/image /tmp/container
tar --extract --file stonecast-*-oci.tar --directory /tmp/image
(cd /tmp/image/blobs/sha256 && for blob in *; do echo "$blob  $blob"; done | sha256sum --check --quiet)
for blob in /tmp/image/blobs/sha256/*; do
    if tar --list --file "$blob" >/dev/null 2>&1; then
        tar --extract --file "$blob" --directory /tmp/container
    fi
done
chroot /tmp/container /usr/bin/stonecast --version
# The user of the image owns its volumes, and a server and a client reach each other from two containers.
mkdir /tmp/container/proc
contained() {
    exec unshare --pid --mount --propagation unchanged --fork --kill-child --mount-proc=/tmp/container/proc \
        chroot --userspec=65534:65534 /tmp/container /usr/bin/stonecast "$@"
}
contained serve --data /var/lib/stonecast --listen shm:/run/stonecast/socket --durability process --capacity 64MiB \
    --ready-file /run/stonecast/ready &
server=$!
until test -f /tmp/container/run/stonecast/ready; do
    kill -0 "$server"
    sleep 0.2
done
(contained put greeting hello --connect shm:/run/stonecast/socket)
test "$(contained get greeting --connect shm:/run/stonecast/socket)" = hello
kill -KILL "$server"
wait "$server" || true
