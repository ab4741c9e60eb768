# Sourced by the other tools: errors with a hint, steps of one line each.
# shellcheck shell=bash

# Cores that this process may use. nproc alone takes OMP_NUM_THREADS for their number, which job scripts export.
cores() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc; }

die() { # MESSAGE [HINT]
  echo "${0##*/}: error: $1" >&2
  [ -z "${2-}" ] || echo "${0##*/}: hint: $2" >&2
  exit 1
}

# "12 of 96, " if the end of the log says so, as ninja does.
done_of_all() {
  tail -n 1 "$DDL_LOG" | sed -nE 's,^\[([0-9]+)/([0-9]+)\].*,\1 of \2\, ,p'
}

# Runs COMMAND with its output in $DDL_LOG. On a terminal the line shows how far it is (what the build tool says last: "[12/96]" is 12 of 96), elsewhere
# a line every 30 s does. On failure shows the log's end, and $DDL_HINT if there is one, and exits with the command's code.
step() { # LABEL COMMAND...
  local label=$1 started=$SECONDS code=0 from pid
  shift
  mkdir -p "$(dirname "$DDL_LOG")"
  echo "== $label: $*" >>"$DDL_LOG"
  from=$(($(wc -l <"$DDL_LOG") + 1))
  "$@" >>"$DDL_LOG" 2>&1 &
  pid=$!
  while kill -0 $pid 2>/dev/null; do
    if [ -t 1 ]; then
      printf '\r\033[K%s ... %s%d s' "$label" "$(done_of_all)" $((SECONDS - started))
    elif [ $((SECONDS - started)) -gt 0 ] && [ $(((SECONDS - started) % 30)) -eq 0 ]; then
      printf '  %s ... %s%d s\n' "$label" "$(done_of_all)" $((SECONDS - started))
    fi
    sleep "$([ $((SECONDS - started)) -lt 2 ] && echo 0.1 || echo 1)"
  done
  wait $pid || code=$?
  [ ! -t 1 ] || printf '\r\033[K'
  if [ $code -eq 0 ]; then
    echo "$label: done in $((SECONDS - started)) s"
  else
    echo "$label: failed after $((SECONDS - started)) s; the end of $DDL_LOG:" >&2
    tail -n "+$from" "$DDL_LOG" | tail -n 30 | sed 's/^/    /' >&2
    [ -z "${DDL_HINT-}" ] || echo "${0##*/}: hint: $DDL_HINT" >&2
    exit $code
  fi
}
