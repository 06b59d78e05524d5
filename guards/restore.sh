#!/bin/sh
# Protects: dumps and restores run against an engine whose vector index is on; otherwise vector indexes would not be restored.
# restore.sh --profile single|cluster|embedded --script FILE [--script FILE]
#   FILE is a shell script or systemd unit that dumps or restores. For each arangodump, arangorestore or arangobackup, FILE needs
#   one of these: the option vector-index (or experimental-vector-index) true on the same line; that option earlier in FILE, on
#   the line that starts the engine (single, cluster: arangod; embedded: also arango-embedded or vctx); an earlier call to
#   vector-flag.sh that ends the script when it fails (set -e, &&, || exit, ExecStartPre).
# Comments in FILE do not count. Needs awk. Exit 0 means passed; otherwise one sentence on stderr names the next step.
fail() { printf '%s\n' "$1" >&2; [ -z "${2-}" ] || printf 'seen: %s\n' "$2" >&2; exit 1; }
usage='the arguments of this check are not understood, read its --help'
profile='' checked=''
command -v awk >/dev/null || fail 'a tool that this check needs is not on PATH, install it' awk
while [ $# -gt 0 ]; do
  case $1 in --help) awk 'NR > 1 && !/^#/ { exit } NR > 1 { print substr($0, 3) }' "$0"; exit 0 ;; esac
  [ -n "${2-}" ] || fail "$usage" "$1"
  case $1-$profile in
    --profile-*) profile=$2; case $2 in single | cluster) engine='arangod' ;; embedded) engine='(arangod|arango-embedded|vctx)' ;; *) fail "$usage" "--profile $2" ;; esac ;;
    --script-?*) checked=1; [ -f "$2" ] && [ -r "$2" ] || fail 'the configuration cannot be read, name a readable file or start line' "$2"
      bad=$(awk -v engine="$engine" '
        BEGIN { edge = "(^|[^A-Za-z0-9_.-])"; end = "([^A-Za-z0-9_.-]|$)"; flag = "--(experimental-)?vector-index" }
        { sub(/\r$/, ""); text = held $0; held = "" }
        /\\$/ { held = substr(text, 1, length(text) - 1) " "; next }
        { sub(/^[ \t]*[#;].*/, "", text); sub(/[ \t]#.*/, "", text) }
        text ~ /^[ \t]*set -[a-z]*e/ { strict = 1 }
        text ~ edge "vector-flag\\.sh" end && (strict || text ~ /&&|\|\| *exit|^ExecStartPre=[^-]/) { checked = 1 }
        { on = text ~ (flag "([ \t]|$|=true)") && text !~ (flag "[= \t]+[^-t \t]") }
        text ~ edge engine end { armed = on }
        text ~ edge "arango(dump|restore|backup)" end { found = 1; if (!on && !armed && !checked) print text }
        END { if (!found) print "no dump or restore in it" }' <"$2") || fail 'a tool failed or printed nothing, run it by hand and correct the fault' awk
      [ -z "$bad" ] || fail 'a dump or restore runs without the vector index, start its engine with vector-index true or call vector-flag.sh first' "$bad" ;;
    *) fail "$usage" "$1" ;;
  esac
  shift 2
done
[ -n "$checked" ] || fail "$usage" 'no --script'
printf '%s\n' 'ok: dumps and restores run with the vector index'
