#!/bin/sh
# Builds the Python wheel target/wheel/vctx-VERSION-py3-none-PLATFORM.whl: the program vctx and the Python client.
# wheel.sh [--out DIR] [--platform TAG]
#   --out       directory of the wheel                              [default: target/wheel]
#   --platform  the wheel must run on this platform, such as manylinux_2_28   [default: the oldest that fits the program]
# Needs cargo, and maturin (pip install maturin).
set -eu
cd "$(dirname "$0")/.."
out=target/wheel platform=''
while [ $# -gt 0 ]; do
  case $1 in
    --out) out=$2; shift 2 ;;
    --platform) platform=$2; shift 2 ;;
    *) awk 'NR > 1 && !/^#/ { exit } NR > 1 { print substr($0, 3) }' "$0"; [ "$1" = --help ] && exit 0; exit 64 ;;
  esac
done
command -v maturin >/dev/null || { echo 'maturin is not on PATH: pip install maturin' >&2; exit 69; }
mkdir -p "$out"
out=$(cd "$out" && pwd)
(cd clients/python && maturin build --locked --quiet --out "$out" ${platform:+--compatibility "$platform"})
ls "$out"/vctx-*.whl
