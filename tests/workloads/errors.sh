# Known truth: whatever is wrong is said once for the whole job, on stderr, and nothing reaches stdout. 2 usage, 1 other errors.
. "$(dirname "$0")/common.sh"
export OMPI_MCA_odls_base_sigkill_timeout=0  # mpirun ends the other ranks at once

# refuse CODE WORDS RANKS OPTIONS...
refuse() {
  code=$1 words=$2
  shift 2
  got=0
  job "$@" >out 2>err || got=$?
  expect "exit code of: $*" "$code" "$got"
  expect "errors of: $*" 1 "$(grep -c '^train: error: ' err)"
  grep '^train: error: ' err | grep -qF -e "$words" || fail "$*: expected '$words' in $(grep '^train: error' err)"
  [ ! -s out ] || fail "$*: stdout is not empty: $(cat out)"
  ! grep -qE 'MPI_ABORT|on signal|Segmentation' err || fail "$*: not a clean end: $(cat err)"
}

refuse 2 "--batch" 3 --batch 0
refuse 2 "--no-such" 2 --no-such
refuse 2 "rank 2" 2 --slow-rank 2:5
refuse 1 "nowhere" 2 --data nowhere
mkdir mnist
printf '\000\000\010\003\000\000\000\002' >mnist/train-images-idx3-ubyte
printf '\000\000\010\001' >mnist/train-labels-idx1-ubyte
refuse 1 "too short for an IDX header" 2 --data mnist
refuse 1 "calls" 1 --log-calls nowhere/calls
# An error that only rank 1 has: its log cannot be created, because a folder has that name.
mkdir calls.1
refuse 1 "calls.1" 2 --log-calls calls

"$TRAIN" --width 8 --steps 2 >/dev/full 2>err && fail "a full disk goes unnoticed"
expect "errors with a full disk" 1 "$(grep -c '^train: error: stdout' err)"

job 2 --help >out 2>err
expect "help texts" 1 "$(grep -c '^usage:' out)"
