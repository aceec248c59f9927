# enter ROOT TOOLCHAIN LIMIT COMMAND [NAME=VALUE]...: runs COMMAND in the system at ROOT. It runs in a space of mounts and
# processes of its own: whatever ends it, its mounts and processes end with it.
root=$1
toolchain=$2
limit=$3
command=$4
shift 4
mount --bind "$toolchain" "$root/rust"
mount -o remount,bind,ro "$root/rust"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount --rbind /dev "$root/dev"
# The system shares no memory, and no temporary files, with this one.
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t tmpfs tmpfs "$root/tmp"
path=/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
status=0
timeout --signal KILL "$limit" chroot "$root" \
    env -i HOME=/root LANG=C.UTF-8 PATH="$path" "$@" \
    sh -euc "cd /src/stonecast && $command" || status=$?
# What `timeout` says of a command that it had to kill.
[ "$status" != 137 ] || echo "killed, after $limit seconds at most"
exit "$status"
