# The parts of a cluster of three nodes: memory, a user for each node, a key file for each user.

# memory_of_nodes: a devdax namespace for each node.
memory_of_nodes() {
    load_nvdimm
    for number in 0 1 2; do
        devdax $number || return 1
        chown $((1001 + number)) /dev/dax$number.0
    done
}

# users_of_nodes: lets the users 1001 to 1003 open RDMA devices, keep memory in place, and change the configuration of
# the cluster, and gives each a key file.
users_of_nodes() {
    chmod 666 /dev/infiniband/*
    ulimit -l unlimited
    umask 0
    mkdir -p /disk/cluster
    key guest >/tmp/keys
    for number in 0 1 2; do
        cp /tmp/keys /tmp/keys-$number
        chown $((1001 + number)) /tmp/keys-$number
    done
    chmod 600 /tmp/keys /tmp/keys-*
}
