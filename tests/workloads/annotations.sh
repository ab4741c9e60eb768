# Known truth: what a profile of one step must hear, in this order. One bucket of 1 MiB with 3 networks' worth of room, so it is posted
# after the first layer's backward; and one bucket per layer's tensors, posted as backward goes.
. "$(dirname "$0")/common.sh"

heard() {
  PROBE_OUT="$scratch/heard" LD_PRELOAD="$PROBE" "$TRAIN" --width 8 --batch 4 --steps 1 "$@" >out 2>/dev/null || fail "$*: did not run"
  # One rank: its own gradients are those of all.
  [ "$(sed -n 's/.*value local_gradient_norm //p' heard)" = "$(sed -n 's/.*value gradient_norm //p' heard)" ] || fail "$*: norms differ"
  sed 's/value \(loss\|.*_norm\) .*/value \1/' heard
}

cat >forward <<'END'
step 0
  phase input
  phase forward
    layer fc1
    layer relu1
    layer fc2
    layer relu2
    layer fc3
    layer relu3
    layer fc4
END
cat >end <<'END'
  phase update
  value samples 4
  value batch 4
  value loss
  value local_gradient_norm
  value gradient_norm
END

{
  cat forward
  cat <<'END'
  phase backward
    layer fc4
    layer bucket0
    layer bucket1
    layer relu3
    layer fc3
    layer bucket2
    layer bucket3
    layer relu2
    layer fc2
    layer bucket4
    layer bucket5
    layer relu1
    layer fc1
    layer bucket6
    layer bucket7
END
  cat end
} >expected
heard --bucket-mb 0 >got
diff expected got || fail "overlap, a bucket per tensor"

{
  cat forward
  cat <<'END'
  phase backward
    layer fc4
    layer relu3
    layer fc3
    layer relu2
    layer fc2
    layer relu1
    layer fc1
  phase reduce
    layer bucket0
END
  cat end
} >expected
heard --bucket-mb 1 --no-overlap >got
diff expected got || fail "no overlap, one bucket"

# A background runtime: buckets are ranges where they are handed over, and the wait for them is a phase.
sed 's/^  phase reduce/  phase synchronize/' expected >background
heard --bucket-mb 1 --no-overlap --runtime background >got
diff background got || fail "background runtime"

# A job that marks nothing.
PROBE_OUT="$scratch/silence" LD_PRELOAD="$PROBE" "$TRAIN" --width 8 --batch 4 --steps 1 --no-marks >out 2>/dev/null || fail "--no-marks: did not run"
[ ! -e silence ] || fail "--no-marks: heard $(cat silence)"

# Without the probe the program prints the same.
heard --bucket-mb 1 --no-overlap >got
cp out with
"$TRAIN" --width 8 --batch 4 --steps 1 --bucket-mb 1 --no-overlap >without 2>/dev/null
cmp with without || fail "annotations change the result"
