# Known truth: a step posts and awaits each bucket once; set-up takes one MPI_Allreduce, the weights one MPI_Bcast. Rank 1 hangs before
# the first reduction of step 3, so it has completed 3 steps; rank 0 has posted 4 steps' buckets and awaited 3; both are then killed.
. "$(dirname "$0")/common.sh"

count() { awk -v op="$2" '$1 == op { n = $2 } END { print n + 0 }' "$1"; }
buckets() { sed -n '1s/.* buckets \([0-9]*\) .*/\1/p' "$1"; }

job 2 --width 64 --bucket-mb 0.01 --steps 5 --log-calls whole >out 2>/dev/null
n=$(buckets out)
[ "$n" -ge 3 ] || fail "expected several buckets, got $n"
wanted="MPI_Init 1 MPI_Comm_rank 1 MPI_Comm_size 1 MPI_Bcast 1 MPI_Allreduce 1 MPI_Iallreduce $((5 * n)) MPI_Wait $((5 * n)) MPI_Finalize 1"
for rank in 0 1; do expect "whole job, rank $rank" "$wanted" "$(tr '\n' ' ' <whole.$rank | sed 's/ $//')"; done

job 2 --width 64 --bucket-mb 0.01 --steps 5 --no-overlap --log-calls blocking >out 2>/dev/null
for rank in 0 1; do
  expect "--no-overlap, rank $rank" "$((1 + 5 * n)) 0" "$(count blocking.$rank MPI_Allreduce) $(count blocking.$rank MPI_Iallreduce)"
done

job 2 --width 64 --bucket-mb 0.01 --steps 10 --hang-rank 1:3 --log-calls hung >out 2>/dev/null &
launcher=$!
tries=0
until [ -e hung.0 ] && [ -e hung.1 ] && [ "$(count hung.0 MPI_Iallreduce)" -ge $((4 * n)) ] && [ "$(count hung.1 MPI_Wait)" -ge $((3 * n)) ]; do
  tries=$((tries + 1))
  [ $tries -lt 200 ] || { kill $launcher; fail "the job did not get to step 3"; }
  sleep 0.05
done
sleep 0.3 # were anything still moving, it would show below
kill -9 $(ps -o pid= --ppid $(ps -o pid= --ppid $launcher)) # job() runs in a subshell: its child is mpirun, whose children are the ranks
wait $launcher && fail "a killed job ended well" || true
expect "hung job, rank 0" "$((4 * n)) $((3 * n))" "$(count hung.0 MPI_Iallreduce) $(count hung.0 MPI_Wait)"
expect "hung job, rank 1" "$((3 * n)) $((3 * n))" "$(count hung.1 MPI_Iallreduce) $(count hung.1 MPI_Wait)"
expect "MPI_Finalize of a killed rank" 0 "$(count hung.1 MPI_Finalize)"
expect "steps printed before the hang" 3 "$(grep -c '^step' out)"
