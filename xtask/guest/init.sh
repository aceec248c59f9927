#!/usr/bin/busybox sh
# The first process of the guest. Mounts the host's folders, runs the job's script, leaves its exit status in the
# host's folder, and switches the machine off.
#
#   /job        the host's folder of this boot, written through: a write that returned is in the host's memory
#   /programs   programs and other files for the job, read only
# The programs of the packages come first, because they have more commands.
/usr/bin/busybox mkdir -p /busybox
/usr/bin/busybox --install -s /busybox
export PATH=/usr/sbin:/usr/bin:/busybox HOME=/tmp TMPDIR=/tmp LC_ALL=C
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/shm /var/tmp
mount -t tmpfs none /dev/shm
mount -t tmpfs none /tmp
mount -t tmpfs none /var/tmp
mount -t tmpfs none /run
. /functions.sh
load 9pnet_virtio
load 9p
options=trans=virtio,version=9p2000.L,msize=262144
if ! mount -t 9p -o $options,cache=none job /job || ! mount -t 9p -o ro,$options,cache=loose programs /programs; then
    echo "guest: the host's folders cannot be mounted"
    poweroff -f
fi
# Programs of the workspace look for each other at the paths at which they were built.
if [ -e /job/links ]; then
    while read -r target name; do
        mkdir -p "$(dirname "$name")"
        ln -s "$target" "$name"
    done </job/links
fi
ip link set lo up
export STONECAST_NOT_RUN=/job/not-run
sh /job/script >/job/output 2>&1
echo $? >/job/status
poweroff -f
