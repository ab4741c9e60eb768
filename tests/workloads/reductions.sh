# Known truth: who adds up the gradients changes the order of additions only: the losses are those of MPI_Allreduce to 1e-4. What rank 0
# sends follows from the number of parameters. Codes lose something; with what they lose fed back, each of them brings the mean loss of ten
# steps to 0.4 within 150 steps (59 without a code).
. "$(dirname "$0")/common.sh"

losses() { awk '$1 == "step" { print $4 }' "$1"; }
sent() { sed -n 's/^gradients of a step: rank 0 sent \([0-9]*\) bytes in \([0-9]*\) messages$/\1 \2/p' "$1"; }

job 4 --width 64 --batch 8 --steps 20 --bucket-mb 0 >mpi 2>/dev/null
floats=$(($(sed -n '1s/.* parameters \([0-9]*\) .*/\1/p' mpi) + 2)) # and loss and correct samples
expect "what is sent by MPI_Allreduce" "" "$(sent mpi)"
n=$((4 * floats))
# bytes and messages of rank 0 in one bucket: parameter_server and tree send to others; butterfly: lg 4; the rest 2 * 3/4 of n
while read -r bytes messages options; do
  job 4 --width 64 --batch 8 --steps 20 --bucket-mb 1 --allreduce $options >own 2>/dev/null
  expect "$options: bytes and messages" "$bytes $messages" "$(sent own)"
  expect "$options: overlap" " overlap no allreduce ${options%% *}" "$(sed -n '1s/.*\( overlap no allreduce [a-z_]*\).*/\1/p' own)"
  losses mpi >a
  losses own >b
  paste a b | awk '{ d = $1 - $2; if (d < 0) d = -d; if (!($1 > 0) || !(d <= 1e-4 * $1)) bad = 1 } END { exit NR != 20 || bad }' ||
    fail "$options: other losses than with MPI_Allreduce"
done <<END
$((3 * n)) 3 parameter_server
$((2 * n)) 2 tree
$((2 * n)) 2 butterfly
$((3 * n / 2)) 4 rabenseifner
$((3 * n / 2)) 6 ring
$((3 * n / 2)) 6 segmented_ring --segment-kb 1024
$((2 * n)) 2 hierarchical
$((3 * n / 2)) 6 multi_ring
$((3 * n / 2)) 4 multi_ring --dims 2x2
END

for code in fp16 bf16 q8 q4 onebit ternary topk:0.01; do
  job 2 --width 64 --steps 150 --compress $code >coded 2>/dev/null
  steps=$(losses coded | awk '{ l[NR] = $1 } NR > 9 { s = 0; for (i = NR - 9; i <= NR; ++i) s += l[i]; if (s <= 4) { print NR; exit } }')
  echo "$code: $steps steps, rank 0 sends $(sent coded) per step"
  [ -n "$steps" ] || fail "$code: the mean loss of ten steps is never 0.4"
done
# The last of these: 1 % of the parameters in 8 bytes each, and two floats.
parameters=$(sed -n '1s/.* parameters \([0-9]*\) .*/\1/p' coded)
expect "topk:0.01: bytes and messages" "$((8 * ((parameters + 99) / 100) + 8)) 2" "$(sent coded)"

# The same options, the same output, stochastic codes included; and the profile hears what a step sends.
job 2 --width 16 --steps 5 --compress q4 >first 2>/dev/null
"$MPIRUN" --oversubscribe -np 1 env PROBE_OUT="$scratch/heard" LD_PRELOAD="$PROBE" "$TRAIN" --width 16 --steps 5 --compress q4 : \
  -np 1 "$TRAIN" --width 16 --steps 5 --compress q4 >second 2>/dev/null
cmp first second || fail "two runs with q4 differ"
bytes=$(sent first)
expect "wire_bytes of five steps" "5 ${bytes% *}" "$(awk '$2 == "wire_bytes" { ++n; v = $3 } END { print n, v }' heard)"

# What makes no sense together, also for a rank alone; then what two ranks cannot do.
while read -r ranks words options; do
  code=0
  if [ "$ranks" = 1 ]; then
    "$TRAIN" --width 8 --steps 1 $options >out 2>err || code=$?
  else
    job "$ranks" --width 8 --steps 1 $options >out 2>err || code=$?
  fi
  expect "exit code of: $options" 2 "$code"
  grep '^train: error: ' err | tr ' ' '_' | grep -qF -e "$words" || fail "$options: expected '$words' in $(grep '^train: error' err)"
done <<END
1 unknown_algorithm --allreduce rings
2 do_not_make_2_ranks --allreduce multi_ring --dims 3x2
1 takes_no_dimensions --allreduce ring --dims 2
1 only_--allreduce_multi_ring --dims 2
1 only_--allreduce_segmented_ring --segment-kb 4
1 only_--allreduce_segmented_ring --allreduce ring --segment-kb 4
1 expected_none,_fp16 --compress zip
1 a_way_of_their_own --compress q8 --allreduce ring
1 counts_no_messages --compress q8 --log-calls calls
1 for_--device_cpu --allreduce ring --device cuda
END
