# Functions for `.ci/run` and `.ci/full`: named steps with their times, and the installation of
# missing tools from Debian packages.

steps=()
step() { # name of the step that begins
  steps+=("$SECONDS $*")
  printf '\n== %s (after %s s)\n' "$*" "$SECONDS"
}

finish() { # prints the table of steps
  local at name next i
  printf '\n%8s  %s\n' seconds step
  for i in "${!steps[@]}"; do
    at=${steps[$i]%% *} name=${steps[$i]#* }
    next=$SECONDS
    [ $((i + 1)) -lt ${#steps[@]} ] && next=${steps[$((i + 1))]%% *}
    printf '%8d  %s\n' $((next - at)) "$name"
  done
  printf '%8d  %s\n' "$SECONDS" "all of $0"
}

need() { # command, Debian package
  command -v "$1" >/dev/null 2>&1 && return 0
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || { echo "missing: $1 (Debian package $2)"; return 1; }
  [ -n "${apt_fresh:-}" ] || { apt-get update -qq; apt_fresh=1; }
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "$2" >/dev/null
}
