# Persistent memory whose platform saves what the memory controller has.
load_nvdimm
domain=memory_controller
platform=dmp
case_ "the kernel says $domain" grep -q "^$domain$" /sys/bus/nd/devices/region0/persistence_domain
case_ "a devdax namespace is made" devdax 0
case_ "a file system is mounted for direct access" fsdax 1 ext4 /dax
mount --bind /dax /scratch

export STONECAST_DAX=/dev/dax0.0 STONECAST_DAX_FOLDER=/dax STONECAST_DAX_DOMAIN=$domain
cp /programs/media-unit /programs/media-it /scratch
/scratch/media-unit
/scratch/media-it --include-ignored --skip ten_thousand
rm /scratch/media-*

refused "a device whose caches are lost is not believed to save them" 'persistence domain is memory_controller' \
    $stonecast serve --data /dev/dax0.0 --platform mhp
refused "a file system whose caches are lost is not believed to save them" 'persistence domain is memory_controller' \
    $stonecast serve --data /dax/pool --platform mhp
refused "a device has no pages to sync" 'has no pages to sync' $stonecast serve --data /dev/dax0.0 --platform page-file
life /dev/dax0.0
life /dax/pool --platform dmp --capacity 64MiB
platform=page-file
life /dax/synced --platform page-file --capacity 32MiB
