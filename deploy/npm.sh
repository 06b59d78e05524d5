#!/bin/sh
# Builds the npm packages target/npm/vctx-VERSION.tgz (client and launcher) and vctx-PLATFORM-ARCH-VERSION.tgz (the program).
# npm.sh [--binary FILE] [--platform NAME] [--out DIR] [--repository URL] [--client-only]
#   --binary       packs the given program instead of building one
#   --platform     Node's name of the program's platform           [default: that of this machine, such as linux-x64]
#   --out          directory of the packages                       [default: target/npm]
#   --repository   address of the source, which npm compares with a package's provenance   [default: none]
#   --client-only  packs the client and launcher, without a program
# Needs cargo, Node 20 with npm.
set -eu
cd "$(dirname "$0")/.."
binary='' out=target/npm platform='' repository='' program=yes
while [ $# -gt 0 ]; do
  case $1 in
    --binary) binary=$2; shift 2 ;;
    --platform) platform=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --repository) repository=$2; shift 2 ;;
    --client-only) program=''; shift ;;
    *) awk 'NR > 1 && !/^#/ { exit } NR > 1 { print substr($0, 3) }' "$0"; [ "$1" = --help ] && exit 0; exit 64 ;;
  esac
done
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The client names the programs of all platforms as optional: npm installs the one that fits. A platform without a release must not be
# named: npm would run whatever somebody else publishes under that name.
cp -r clients/typescript/bin clients/typescript/src clients/typescript/types clients/typescript/README.md LICENSE "$work"
node -e '
  const p = JSON.parse(require("fs").readFileSync(0));
  const platforms = ["linux-x64", "linux-arm64"];
  p.optionalDependencies = Object.fromEntries(platforms.map((name) => [`vctx-${name}`, p.version]));
  delete p.devDependencies; delete p.scripts;
  if (process.argv[1]) p.repository = { type: "git", url: process.argv[1] };
  console.log(JSON.stringify(p, null, 2));
' "$repository" <clients/typescript/package.json >"$work/package.json"
(cd "$work" && npm pack --silent --pack-destination "$out" >/dev/null)

if [ -n "$program" ]; then
  if [ -z "$binary" ]; then
    cargo build --locked --profile dist --features local-embedder --bin vctx
    binary=${CARGO_TARGET_DIR:-target}/dist/vctx
  fi
  platform=${platform:-$(node -p '`${process.platform}-${process.arch}`')}
  mkdir -p "$work/program/bin"
  cp "$binary" "$work/program/bin/vctx"
  chmod 755 "$work/program/bin/vctx"
  cp LICENSE "$work/program"
  node -e '
    const { version, license } = JSON.parse(require("fs").readFileSync(0));
    const [os, cpu] = process.argv[1].split("-");
    const description = `The program vctx for ${process.argv[1]}`;
    const repository = process.argv[2] ? { type: "git", url: process.argv[2] } : undefined;
    const name = `vctx-${process.argv[1]}`;
    console.log(JSON.stringify({ name, version, description, license, repository, os: [os], cpu: [cpu], files: ["bin"] }, null, 2));
  ' "$platform" "$repository" <clients/typescript/package.json >"$work/program/package.json"
  (cd "$work/program" && npm pack --silent --pack-destination "$out" >/dev/null)
fi
ls "$out"/vctx-*.tgz
