#!/bin/sh
# Installs the package on a fresh Debian 12, starts what its units start, and shows which users have access to which sockets.
# check-debian.sh --package FILE [--root DIR]
#   FILE  the package (deploy/package.sh)
#   DIR   a root made by debootstrap, copied before use     [default: a new root, some 250 MB from the mirror]
# No systemd runs in the root, so this script itself does what the units configure: User, Group, directories, credentials, environment,
# sockets, ExecStart. It uses separate mount, process and network namespaces. The database is the embedded engine, as vctx-engine.service
# starts it.
# Needs root, debootstrap, util-linux. Ends with 0 if all checks pass; otherwise the last line is the first failed check.
set -eu
NEEDED=systemd,iproute2,lsof,curl,procps

die() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
ok() { printf 'ok: %s\n' "$*"; }

# ---------------------------------------------------------------------------------------------------------------- outside
outside() {
  package='' given=''
  while [ $# -gt 0 ]; do
    case $1 in
      --package) package=$2; shift 2 ;;
      --root) given=$2; shift 2 ;;
      *) awk 'NR > 1 && !/^#/ { exit } NR > 1 { print substr($0, 3) }' "$0"; [ "$1" = --help ] && exit 0; exit 64 ;;
    esac
  done
  [ -f "$package" ] || die "no package: deploy/package.sh makes one, --package names it"
  [ "$(id -u)" = 0 ] || die 'this needs root: it makes users and becomes them'
  work=$(mktemp -d /tmp/vctx-debian.XXXXXX)
  trap 'rm -rf "$work"' EXIT
  if [ -n "$given" ]; then
    cp -a "$given" "$work/tree"
  else
    debootstrap --variant=minbase --include="$NEEDED" bookworm "$work/tree" >"$work/log" || die "debootstrap: $(tail -n 3 "$work/log")"
  fi
  cp "$package" "$work/tree/vctx.deb"
  cp "$0" "$work/tree/check.sh"
  unshare --mount --pid --net --ipc --uts --fork --kill-child sh -c '
    set -e
    mount --make-rprivate / && cd "$1"
    mount -t proc proc proc && mount -t tmpfs -o mode=755 run run && mount -t tmpfs shm dev/shm 2>/dev/null || true
    [ -c dev/null ] || mount --bind /dev dev
    exec chroot . /bin/sh /check.sh --inside' sh "$work/tree"
}

# ----------------------------------------------------------------------------------------------- what systemd would do
UNITS=/usr/lib/systemd/system

# Prints the values of a key in a unit, one per line. In a template unit, %i becomes the instance.
values() { # unit, key
  file=$UNITS/$1 instance=''
  case $1 in *@*) instance=${1#*@}; instance=${instance%.*}; file=$UNITS/${1%%@*}@.${1##*.} ;; esac
  sed -n "s/^$2=//p" "$file" | sed "s/%i/$instance/g"
}
value() { values "$1" "$2" | tail -n 1; }

