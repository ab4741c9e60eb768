# Sourced by the other tools: errors with a hint, steps of one line each.
# shellcheck shell=bash

die() { # MESSAGE [HINT]
  echo "${0##*/}: error: $1" >&2
  [ -z "${2-}" ] || echo "${0##*/}: hint: $2" >&2
  exit 1
}

# Runs COMMAND with its output in $DDL_LOG; on a terminal the line shows where it is, elsewhere a line every 30 s says that it lives. On failure
# shows the log's end, and $DDL_HINT if there is one, and exits with the command's code.
step() { # LABEL COMMAND...
  local label=$1 started=$SECONDS code=0 from last pid
  shift
  mkdir -p "$(dirname "$DDL_LOG")"
  echo "== $label: $*" >>"$DDL_LOG"
  from=$(($(wc -l <"$DDL_LOG") + 1))
  "$@" >>"$DDL_LOG" 2>&1 &
  pid=$!
  while kill -0 $pid 2>/dev/null; do
    if [ -t 1 ]; then
      last=$(tail -n 1 "$DDL_LOG" | tr -cd '[:print:]' | cut -c1-60)
      printf '\r\033[K%s ... %d s  %s' "$label" $((SECONDS - started)) "$last"
    elif [ $((SECONDS - started)) -gt 0 ] && [ $(((SECONDS - started) % 30)) -eq 0 ]; then
      printf '  %s ... %d s\n' "$label" $((SECONDS - started))
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
