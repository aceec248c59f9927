# Persistent memory whose platform saves the content of the memory controller.
load_nvdimm
domain=memory_controller
platform=dmp
case_ "the kernel says $domain" grep -q "^$domain$" /sys/bus/nd/devices/region0/persistence_domain
case_ "a devdax namespace is made" devdax 0
case_ "a file system is mounted for direct access" fsdax 1 ext4 /dax

export STONECAST_DAX=/dev/dax0.0 STONECAST_DAX_FOLDER=/dax STONECAST_DAX_DOMAIN=$domain
/programs/media-it persistent_memory:: --ignored

refused "a device whose caches are lost is not believed to save them" 'persistence domain is memory_controller' \
    $stonecast serve --data /dev/dax0.0 --platform mhp
refused "a file system whose caches are lost is not believed to save them" 'persistence domain is memory_controller' \
    $stonecast serve --data /dax/pool --platform mhp
refused "a device has no pages to sync" 'has no pages to sync' $stonecast serve --data /dev/dax0.0 --platform page-file
life /dev/dax0.0
life /dax/pool --platform dmp --capacity 64MiB
platform=page-file
life /dax/synced --platform page-file --capacity 32MiB

# The store and its fabric on this kernel, and a workload on the device.
mount --bind /dax /scratch
/programs/kv-it basics
/programs/fabric-shm-it contract
export STONECAST_DATA=/dev/dax0.0
case_ "the device is served for a workload" serve /dev/dax0.0
case_ "YCSB: half updates, 4 in flight" says '"errors":0' \
    $stonecast bench ycsb --workload a --keys 2000 --ops 4000 --in-flight 4 --json --connect shm:/run/stonecast-dax0.0
cat /tmp/says.output
case_ "YCSB: the server closes in order" stop
case_ "YCSB: the pool verifies" $stonecast verify /dev/dax0.0
