#!/bin/sh
# Protects: the engine is reachable only through its Unix socket, not through any TCP port.
# uds.sh --profile single|cluster|embedded --socket PATH [--socket PATH] [--config FILE | --command LINE] [--allow ADDRESS:PORT]
#   single    needs arangod's configuration FILE or start LINE, which may name only the PATHs as endpoints
#   cluster   like single, but ignores cluster-internal listeners that --allow names
#   embedded  checks vctx or arango-embedded; FILE and LINE are optional
# Needs awk, ss, lsof and the right to see who owns a listener (root). Exit 0 means passed; else stderr names the next step.
fail() { printf '%s\n' "$1" >&2; [ -z "${2-}" ] || printf 'seen: %s\n' "$2" >&2; exit 1; }
usage='the arguments of this check are not understood, read its --help'
profile='' sockets='' options='' allow=' '; case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
for tool in awk ss lsof; do command -v "$tool" >/dev/null || fail 'a tool that this check needs is not on PATH, install it' "$tool"; done
while [ $# -gt 0 ]; do
  case $1 in --help) awk 'NR > 1 && !/^#/ { exit } NR > 1 { print substr($0, 3) }' "$0"; exit 0 ;; esac
  [ -n "${2-}" ] || fail "$usage" "$1"
  case $1 in
    --profile) profile=$2 ;;
    --socket) sockets="$sockets unix://$2 "; [ -S "$2" ] || fail 'the engine does not hold the expected Unix socket, start it there or correct the path' "$2" ;;
    --config) options=$({ awk -f "$here/options.awk" <"$2"; } 2>&1) || fail 'the configuration cannot be read, name a readable file or start line' "$2" ;;
    --command) options=$(printf '%s\n' "$2" | awk -v start=1 -f "$here/options.awk") ;;
    --allow) allow="$allow$2 " ;;
    *) fail "$usage" "$1" ;;
  esac
  shift 2
done
case $profile in single | cluster) holder='^arangod' ;; embedded) holder='^(vctx|arango-em)' ;; *) fail "$usage" "--profile $profile" ;; esac
[ -n "$sockets" ] && { [ "$profile" = cluster ] || [ "$allow" = ' ' ]; } || fail "$usage" '--socket, --allow'
listeners=$(ss -lntp 2>/dev/null) || listeners=''; holders=$(lsof -U 2>/dev/null)
[ -n "$listeners" ] && [ -n "$holders" ] || fail 'a tool failed or printed nothing, run it by hand and correct the fault' 'ss -lntp, lsof -U'
others=$(printf '%s\n' "$listeners" | awk -v allow="$allow" 'NF && !/^State/ && !index(allow, " " $4 " ")')
tcp=$(printf '%s\n' "$others" | awk '/:8529|arangod|arango-embed|"vctx"/') unseen=$(printf '%s\n' "$others" | awk 'NF && !/users:\(/')
[ -z "$tcp" ] || fail 'the engine listens on TCP, leave it no endpoint but its Unix socket' "$tcp"
pids=$(printf '%s\n' "$holders" | awk -v want="$sockets" -v holder="$holder" '$1 ~ holder { for (i = 3; i <= NF; i++) if (index(want, " unix://" $i " ")) { held["unix://" $i]; pid[$2] } }
  END { for (n = split(want, path, " "); n; n--) if (!(path[n] in held)) exit 1; for (p in pid) print p }') || fail 'the engine does not hold the expected Unix socket, start it there or correct the path' "$sockets"
# A listener without a visible owner passes only if this check may inspect the engine's process, because ss would then show the engine as owner.
[ -z "$unseen" ] || for pid in $pids; do { read -r name <"/proc/$pid/comm" && ls "/proc/$pid/fd/"; } >/dev/null 2>&1 && printf '%s\n' "$name" | awk -v holder="$holder" '$0 !~ holder { exit 1 }' ||
  fail 'the owner of a TCP listener cannot be seen, run this check as root' "$unseen"; done
{ [ "$profile" = embedded ] && [ -z "$options" ]; } || printf '%s\n' "$options" | awk -v want="$sockets" -v allow="$allow" '
  /^server\.endpoint=/ { at = substr($0, 17); to = at; sub(/^(tcp|ssl):\/\//, "", to); if (index(want, " " at " ")) local = 1; else if (!index(allow, " " to " ")) bad = 1 }
  /^@include=/ { bad = 1 } END { exit bad || !local }' || fail 'an endpoint other than the Unix socket is configured, let server.endpoint be unix:// and its path' "$options"
printf '%s\n' 'ok: the engine is reached through its Unix socket alone'
