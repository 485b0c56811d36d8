#!/bin/sh
# Makes the Debian package and the tarball of one architecture, in the folder OUT:
#     packaging/build.sh BINARY SPEAKING ARCHITECTURE VERSION OUT < DOCUMENTS
# SPEAKING is a binary that runs here, for manual pages and completions. DOCUMENTS lists the pages
# to install. The last two lines printed are the two files.
set -eu
binary=$(realpath "$1") speaking=$(realpath "$2") architecture=$3 version=$4 out=$5
cd "$(dirname "$0")/.."
name=tardy-latency_${version}_$architecture
root=$out/$name
doc=$root/usr/share/doc/tardy-latency
# Without git's history, any fixed time is as good as another.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH
umask 022
rm -rf "$root"

install -D "$binary" "$root/usr/bin/tardy"
put() { install -D -m 644 "$1" "$root/$2"; }
for unit in tardy@.service tardy-watch.service tardy-record.service; do
    put packaging/$unit usr/lib/systemd/system/$unit
done
put packaging/tardy-latency.sysusers usr/lib/sysusers.d/tardy-latency.conf
put packaging/tardy-latency.limits etc/security/limits.d/95-tardy-latency.conf
put packaging/tardy-latency.udev usr/lib/udev/rules.d/60-tardy-latency.rules
put include/tardy.h usr/include/tardy.h
while read -r page; do put "$page" "usr/share/doc/tardy-latency/$page"; done
# The licence's text follows, indented as the format requires.
{ cat packaging/copyright; sed 's/^$/./; s/^/ /' LICENSE-MIT; } > "$doc/copyright"
gzip -9nc CHANGELOG.md > "$doc/changelog.gz"

mkdir -p "$root/usr/share/man/man1" "$root/usr/share/bash-completion/completions" \
    "$root/usr/share/zsh/vendor-completions" "$root/usr/share/fish/vendor_completions.d"
"$speaking" man --all "$root/usr/share/man/man1"
gzip -9n --force "$root"/usr/share/man/man1/*
"$speaking" completions bash > "$root/usr/share/bash-completion/completions/tardy"
"$speaking" completions zsh > "$root/usr/share/zsh/vendor-completions/_tardy"
"$speaking" completions fish > "$root/usr/share/fish/vendor_completions.d/tardy.fish"

# The archive has the same bytes whoever makes it, and whenever.
tar --create --sort=name --owner=0 --group=0 --numeric-owner --format=ustar \
    --mtime="@$SOURCE_DATE_EPOCH" --use-compress-program='gzip -9n' \
    --file "$out/$name.tar.gz" --directory "$out" "$name"

kilobytes=$(du --summarize --apparent-size --block-size=1K "$root" | cut -f1)
mkdir "$root/DEBIAN"
sed "s/@VERSION@/$version/; s/@ARCHITECTURE@/$architecture/; s/@KILOBYTES@/$kilobytes/" \
    packaging/control > "$root/DEBIAN/control"
echo /etc/security/limits.d/95-tardy-latency.conf > "$root/DEBIAN/conffiles"
install packaging/postinst "$root/DEBIAN/postinst"
dpkg-deb --root-owner-group -Zxz --build "$root" "$out/$name.deb" >&2
printf '%s\n' "$out/$name.tar.gz" "$out/$name.deb"
