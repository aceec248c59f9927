# One boot between two power cuts: each site verifies, serves, exports and loads its pool until the machine is gone.
# The script ends only in the last boot, or when a check fails.

# run_site NAME POOL OPTION...: the load of one site, in the background.
run_site() {
    site=$1
    export STONECAST_SITE=/job/$1 STONECAST_POOL=$2
    shift 2
    export STONECAST_SERVE_OPTIONS="$*"
    (
        /programs/cli-it --exact power_cuts::loads_a_pool_until_the_power_is_cut --ignored --nocapture \
            >"/tmp/$site.output" 2>&1 || {
            cat "/tmp/$site.output"
            echo "the load of $site ended"
            poweroff -f
        }
    ) &
    pids="$pids $!"
}

load_nvdimm
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
        load virtio_blk && load ext4
        mkdir -p /disk
        # Barriers are on and nothing is written before a program syncs it: unsynced bytes are lost with the machine.
        mount -t ext4 -o commit=600 /dev/vda /disk 2>/dev/null ||
            { mkfs.ext4 -q -b 4096 /dev/vda && mount -t ext4 -o commit=600 /dev/vda /disk; } || poweroff -f
        echo 60000 >/proc/sys/vm/dirty_expire_centisecs
        echo 60000 >/proc/sys/vm/dirty_writeback_centisecs
        case $site in
        disk) run_site disk /disk/pool --capacity 96MiB $small ;;
        unsynced) run_site unsynced /disk/pool --durability process --capacity 96MiB $small ;;
        esac
        ;;
    esac
done
wait $pids