# Prints the environment of a unit as lines NAME=value; a later value overrides an earlier value.
environment() { # unit
  values "$1" Environment | tr ' ' '\n'
  values "$1" EnvironmentFile | while read -r file; do
    file=${file#-}
    if [ -f "$file" ]; then sed '/^#/d;/^$/d' "$file"; fi
  done
}

# Creates the directories and credentials of a unit, owned by the unit's user.
prepare() { # unit
  user=$(value "$1" User) group=$(value "$1" Group); group=${group:-$user}
  mode=$(value "$1" RuntimeDirectoryMode)
  for name in $(value "$1" RuntimeDirectory); do
    mkdir -p "/run/${name%/*}"
    install -d -m "${mode:-0755}" -o "$user" -g "$group" "/run/$name"
  done
  mode=$(value "$1" StateDirectoryMode)
  for name in $(value "$1" StateDirectory); do install -d -m "${mode:-0755}" -o "$user" -g "$group" "/var/lib/$name"; done
  values "$1" LoadCredential | while IFS=: read -r id file; do
    install -d -m 0500 -o "$user" "/run/credentials/$1"
    install -m 0400 -o "$user" "$file" "/run/credentials/$1/$id"
  done
}

# Prints, one word per line, the prefix that runs a command as the unit's user with the unit's
# environment.
becoming() { # unit
  user=$(value "$1" User) group=$(value "$1" Group); group=${group:-$user}
  more=$(value "$1" SupplementaryGroups)
  [ "$(value "$1" PrivateNetwork)" != yes ] || printf 'unshare\n--net\n'
  printf 'setpriv\n--reuid\n%s\n--regid\n%s\n--no-new-privs\n--bounding-set\n-all\n' "$user" "$group"
  if [ -n "$more" ]; then printf '%s\n' --groups "$more"; else echo --clear-groups; fi
  echo env
  environment "$1"
  [ ! -d "/run/credentials/$1" ] || echo "CREDENTIALS_DIRECTORY=/run/credentials/$1"
}

run() { # unit, words to put before: starts the unit's command, its log in /var/log/UNIT
  unit=$1; shift
  prepare "$unit"
  umask "$(value "$unit" UMask)"
  # shellcheck disable=SC2046 # one word a line
  IFS='
'; set -- "$@" $(becoming "$unit") $(value "$unit" ExecStart | tr ' ' '\n'); unset IFS
  "$@" >"/var/log/$unit" 2>&1 &
  umask 022
}

wait_for() { # what, command ...: a minute at most
  what=$1; shift; looks=0
  until "$@" >/dev/null 2>&1; do
    looks=$((looks + 1))
    [ $looks -lt 600 ] || { tail -n 20 /var/log/vctx* >&2; die "$what does not come"; }
    sleep 0.1
  done
}

service() { run "$1"; wait_for "$2" test -S "$2"; }

# Creates the listener, and hands it to the service at the first connection, as the service manager
# does.
socket() { # unit without its ending
  values "$1.socket" ExecStartPre | while read -r line; do $line; done
  path=$(value "$1.socket" ListenStream) owner=$(value "$1.socket" SocketUser) of=$(value "$1.socket" SocketGroup)
  run "$1.service" systemd-socket-activate --listen="$path" --fdname="$(value "$1.socket" FileDescriptorName)" --
  wait_for "$path" test -S "$path"
  chmod "$(value "$1.socket" SocketMode)" "$path" && chown "$owner:${of:-root}" "$path"
}

# Runs the guard scripts (checks of the setup) one after another, as the unit does. The first
# failing guard ends the run.
guards() {
  export $(environment vctx-guards.service)
  values vctx-guards.service ExecStart | while read -r line; do eval "$line" || exit 1; done
}

as() { # user, command ...
  who=$1; shift
  setpriv --reuid "$who" --regid "$who" --init-groups --no-new-privs env HOME="$(getent passwd "$who" | cut -d: -f6)" "$@"
}

# The first client of a listener starts its server, which reports for a moment that it is not ready.
ready() { as "$1" curl -sf -m 60 --unix-socket "/run/vctx/$1/vctx.sock" http://vctx/readyz; }

state() { stat -c '%a %U %G' "$1"; }
same() { [ "$2" = "$3" ] || die "$1 is $2, not $3"; ok "$1: $2"; }

# ----------------------------------------------------------------------------------------------------------------- inside
inside() {
  export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/ LC_ALL=C
  cd /
  . /etc/os-release; ok "$PRETTY_NAME, $(ls /sys/class/net 2>/dev/null | wc -l) interfaces, no systemd"
  mkdir -p /run/lock
  dpkg -i /vctx.deb >/var/log/dpkg-vctx 2>&1 || { cat /var/log/dpkg-vctx >&2; die 'the package does not install'; }
  ok "installed: $(dpkg-query -W -f '${Package} ${Version}, ${Installed-Size} KiB' vctx), $(dpkg -L vctx | wc -l) paths"
  vctx --version | grep -q . || die 'the program does not run'
  same 'members of vctx-db' "$(getent group vctx-db | cut -d: -f4)" vctx-proxy-ro,vctx-proxy-rw
  same /run/vctx "$(state /run/vctx)" '755 root root'
  same /etc/vctx/credentials "$(state /etc/vctx/credentials)" '700 root root'
  same 'units that were started by installing' "$(pgrep -c vctx || true)" 0

  for name in root rw ro index; do (umask 077; head -c 24 /dev/urandom | base64 >"/etc/vctx/credentials/arango-$name-password"); done
  sed -i 's/^#\([A-Z]\)/\1/' /etc/vctx/guards.env
  # With this setting, the server creates a vector index even for few vectors.
  echo VCTX_ARCHIVE__INDEX_ROWS_MIN=80 >>/etc/vctx/vctx.env
  useradd --create-home alice; useradd --create-home bob

  service vctx-engine.service /run/arangodb-vctx/arangod.sock
  ARANGO_RW_UDS=/run/arangodb-vctx/arangod.sock ARANGO_USER=root ARANGO_PASSWORD_FILE=/etc/vctx/credentials/arango-root-password \
    ARANGO_RW_PASSWORD_FILE=/etc/vctx/credentials/arango-rw-password ARANGO_RO_PASSWORD_FILE=/etc/vctx/credentials/arango-ro-password \
    ARANGO_INDEX_PASSWORD_FILE=/etc/vctx/credentials/arango-index-password \
    vctx setup --users --config /etc/vctx/vctx.toml >/var/log/vctx-setup || die "setup: $(cat /var/log/vctx-setup)"
  ok "setup: $(tail -n 1 /var/log/vctx-setup)"
  for mode in ro rw; do service "vctx-proxy-$mode.service" "/run/vctx-proxy-$mode/arangod.sock"; done
  guards || die 'a guard is red'
  ok 'guards are green'
  chmod 0777 /run/vctx-proxy-rw
  if guards >/dev/null 2>&1; then die 'guards are green although a directory is open to all'; fi
  chmod 0750 /run/vctx-proxy-rw; ok 'guards are red while a directory is open to all'

  socket vctx; socket vctx@alice; socket vctx@bob
  same /run/arangodb-vctx "$(state /run/arangodb-vctx)" '750 vctx-engine vctx-db'
  same /run/arangodb-vctx/arangod.sock "$(state /run/arangodb-vctx/arangod.sock)" '660 vctx-engine vctx-db'
  for mode in ro rw; do
    same "/run/vctx-proxy-$mode" "$(state "/run/vctx-proxy-$mode")" "750 vctx-proxy-$mode vctx"
    same "/run/vctx-proxy-$mode/arangod.sock" "$(state "/run/vctx-proxy-$mode/arangod.sock")" "660 vctx-proxy-$mode vctx"
  done
  same /run/vctx/vctx "$(state /run/vctx/vctx)" '700 vctx vctx'
  same /run/vctx/vctx/vctx.sock "$(state /run/vctx/vctx/vctx.sock)" '660 vctx vctx'
  for user in alice bob; do
    same "/run/vctx/$user" "$(state "/run/vctx/$user")" "700 $user root"
    same "/run/vctx/$user/vctx.sock" "$(state "/run/vctx/$user/vctx.sock")" "660 $user root"
  done
  conversation
  apart
  secrets
  removal
  ok 'all of it holds'
}

# Prints the given number of chunks of a document, as JSON.
chunks() { # how many
  awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) printf "%s\"Pier %d is free at tide %d. \"", (i > 1 ? "," : ""), i, n - i }'
}

