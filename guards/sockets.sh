#!/bin/sh
# Protects: a socket admits only its owner, and a group only if --group names it.
# sockets.sh --socket PATH [--owner USER] [--group GROUP]
#   PATH and its directory must give other users no rights: mode 0700, or 0750 if --group names the directory's group.
#   --owner  PATH and directory must belong to USER  --group  PATH must belong to GROUP; no group may write to the directory
# The check is the same for every profile of the database (single, cluster, embedded).
# Needs awk and stat. Exit 0 means passed; otherwise one sentence on stderr names the next step.
fail() { printf '%s\n' "$1" >&2; [ -z "${2-}" ] || printf 'seen: %s\n' "$2" >&2; exit 1; }
usage='the arguments of this check are not understood, read its --help'
socket='' owner='' group=''
for tool in awk stat; do command -v "$tool" >/dev/null || fail 'a tool that this check needs is not on PATH, install it' "$tool"; done
while [ $# -gt 0 ]; do
  case $1 in --help) awk 'NR > 1 && !/^#/ { exit } NR > 1 { print substr($0, 3) }' "$0"; exit 0 ;; esac
  [ -n "${2-}" ] || fail "$usage" "$1"
  case $1 in
    --socket) socket=$2 ;;
    --owner) owner=$2 ;;
    --group) group=$2 ;;
    *) fail "$usage" "$1" ;;
  esac
  shift 2
done
case $socket in */*) ;; *) fail "$usage" "--socket $socket" ;; esac
[ -S "$socket" ] || fail 'the engine does not hold the expected Unix socket, start it there or correct the path' "$socket"
seen=$(stat -L -c '%a %U %G' "${socket%/*}/" "$socket" 2>/dev/null) || seen=''
[ -n "$seen" ] || fail 'a tool failed or printed nothing, run it by hand and correct the fault' stat
printf '%s\n' "$seen" | awk -v owner="$owner" -v group="$group" '
  { mode = substr("00" $1, length($1)); of_group = substr(mode, 2, 1) }
  substr(mode, 3) != 0 || (owner && $2 != owner) { bad = 1 }
  NR == 1 && of_group != 0 && (of_group !~ /[15]/ || $3 != group) { bad = 1 }
  NR == 2 && group && $3 != group { bad = 1 }
  END { exit bad || NR != 2 }' || fail 'users other than the owner and the named group can reach the socket, correct modes and owners of it and its directory' "$seen"
printf '%s\n' 'ok: the socket lets in its owner and the named group alone'
