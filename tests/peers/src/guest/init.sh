#!/bin/busybox sh
# The first program of a guest. What is printed goes to the second serial port, nothing else does.
/bin/busybox --install -s /bin
export PATH=/bin HOME=/ LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm /dev/hugepages
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mount -t hugetlbfs hugetlbfs /dev/hugepages
ip link set lo up
stty -onlcr < /dev/ttyS1
(
    for module in vfio_iommu_type1 vfio-pci $(cat /job/modules); do
        modprobe "$module" || echo "the module $module can't be loaded"
    done
    cd /job
    sh ./run
    status=$?
    echo "[guest] exit $status"
) < /dev/null > /dev/ttyS1 2>&1
# The port was closed, and so is drained: nothing is lost now.
poweroff -f