indexed() { ready "$1" | tr -d ' \n' | sed 's/.*"vector_index"://' | grep -q '"state":"ready"'; }

# Runs a conversation of an unprivileged user through both proxies: messages are evicted, found
# again, and verified.
conversation() {
  s=/run/vctx/alice/vctx.sock
  wait_for 'the server of alice' ready alice
  as alice vctx agent create ada --window 1024 --system 'You are Ada.' --socket "$s" >/dev/null || die 'alice cannot make an agent'
  for turn in $(seq 1 40); do
    as alice vctx tool append_fifo --agent ada --rev '*' --socket "$s" \
      --args "{\"message\": \"Turn $turn: the boat at pier $turn needs new sails before the long winter comes to the harbour\", \"role\": \"user\"}" \
      >/dev/null || die "turn $turn was refused"
  done
  as alice vctx tool search_recall --agent ada --socket "$s" --args '{"query": "\"pier 3\"", "rehydrate": false}' | grep -q 'pier 3 ' ||
    die 'what left the window is not found'
  as alice vctx tool ingest_archival --agent ada --rev '*' --socket "$s" \
    --args '{"doc_id": "tides.md", "chunks": ["High tide is at noon. ", "The ferry leaves at ebb."], "provenance": {"source": "almanac"}}' >/dev/null ||
    die 'the archive takes nothing in'
  as alice vctx tool search_archival --agent ada --socket "$s" --args '{"query_text": "when does the ferry leave"}' | grep -q 'leaves at ebb' ||
    die 'the archive finds nothing'
  as alice vctx verify --agent ada --socket "$s" | tail -n 3 || die 'vctx verify refuses the memory'
  # The vector index is created through the proxy for writes, by a database user who may do nothing
  # else.
  as alice vctx tool ingest_archival --agent ada --rev '*' --socket "$s" \
    --args "{\"doc_id\": \"piers.md\", \"chunks\": [$(chunks 100)], \"provenance\": {\"source\": \"harbour\"}}" >/dev/null ||
    die 'the archive takes no hundred chunks in'
  wait_for 'the vector index' indexed alice
  ok 'the archive has its vector index'
  ok 'alice: 40 turns through a window of 1024 tokens and both proxies, evicted, found, proved'
  as alice sh -c 'cd && vctx demo --json >demo.json 2>/dev/null' || die 'the demo does not end well'
  ok "alice: vctx demo: $(tr ',{' '\n\n' <~alice/demo.json | grep -E '"(lost|doubled|out_of_order)"' | tr '\n' ' ')"
}

