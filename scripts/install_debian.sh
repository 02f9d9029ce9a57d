#!/usr/bin/env bash
# install_debian.sh WHAT PACKAGE...: Debian packages for tests that need WHAT. Without root or apt it only says what to do.
set -euo pipefail
what=$1
shift
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "Some tests need $what; install it with: apt-get install $*" >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
if ! { apt-get update && apt-get install -y --no-install-recommends "$@"; } >"$log" 2>&1; then
    tail -20 "$log" >&2
    exit 1
fi
rm -f "$log"
