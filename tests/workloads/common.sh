# Sourced by the job tests: a scratch folder that goes away, jobs on any number of cores, failures that say what was expected.
set -eu
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# job RANKS OPTIONS...
job() {
  ranks=$1
  shift
  "$MPIRUN" --oversubscribe -np "$ranks" "$TRAIN" "$@"
}

# expect WHAT WANTED GOT
expect() { [ "$2" = "$3" ] || fail "$1: expected '$2', got '$3'"; }
