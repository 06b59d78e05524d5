#!/bin/sh
# Prints the version of this source, after checking that all files agree on it, or sets it in all files.
# version.sh [X.Y.Z]
#   X.Y.Z  sets this version, and puts a heading with version and date below `## [Unreleased]` in CHANGELOG.md
# The files: Cargo.toml (workspace), Cargo.lock and fuzz/Cargo.lock (packages of this project), clients/python/pyproject.toml,
# clients/typescript/package.json, CHANGELOG.md (its first heading with a number, if it has one).
# Versions have three numbers and nothing else: Python, npm and Debian write marks of pre-releases in different ways.
# Ends with 0, with 64 for a wrong argument, or with 65 if the files do not agree. Needs no cargo.
set -eu
cd "$(dirname "$0")/.."
LOCKS='Cargo.lock fuzz/Cargo.lock'
PYTHON=clients/python/pyproject.toml
NODE=clients/typescript/package.json

die() { printf 'version.sh: %s\n' "$2" >&2; exit "$1"; }

# Prints a line `FILE VERSION WHAT` for each place that has the version.
places() {
  in_section Cargo.toml '[workspace.package]'
  for lock in $LOCKS; do
    # Packages of this project have no source. The crate of the fuzzer is never released.
    awk -v file="$lock" 'BEGIN { RS = ""; FS = "\n" }
      /^\[\[package\]\]/ && !/\nsource = / {
        split($2, name, "\""); split($3, version, "\"")
        if (name[2] != "vctx-fuzz") print file, version[2], name[2]
      }' "$lock"
  done
  in_section "$PYTHON" '[project]'
  sed -n "s|^  \"version\": \"\([^\"]*\)\",\$|$NODE \1 vctx|p" "$NODE"
  sed -n 's/^## \[\([0-9][^]]*\)\].*/CHANGELOG.md \1 heading/p' CHANGELOG.md | head -n 1
}

in_section() { # file, section
  awk -v file="$1" -v wanted="$2" '/^\[/ { section = $0 } section == wanted && /^version = / { gsub(/"/, "", $3); print file, $3, wanted }' "$1"
}

check() {
  all=$(places)
  for file in Cargo.toml $LOCKS "$PYTHON" "$NODE"; do
    printf '%s\n' "$all" | grep -q "^$file " || die 65 "no version in $file"
  done
  version=$(printf '%s\n' "$all" | head -n 1 | cut -d ' ' -f 2)
  others=$(printf '%s\n' "$all" | awk -v version="$version" '$2 != version')
  [ -z "$others" ] || die 65 "Cargo.toml has $version, but:
$others"
}

change() { # file, awk program: the file keeps its mode
  awk -v version="$wanted" -v today="$(date -u +%F)" "$2" "$1" >"$work" || die 65 "cannot change $1"
  cat "$work" >"$1"
}

set_version() {
  grep -q '^## \[Unreleased\]$' CHANGELOG.md || die 65 'CHANGELOG.md has no heading [Unreleased]'
  work=$(mktemp)
  trap 'rm -f "$work"' EXIT
  change Cargo.toml '/^\[/ { section = $0 } section == "[workspace.package]" && /^version = / { $0 = "version = \"" version "\"" } { print }'
  change "$PYTHON" '/^\[/ { section = $0 } section == "[project]" && /^version = / { $0 = "version = \"" version "\"" } { print }'
  change "$NODE" '/^  "version": "/ { $0 = "  \"version\": \"" version "\"," } { print }'
  for lock in $LOCKS; do
    # A package is a paragraph; its third line is the version.
    change "$lock" 'BEGIN { RS = ""; FS = OFS = "\n" }
      /^\[\[package\]\]/ && !/\nsource = / && $2 != "name = \"vctx-fuzz\"" { $3 = "version = \"" version "\"" }
      NR > 1 { print "" } { print }'
  done
  # A second call on another day leaves the date as it is.
  grep -qF "## [$wanted]" CHANGELOG.md ||
    change CHANGELOG.md '{ print } /^## \[Unreleased\]$/ { print "\n## [" version "] - " today }'
}

case ${1-} in
  '') ;;
  --help) awk 'NR > 1 && !/^#/ { exit } NR > 1 { print substr($0, 3) }' "$0"; exit 0 ;;
  *)
    [ $# = 1 ] && printf '%s\n' "$1" | grep -Eqx '(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}' || die 64 'usage: version.sh [X.Y.Z], with three numbers'
    wanted=$1
    set_version ;;
esac
check
[ -z "${wanted-}" ] || [ "$version" = "$wanted" ] || die 65 "the files have $version, not $wanted"
printf '%s\n' "$version"
