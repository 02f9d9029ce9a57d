#!/usr/bin/env bash
# Chromium and a font for the browser tests, from Debian's packages. Without root or apt it only says what to do.
set -euo pipefail
packages=(chromium fonts-dejavu-core)
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "The browser tests need Chromium; install it with: apt-get install ${packages[*]}" >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if ! { apt-get update && apt-get install -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1; then
    tail -20 "$log" >&2
    exit 1
fi
rm -f "$log"
