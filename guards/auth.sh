#!/bin/sh
# Protects: every access to memory needs credentials, even through the Unix socket.
# auth.sh --profile single|cluster|embedded [--config FILE | --command LINE] [--socket PATH]
#   single    needs arangod's configuration FILE or start LINE, which must set both authentication options to true
#   cluster   like single; run the check once for each coordinator
#   embedded  needs --socket, because the engine in vctx or arango-embedded has no such options
#   --socket  sends a request without credentials to the running engine, which must answer 401
# Needs awk, and with --socket also curl. Exit 0 means passed; otherwise one sentence on stderr names the next step.
fail() { printf '%s\n' "$1" >&2; [ -z "${2-}" ] || printf 'seen: %s\n' "$2" >&2; exit 1; }
usage='the arguments of this check are not understood, read its --help'
case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
profile='' options='' given='' socket=''
command -v awk >/dev/null || fail 'a tool that this check needs is not on PATH, install it' awk
while [ $# -gt 0 ]; do
  case $1 in --help) awk 'NR > 1 && !/^#/ { exit } NR > 1 { print substr($0, 3) }' "$0"; exit 0 ;; esac
  [ -n "${2-}" ] || fail "$usage" "$1"
  case $1 in
    --profile) profile=$2 ;;
    --config) given=1 options=$({ awk -f "$here/options.awk" <"$2"; } 2>&1) || fail 'the configuration cannot be read, name a readable file or start line' "$2" ;;
    --command) given=1 options=$(printf '%s\n' "$2" | awk -v start=1 -f "$here/options.awk") ;;
    --socket) socket=$2 ;;
    *) fail "$usage" "$1" ;;
  esac
  shift 2
done
case $profile in single | cluster) needed=$given ;; embedded) needed=$socket ;; *) fail "$usage" "--profile $profile" ;; esac
[ -n "$needed" ] || fail "$usage" "what --profile $profile needs is not given"
[ -z "$given" ] || printf '%s\n' "$options" | awk -F= '/^@include/ { bad = 1 } /^server\.authentication(-unix-sockets)?=/ { if ($2 == "true") on[$1] = 1; else bad = 1 }
  END { exit bad || !on["server.authentication"] || !on["server.authentication-unix-sockets"] }' ||
  fail 'authentication is not switched on, set server.authentication and server.authentication-unix-sockets to true' "$options"
[ -n "$socket" ] || { printf '%s\n' 'ok: authentication is switched on'; exit 0; }
command -v curl >/dev/null || fail 'a tool that this check needs is not on PATH, install it' curl
status=$(curl -s -m 5 -o /dev/null -w '%{http_code}' --unix-socket "$socket" http://localhost/_api/version 2>/dev/null)
case $status in 401) printf '%s\n' 'ok: the engine refuses a caller without credentials' ;;
  2??) fail 'the engine answers without credentials, switch its authentication on' "$socket" ;;
  *) fail 'the engine does not answer on its socket, start it or correct the path' "$socket: ${status:-nothing}" ;; esac
