#!/usr/bin/env bash
# uninstall.sh BUILD: removes the files that the last `make install` from this build folder has put below DESTDIR, and the
# folders of vgpu's own that are empty then.
set -euo pipefail

manifest=$1/install_manifest.txt
[ -f "$manifest" ] || {
    echo "uninstall: $manifest is not there: nothing was installed from this build folder" >&2
    exit 1
}
mapfile -t files <"$manifest"
for file in "${files[@]}"; do
    rm -f "${DESTDIR:-}$file"
done
for file in "${files[@]}"; do
    folder=${DESTDIR:-}${file%/*}
    while [[ $folder == */vgpu || $folder == */vgpu/* ]] && rmdir "$folder" 2>/dev/null; do
        folder=${folder%/*}
    done
done
rm -f "$manifest"
