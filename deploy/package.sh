#!/bin/sh
# Makes the Debian package target/debian/vctx_VERSION_ARCH.deb from the list in Cargo.toml (package.metadata.deb).
# package.sh [--binary FILE] [--out DIR] [--fast]
#   --binary  takes this program instead of building one; it is packed as it is
#   --fast    packs quicker and less tightly
#   --out     directory of the package                    [default: target/debian]
# Needs cargo and cargo-deb (cargo install cargo-deb --locked) and dpkg-dev for the list of libraries.
set -eu
cd "$(dirname "$0")/.."
binary='' out=target/debian pack=''
while [ $# -gt 0 ]; do
  case $1 in
    --binary) binary=$2; shift 2 ;;
    --fast) pack=--fast; shift ;;
    --out) out=$2; shift 2 ;;
    *) awk 'NR > 1 && !/^#/ { exit } NR > 1 { print substr($0, 3) }' "$0"; [ "$1" = --help ] && exit 0; exit 64 ;;
  esac
done
command -v cargo-deb >/dev/null || { echo 'cargo-deb is not on PATH: cargo install cargo-deb --locked' >&2; exit 69; }
strip=''
if [ -z "$binary" ]; then
  cargo build --locked --profile dist --bin vctx
  binary=${CARGO_TARGET_DIR:-target}/dist/vctx
else
  strip=--no-strip
fi

# What is printed from the program itself.
rm -rf target/package
mkdir -p target/package/completions "$out"
"$binary" man --dir target/package/man >/dev/null
"$binary" completions bash >target/package/completions/vctx.bash
"$binary" completions zsh >target/package/completions/_vctx
"$binary" completions fish >target/package/completions/vctx.fish

# cargo-deb looks for the program where cargo puts it: a directory with this one alone.
mkdir -p target/package/cargo/dist
ln -f "$binary" target/package/cargo/dist/vctx 2>/dev/null || cp "$binary" target/package/cargo/dist/vctx
CARGO_TARGET_DIR=$PWD/target/package/cargo cargo deb --no-build --locked --quiet $strip $pack --output "$out/" >/dev/null
rm -rf target/package/cargo
ls "$out"/vctx_*.deb
