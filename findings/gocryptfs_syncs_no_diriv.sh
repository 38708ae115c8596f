#!/usr/bin/env bash
# gocryptfs 2.3 (Debian 12; needs /dev/fuse and fusermount): a new folder, a file in it, and syncs of the file, of the folder and of the
# folder above. A guess: all that it takes to read the file is on the disk then, as on ext4, XFS or btrfs.
#
# Seen: each folder has a file of its own with the vector by which its names are enciphered, gocryptfs.diriv. It is written when the
# folder is made and never synced; the syncs reach the file and the folders alone. If the power goes before the kernel has written it
# by itself, as it does within half a minute, the folder is there and cannot be read, and with it all that was synced in it.
set -euo pipefail
folder=$(mktemp -d)
mounted=
trap '[ -z "$mounted" ] || fusermount -u "$folder/plain"; rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -q=2 gocryptfs=2.3-1+b4 strace=6.1-0.1 > log 2>&1 || { cat log; exit 1; }
for package in ./*.deb; do dpkg-deb -x "$package" packages; done
export PATH="$folder/packages/usr/bin:$PATH"
mkdir sealed plain
echo password > password
gocryptfs -q -passfile password -init -scryptn 10 sealed
strace -f -y -o calls -e trace=openat,fsync,fdatasync,syncfs,sync_file_range gocryptfs -q -fg -passfile password sealed plain &
for _ in $(seq 300); do mountpoint -q plain && break; sleep 0.2; done
mounted=yes
python3 - <<'PYTHON'
import os


def synced(path, flags, data=b""):
    descriptor = os.open(path, flags)
    os.write(descriptor, data) if data else None
    os.fsync(descriptor)
    os.close(descriptor)


os.mkdir("plain/new")
synced("plain/new/file", os.O_CREAT | os.O_WRONLY, b"text")
synced("plain/new", os.O_RDONLY)
synced("plain", os.O_RDONLY)
PYTHON
fusermount -u plain
mounted=
wait
python3 - <<'PYTHON'
import re

calls = open("calls").read()
made = re.findall(r'openat\(\d+<\S+/sealed/[^/>]+>, "gocryptfs\.diriv", O_WRONLY\|O_CREAT', calls)
synced = [path.split("/sealed", 1)[1] for path in re.findall(r"(?:sync|syncfs|sync_file_range)\(\d+<(\S+?)>", calls)]
print("gocryptfs 2.3: vectors of new folders written", len(made), "synced", synced)
assert len(made) == 1
assert [path.count("/") for path in synced] == [2, 1, 0]  # the file, its folder, the folder above
assert not any("diriv" in path for path in synced)
PYTHON
