#!/usr/bin/env bash
# Installs Firefox for the tests of the page where we may, and says in one line how where we may not.
set -euo pipefail
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
  echo "no Firefox for the tests of the page: install it (Debian: sudo apt-get install firefox-esr) or name one in FIREFOX and run 'make test' again" >&2
  exit 1 # the tests in Firefox skip, and say so
fi
echo "installing Firefox for the tests"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq > /dev/null
# Debian calls it firefox-esr, others firefox.
apt-get install -qq -y --no-install-recommends firefox-esr fonts-dejavu-core > /dev/null 2>&1 ||
  apt-get install -qq -y --no-install-recommends firefox fonts-dejavu-core > /dev/null
