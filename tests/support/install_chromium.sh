#!/usr/bin/env bash
# Installs Chromium for the tests of the page where we may, and says in one line how where we may not.
set -euo pipefail
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "no browser for the tests of the page: install Chromium (Debian: sudo apt-get install chromium) or name one in CHROMIUM and run 'make test' again" >&2
  exit 1
fi
echo "installing Chromium for the tests"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq > /dev/null
apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core > /dev/null
