# Known truth: a step lasts at least as long as its slowest rank, and a delay is paid once. Mostly lower bounds: a busy machine adds.
# Without faults a step of this network takes about 1 ms.
. "$(dirname "$0")/common.sh"

ms_per_step() { job 2 --width 16 --batch 8 --steps 11 --print-every 0 "$@" 2>&1 >/dev/null | sed -n 's/.*, \([0-9.]*\) ms\/step.*/\1/p'; }
at_least() { awk -v ms="$2" -v low="$3" 'BEGIN { exit !(ms != "" && ms >= low) }' || fail "$1: $2 ms per step, expected $3 or more"; }

at_least "--slow-rank 1:40" "$(ms_per_step --slow-rank 1:40)" 40
at_least "--slow-rank 0:40:6, 5 of the 10 timed steps" "$(ms_per_step --slow-rank 0:40:6)" 20
at_least "--delay-once 0:4:300 over 10 steps" "$(ms_per_step --delay-once 0:4:300)" 30
at_least "--delay-once with --no-overlap" "$(ms_per_step --delay-once 1:4:300 --no-overlap)" 30
# Once, not once per bucket (here 8, which would be 240 ms per step).
once=$(ms_per_step --delay-once 0:4:300 --bucket-mb 0)
awk -v ms="$once" 'BEGIN { exit !(ms >= 30 && ms < 150) }' || fail "--delay-once with 8 buckets: $once ms per step, expected 30 to 150"
# The mean of the larger of two draws from 0..60 ms is 40 ms.
at_least "--jitter 60" "$(ms_per_step --jitter 60)" 20
