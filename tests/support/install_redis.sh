#!/usr/bin/env bash
# Installs redis-server for the tests where we may, and says in one line how where we may not.
set -euo pipefail
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "redis-server is missing: install it (Debian: sudo apt-get install redis-server; macOS: brew install redis) and run 'make test' again" >&2
  exit 1
fi
echo "installing redis-server for the tests"
# The tests start their own server: keep the package from starting another.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' > "$policy" && chmod +x "$policy"
  trap 'rm -f "$policy"' EXIT
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq > /dev/null
apt-get install -qq -y --no-install-recommends redis-server > /dev/null
