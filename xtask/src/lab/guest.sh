# Run by mmdebstrap once the root is whole ($1), after a line that sets `modules`, and with the
# guest's first program lying in the root as /init. Fetches a kernel, and puts busybox, modules and
# the first program into the archive that every guest starts from.
set -eu
chroot "$1" env modules="$modules" sh -eu <<'INSIDE'
cd /tmp
release='APT::Default-Release=trixie'
image=$(apt-cache -o "$release" depends linux-image-amd64 | sed -n 's/ *Depends: //p')
version=${image#linux-image-}
echo "I: fetching the kernel $version"
# Only unpacked: installing it would build an archive of Debian's own, which nobody starts.
apt-get -q -o "$release" download "$image"
dpkg-deb --extract "$image"_*.deb /
rm "$image"_*.deb
mv "/boot/vmlinuz-$version" /boot/rgen-kernel
echo "linux $version" > /boot/rgen-kernel.version
depmod "$version"

echo "I: putting the guest's archive together"
base=/tmp/base
for folder in bin dev job proc run sbin sys tmp "lib/modules/$version"; do
    mkdir -p "$base/$folder"
done
cp /usr/bin/busybox "$base/bin/busybox"
mv /init "$base/init"
chmod 755 "$base/init"
cp "/lib/modules/$version/modules.builtin" "/lib/modules/$version/modules.builtin.modinfo" \
    "/lib/modules/$version/modules.order" "$base/lib/modules/$version/"
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
cd "$base"
find . | cpio --quiet --create --format=newc > /boot/rgen-base.cpio
cd /
rm -rf "$base" /lib/modules/* "/boot/System.map-$version" "/boot/config-$version"
INSIDE
