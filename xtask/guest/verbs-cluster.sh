# A cluster of three nodes at a switch of soft-RoCE devices, each on persistent memory and of a user of its own.
case_ "three devdax namespaces are made" memory_of_nodes
case_ "four soft-RoCE devices are made" soft_roce_switch
case_ "a disk is mounted" disk /disk
users_of_nodes
/programs/cli-it --test-threads 1 --ignored --nocapture cluster::rdma:: --skip cuts::
for number in 0 1 2 3; do
    case_ "what device $number sends goes over the switch" test "$(packets end$number)" -gt 1000
done
refused "a pool on a disk is no pool of a node over RDMA" 'the device may not write this log' \
    /programs/stonecast serve --data /disk/pool --capacity 64MiB --cluster file:/disk/cluster --node d \
    --listen verbs:10.9.0.4:7171 --rdma-device rxe3 --keys /tmp/keys
case_ "and nothing is left of it" test ! -e /disk/pool
