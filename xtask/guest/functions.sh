# Functions for the scripts of jobs.

# load NAME: loads a module of the kernel with its needs.
load() {
    [ -e "/modules/$1.order" ] || return 0
    while read -r module; do
        [ -e "/sys/module/$module" ] || insmod "/modules/$module.ko" || return 1
    done <"/modules/$1.order"
}

# case_ NAME COMMAND...: one case, passed if the command succeeds. Its output is shown if it fails.
case_() {
    name=$1
    shift
    if "$@" >/tmp/case.output 2>&1; then
        echo "case passed: $name"
    else
        echo "case failed: $name (status $?): $*"
        tail -n 40 /tmp/case.output
    fi
}

# refused NAME TEXT COMMAND...: passes if the command fails and prints TEXT.
refused() {
    name=$1
    text=$2
    shift 2
    if "$@" >/tmp/case.output 2>&1; then
        echo "case failed: $name: it was not refused: $*"
    elif grep -q -e "$text" /tmp/case.output; then
        echo "case passed: $name"
    else
        echo "case failed: $name: it does not say \"$text\": $*"
        tail -n 40 /tmp/case.output
    fi
}

# load_nvdimm: loads the modules for persistent memory.
load_nvdimm() {
    load nfit && load nd_pmem && load dax_pmem && load device_dax
}

# devdax REGION: a namespace of the region that programs map directly, /dev/dax*. A namespace of an earlier boot is reused.
devdax() {
    [ -e "/dev/dax$1.0" ] && return
    ndctl create-namespace -f -e "namespace$1.0" -m devdax >/tmp/ndctl.output 2>&1 || {
        cat /tmp/ndctl.output
        return 1
    }
}

# fsdax REGION TYPE FOLDER: a file system on a namespace of the region, mounted so that mappings are the memory itself.
# A namespace of an earlier boot is reused.
fsdax() {
    load "$2"
    mkdir -p "$3"
    if ! [ -e "/dev/pmem$1" ] || ! grep -q fsdax "/sys/bus/nd/devices/namespace$1.0/mode" 2>/dev/null; then
        ndctl create-namespace -f -e "namespace$1.0" -m fsdax >/tmp/ndctl.output 2>&1 || {
            cat /tmp/ndctl.output
            return 1
        }
    fi
    mount -t "$2" -o dax=always "/dev/pmem$1" "$3" 2>/dev/null && return
    case $2 in
    ext4) mkfs.ext4 -q -b 4096 "/dev/pmem$1" ;;
    xfs) mkfs.xfs -q -f -m reflink=0 "/dev/pmem$1" ;;
    esac
    mount -t "$2" -o dax=always "/dev/pmem$1" "$3"
}

# await SECONDS COMMAND...: waits until the command succeeds.
await() {
    tries=$(($1 * 10))
    shift
    while ! "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        usleep 100000
    done
}

# The shell would run its own `ip`, which has fewer commands.
ip() {
    /usr/bin/ip "$@"
}

# rdma_modules: loads the modules for soft-RoCE devices at the ends of virtual links.
rdma_modules() {
    load ib_uverbs && load rdma_ucm && load rdma_rxe && load veth || return 1
    echo 0 >/proc/sys/net/ipv4/conf/all/rp_filter
}

# rdma_end NUMBER: gives end NUMBER of a link the address 10.9.0.(NUMBER + 1), and takes packets from other addresses of
# this kernel there.
rdma_end() {
    echo 1 >/proc/sys/net/ipv4/conf/end$1/accept_local
    echo 0 >/proc/sys/net/ipv4/conf/end$1/rp_filter
    ip addr add 10.9.0.$(($1 + 1))/24 dev end$1
    ip link set end$1 up
}

# routes_before_own_addresses: lets the rules that were added precede the table of the kernel's own addresses. Otherwise
# the kernel delivers a packet between two of its own addresses directly; the rules send it over a link, where it can be
# lost.
routes_before_own_addresses() {
    ip rule add pref 100 lookup local
    ip rule del pref 0
}

# soft_roce: two soft-RoCE devices, rxe0 at 10.9.0.1 and rxe1 at 10.9.0.2, at the two ends of one link.
soft_roce() {
    rdma_modules || return 1
    ip link add end0 address 02:00:00:00:00:01 type veth peer name end1 address 02:00:00:00:00:02
    rdma_end 0
    rdma_end 1
    ip route add 10.9.0.2 dev end0 src 10.9.0.1 table 101
    ip route add 10.9.0.1 dev end1 src 10.9.0.2 table 102
    ip rule add pref 1 iif lo from 10.9.0.1 to 10.9.0.2 lookup 101
    ip rule add pref 2 iif lo from 10.9.0.2 to 10.9.0.1 lookup 102
    routes_before_own_addresses
    rdma link add rxe0 type rxe netdev end0 && rdma link add rxe1 type rxe netdev end1
}

# soft_roce_switch: four soft-RoCE devices, rxe0 at 10.9.0.1 to rxe3 at 10.9.0.4, each at the end of a link to one switch.
# A link is cut where the switch has it: `ip link set port1 nomaster` loses all packets of end1, and end1 does not see
# that. A connection of a process has no address of its own before it is routed, so its user decides: the users 1001 to
# 1003 are at the first three devices, and root at the last one.
soft_roce_switch() {
    rdma_modules && load bridge || return 1
    # Each end answers for its own address alone.
    echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore
    ip link add switch type bridge forward_delay 0
    ip link set switch up
    for number in 0 1 2 3; do
        at=10.9.0.$((number + 1))
        table=$((101 + number))
        user=$((number == 3 ? 0 : 1001 + number))
        ip link add end$number address 02:00:00:00:00:0$((number + 1)) type veth peer name port$number
        ip link set port$number master switch up
        rdma_end $number
        ip route add 10.9.0.0/24 dev end$number src $at table $table
        ip rule add pref 1 from $at to $at lookup local
        ip rule add pref 2 iif lo from $at to 10.9.0.0/24 lookup $table
        ip rule add pref 3 uidrange $user-$user to $at lookup local
        ip rule add pref 4 iif lo uidrange $user-$user to 10.9.0.0/24 lookup $table
        rdma link add rxe$number type rxe netdev end$number || return 1
    done
    routes_before_own_addresses
}

# key NAME: a line of a key file.
key() {
    echo "$1 $(head -c 32 /dev/urandom | hexdump -v -e '/1 "%02x"')"
}

# packets END: the number of packets that the end of the link has sent.
packets() {
    cat "/sys/class/net/$1/statistics/tx_packets"
}

# lose END PERCENT: loses packets that the end of the link sends.
lose() {
    load sch_netem
    /usr/sbin/tc qdisc replace dev "$1" root netem loss "$2%"
}

# lose_nothing END: ends the loss of packets.
lose_nothing() {
    /usr/sbin/tc qdisc del dev "$1" root
}

# dropped END: the number of packets lost since `lose`.
dropped() {
    /usr/sbin/tc -s qdisc show dev "$1" | sed -n 's/.*dropped \([0-9]*\).*/\1/p' | head -n 1
}

# disk FOLDER: the machine's disk, with a file system, which is created if it is missing.
disk() {
    load virtio_blk && load ext4 && mkdir -p "$1" || return 1
    mount -t ext4 /dev/vda "$1" 2>/dev/null && return
    mkfs.ext4 -q -b 4096 /dev/vda && mount -t ext4 /dev/vda "$1"
}
