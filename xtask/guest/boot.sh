# The machine itself, without programs under test: a failure of this job is a fault of the host or of QEMU.
case_ "the machine runs its kernel" test -n "$(uname -r)"
case_ "modules of the kernel load, with all that they need" load_nvdimm
case_ "the machine sees its module of persistent memory" test -e /sys/bus/nd/devices/region0
case_ "the machine writes to the folder of the boot" touch /job/written
