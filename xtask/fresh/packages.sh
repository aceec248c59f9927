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