apart() {
  wait_for 'the server of bob' ready bob
  as bob vctx agent create ada --window 1024 --socket /run/vctx/bob/vctx.sock >/dev/null || die 'bob cannot make an agent'
  if as bob vctx messages --agent ada --socket /run/vctx/bob/vctx.sock --json | grep -q pier; then die "bob sees alice's memory"; fi
  ok "bob: an agent of the same name, and nothing of alice's"
  for path in /run/vctx/alice/vctx.sock /run/vctx/vctx/vctx.sock /run/vctx-proxy-ro/arangod.sock /run/vctx-proxy-rw/arangod.sock \
    /run/arangodb-vctx/arangod.sock /run/vctx-metrics/alice/metrics.sock; do
    if as bob curl -s -m 5 --unix-socket "$path" http://x/ >/dev/null 2>&1; then die "bob reaches $path"; fi
    ok "bob does not reach $path"
  done
  if as vctx curl -s -m 5 --unix-socket /run/arangodb-vctx/arangod.sock http://x/ >/dev/null 2>&1; then die 'the server reaches the database past the proxies'; fi
  ok 'the server does not reach the database past the proxies'
}

secrets() {
  for name in root rw ro index; do
    # grep reads the secret from its file, because an argument would appear in the process list.
    word=/etc/vctx/credentials/arango-$name-password
    if cat /proc/[0-9]*/cmdline | grep -aqFf "$word"; then die "the process list holds the password of $name"; fi
    if cat /proc/[0-9]*/environ 2>/dev/null | grep -aqFf "$word"; then die "an environment holds the password of $name"; fi
    if grep -rqFf "$word" /var/log; then die "a log holds the password of $name"; fi
  done
  ok 'no password in process list, environments, logs'
  ss -lntup | grep -E 'LISTEN|UNCONN' && die 'something listens on a network' || ok 'nothing listens on a network'
}

removal() {
  pkill -TERM -x vctx || true
  wait_for 'the end of all' sh -c '! pgrep -x vctx'
  dpkg --purge vctx >>/var/log/dpkg-vctx 2>&1 || die "purge: $(tail -n 5 /var/log/dpkg-vctx)"
  [ -d /var/lib/vctx-engine/engine ] || die 'the purge removed memories'
  [ ! -e /usr/bin/vctx ] || die 'the purge left the program'
  ok 'purged; memories are left where they are'
}

case ${1-} in --inside) inside ;; *) outside "$@" ;; esac
