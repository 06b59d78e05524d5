#!/bin/sh
# Protects: the engine starts with its vector index switched on; otherwise vector search would silently fall back or fail.
# vector-flag.sh --profile single|cluster|embedded (--config FILE | --command LINE) [--version 3.12.N]
#   single    checks arangod's configuration FILE or start LINE
#   cluster   like single; run the check once for each coordinator and DB-Server
#   embedded  checks FILE or start LINE of arango-embedded or of the engine in vctx
# ArangoDB 3.12.6 and later call the option vector-index, older versions experimental-vector-index. --version accepts only the
# name that belongs to that version; without --version, both names pass.
# Needs awk. Exit 0 means passed; otherwise one sentence on stderr names the next step.
fail() { printf '%s\n' "$1" >&2; [ -z "${2-}" ] || printf 'seen: %s\n' "$2" >&2; exit 1; }
usage='the arguments of this check are not understood, read its --help'
case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
profile='' options='' given='' names=' vector-index experimental-vector-index '
command -v awk >/dev/null || fail 'a tool that this check needs is not on PATH, install it' awk
while [ $# -gt 0 ]; do
  case $1 in --help) awk 'NR > 1 && !/^#/ { exit } NR > 1 { print substr($0, 3) }' "$0"; exit 0 ;; esac
  [ -n "${2-}" ] || fail "$usage" "$1"
  case $1 in
    --profile) profile=$2 ;;
    --config) given=1 options=$({ awk -f "$here/options.awk" <"$2"; } 2>&1) || fail 'the configuration cannot be read, name a readable file or start line' "$2" ;;
    --command) given=1 options=$(printf '%s\n' "$2" | awk -v start=1 -f "$here/options.awk") ;;
    --version) case $2 in
        3.12.[45]) names=' experimental-vector-index ' ;;
        3.12.[6-9] | 3.12.[1-9][0-9]) names=' vector-index ' ;;
        *) fail 'this version has no vector index that vctx knows, use 3.12.4 or a later 3.12' "$2" ;;
      esac ;;
    *) fail "$usage" "$1" ;;
  esac
  shift 2
done
case $profile in single | cluster | embedded) ;; *) fail "$usage" "--profile $profile" ;; esac
[ -n "$given" ] || fail "$usage" 'neither --config nor --command'
printf '%s\n' "$options" | awk -F= -v names="$names" '
  $1 ~ /^(experimental-)?vector-index$/ { if ($2 == "true" && index(names, " " $1 " ")) on = 1; else bad = 1 }
  END { exit bad || !on }' || fail 'the vector index is not switched on, start the engine with vector-index (up to 3.12.5 experimental-vector-index) true' "$options"
printf '%s\n' 'ok: the vector index is switched on'
