# Persistent memory whose firmware does not say what survives.
load_nvdimm
case_ "the kernel says nothing" test "$(cat /sys/bus/nd/devices/region0/persistence_domain)" = ""
case_ "a devdax namespace is made" devdax 0
refused "nothing is guessed" 'the kernel does not say what /dev/dax0.0 keeps' $stonecast serve --data /dev/dax0.0
platform=dmp
life /dev/dax0.0 --platform dmp
