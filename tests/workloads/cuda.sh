# cuda.sh: --device cuda gives the losses of the CPU, by NCCL and by way of the host. Without a device: one line that says why, exit code 1, and this test is skipped.
. "$(dirname "$0")/common.sh"

losses() { awk '$1 == "step" { print $4 }' "$1"; }

code=0
job 1 --device cuda --steps 1 --batch 4 >out 2>err || code=$?
if [ "$code" != 0 ]; then
  said=$(grep '^train: ' err)
  case "$said" in
    "train: error: --device cuda: "*) ;;
    *) cat err >&2; fail "without a device: exit code $code, said '$said'" ;;
  esac
  expect "lines about it" 1 "$(printf '%s\n' "$said" | wc -l)"
  expect "exit code" 1 "$code"
  echo "skipped: ${said#train: error: }"
  exit 77
fi
for model in mlp cnn; do
  job 1 --model $model --batch 32 --steps 10 >cpu
  for reduce in nccl mpi; do
    job 1 --model $model --batch 32 --steps 10 --device cuda --reduce $reduce >gpu
    losses cpu >a
    losses gpu >b
    paste a b | awk -v what="$model $reduce" '{ d = ($1 - $2) / $1; if (d < 0) d = -d; if (!(d <= 1e-3)) bad = bad " " NR - 1 }
      END { if (NR != 10 || bad) { print what ": steps that differ:" bad; exit 1 } }' || fail "losses differ"
  done
done
