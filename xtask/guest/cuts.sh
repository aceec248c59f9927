# One boot between two power cuts: each site verifies, serves, exports and loads its pool until the machine is gone.
# The script ends only in the last boot, or when a check fails.

# run_site NAME POOL OPTION...: the load of one site, in the background.
run_site() {
    name=$1
    export STONECAST_POOL=$2
    shift 2
    export STONECAST_SERVE_OPTIONS="$*"
    run_load "$name" power_cuts::loads_a_pool_until_the_power_is_cut
}

# run_structures NAME POOL PLATFORM PORT: the load of one back-end of data structures, which front-ends reach over
# soft-RoCE, in the background.
run_structures() {
    export STONECAST_POOL=$2 STONECAST_PLATFORM=$3 STONECAST_PORT=$4
    run_load "$1" structures::cuts::loads_structures_until_the_power_is_cut
}

# run_load NAME TEST: the load of one site by this test, in the background.
run_load() {
    site=$1
    export STONECAST_SITE=/job/$1
    (
        /programs/cli-it --exact "$2" --ignored --nocapture \
            >"/tmp/$site.output" 2>&1 || {
            cat "/tmp/$site.output"
            echo "the load of $site ended"
            poweroff -f
        }
    ) &
    pids="$pids $!"
}

# disk_without_write_back: a file system on the disk. Barriers are on and nothing is written before a program syncs it:
# unsynced bytes are lost with the machine.
disk_without_write_back() {
    load virtio_blk && load ext4
    mkdir -p /disk
    mount -t ext4 -o commit=600 /dev/vda /disk 2>/dev/null ||
        { mkfs.ext4 -q -b 4096 /dev/vda && mount -t ext4 -o commit=600 /dev/vda /disk; } || poweroff -f
    echo 60000 >/proc/sys/vm/dirty_expire_centisecs
    echo 60000 >/proc/sys/vm/dirty_writeback_centisecs
}

load_nvdimm
case $sites in
*structures*)
    soft_roce || poweroff -f
    (umask 077 && key guest >/tmp/keys)
    ;;
esac
small='--segment-size 1MiB'
pids=
for site in $sites; do
    case $site in
    devdax)
        devdax 0 || poweroff -f
        run_site devdax /dev/dax0.0 $small
        ;;
    dax-file-system)
        fsdax 1 ext4 /dax || poweroff -f
        run_site dax-file-system /dax/pool --platform dmp --capacity 96MiB $small
        ;;
    disk | unsynced)
        disk_without_write_back
        case $site in
        disk) run_site disk /disk/pool --capacity 96MiB $small ;;
        unsynced) run_site unsynced /disk/pool --durability process --capacity 96MiB $small ;;
        esac
        ;;
    structures-one-sided)
        # A WRITE and a READ are enough where caches are saved, so the back-end has no part in an append.
        devdax 0 || poweroff -f
        run_structures "$site" /dev/dax0.0 wsp 7171
        ;;
    structures-messages)
        devdax 1 || poweroff -f
        run_structures "$site" /dev/dax1.0 dmp 7172
        ;;
    cluster)
        memory_of_nodes && soft_roce_switch || poweroff -f
        disk_without_write_back
        users_of_nodes
        run_load cluster cluster::rdma::cuts::loads_a_cluster_until_the_power_is_cut
        ;;
    esac
done
wait $pids
