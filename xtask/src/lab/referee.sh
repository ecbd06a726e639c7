# Run by mmdebstrap once the root is whole ($1), after a line that sets `modules`, `tools` and
# `release`, and with the guest's first program lying in the root as /init. Fetches the kernel of
# that release, and puts busybox, modules, tools and the first program into an archive that a guest
# starts from.
set -eu
chroot "$1" env modules="$modules" tools="$tools" release="$release" sh -eu <<'INSIDE'
cd /tmp
default="APT::Default-Release=$release"
depends() { apt-cache -o "$default" depends "$1" | sed -n 's/^ *Depends: \([^<].*\)/\1/p'; }
image=$(depends linux-image-amd64 | grep '^linux-image-')
version=${image#linux-image-}
# Newer kernels come in parts, which the image only names.
parts=$(depends "$image" | grep "^linux-[a-z]*-$version\$" || true)
echo "I: fetching the kernel $version: $image $parts"
mkdir -p debs
(cd debs && apt-get -q -o "$default" download $image $parts)
# Only unpacked: installing it would build an archive of Debian's own, which nobody starts.
for package in debs/*.deb; do
    dpkg-deb --extract "$package" /
done
rm -r debs
for kernel in "/boot/vmlinuz-$version" "/usr/lib/modules/$version/vmlinuz"; do
    if [ -e "$kernel" ]; then
        cp "$kernel" /boot/rgen-kernel
    fi
done
echo "linux $version" > /boot/rgen-kernel.version
depmod "$version"

echo "I: putting the archive together"
base=/tmp/base
for folder in bin dev job proc run sbin sys tmp tools/bin tools/lib "lib/modules/$version"; do
    mkdir -p "$base/$folder"
done
cp /usr/bin/busybox "$base/bin/busybox"
mv /init "$base/init"
chmod 755 "$base/init"
for file in modules.builtin modules.builtin.modinfo modules.order; do
    cp "/lib/modules/$version/$file" "$base/lib/modules/$version/"
done
for module in $modules; do
    modprobe --set-version "$version" --show-depends "$module"
done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | sort -u | while read -r file; do
    plain="$base${file%.xz}"
    mkdir -p "$(dirname "$plain")"
    case "$file" in
        *.xz) xz --decompress --stdout "$file" > "$plain" ;;
        *) cp "$file" "$plain" ;;
    esac
done
depmod --basedir "$base" "$version"
# The tools run with their own libraries: a job may bring others of the same names.
for tool in $tools; do
    path=$(command -v "$tool")
    cp "$path" "$base/tools/bin/$tool"
    ldd "$path" | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p' | xargs -I{} cp -L {} "$base/tools/lib/"
    printf '#!/bin/sh\nexec /tools/lib/loader --library-path /tools/lib /tools/bin/%s "$@"\n' \
        "$tool" > "$base/tools/$tool"
    chmod 755 "$base/tools/$tool"
done
cp -L /lib64/ld-linux-x86-64.so.2 "$base/tools/lib/loader"
cd "$base"
find . | cpio --quiet --create --format=newc > /boot/rgen-base.cpio
cd /
rm -rf "$base" /lib/modules/* "/boot/System.map-$version" "/boot/config-$version"
INSIDE
