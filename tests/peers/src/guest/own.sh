# Run in the root with the compiler, in steps ($1), each of which may be run again after it was cut
# short. /mnt is the folder of the build: own.config and init lie there, out/ is what comes of it.
set -euo pipefail
cd /mnt
mkdir -p tmp
export TMPDIR=/mnt/tmp
# The same kernel whoever builds it, wherever.
export KBUILD_BUILD_USER=rgen KBUILD_BUILD_HOST=lab ARCH=x86_64

configure() {
    if [ ! -d linux ]; then
        echo "I: unpacking the kernel's source"
        rm -rf part
        mkdir part
        # Two thirds of it are for other machines and for people.
        tar --extract --file "$(echo /usr/src/linux-source-*.tar.xz)" --no-same-owner \
            --directory part --strip-components 1 \
            --exclude '*/Documentation/*/*' --exclude '*/drivers/gpu/drm/amd/include/*'
        mv part linux
    fi
    echo "I: configuring the kernel"
    make -C linux -s KCONFIG_ALLCONFIG=/mnt/own.config allnoconfig
    make -C linux -s olddefconfig
}

build() {
    echo "I: building the kernel with $(nproc) jobs"
    steps=0
    make -C linux -j"$(nproc)" bzImage modules 2>&1 | while read -r line; do
        echo "$line"
        steps=$((steps + 1))
        if [ $((steps % 200)) = 0 ]; then echo "I: $steps steps of about 1400"; fi
    done
}

pack() {
    echo "I: putting the guest's archive together"
    rm -rf base out
    for folder in bin dev job proc run sbin sys tmp; do mkdir -p "base/$folder"; done
    make -C linux -s INSTALL_MOD_PATH=/mnt/base INSTALL_MOD_STRIP=1 modules_install
    rm -f base/lib/modules/*/build
    cp /usr/bin/busybox base/bin/busybox
    cp init base/init
    chmod 755 base/init
    mkdir -p out/boot
    (cd base && find . | cpio --quiet --create --format=newc --owner=+0:+0) > out/boot/rgen-base.cpio
    cp linux/arch/x86/boot/bzImage out/boot/rgen-kernel
    cp linux/.config out/boot/config
    echo "linux $(make -C linux -s kernelrelease)" > out/boot/rgen-kernel.version
}

"$1"
