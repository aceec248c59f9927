# Persistent memory whose platform saves its caches too.
load_nvdimm
domain=cpu_cache
platform=mhp
case_ "the kernel says $domain" grep -q "^$domain$" /sys/bus/nd/devices/region0/persistence_domain
case_ "a devdax namespace is made" devdax 0
case_ "a file system is mounted for direct access" fsdax 1 xfs /dax
export STONECAST_DAX=/dev/dax0.0 STONECAST_DAX_FOLDER=/dax STONECAST_DAX_DOMAIN=$domain
/programs/media-it persistent_memory:: --ignored
life /dev/dax0.0
life /dax/pool --platform mhp --capacity 64MiB
