# Known truth: the same options give the same stdout, bit for bit, also with jitter, which moves times only.
. "$(dirname "$0")/common.sh"

for options in "--model mlp --width 256" "--model cnn --width 8 --no-overlap"; do
  job 2 $options --steps 10 --jitter 3 >first 2>first.err
  job 2 $options --steps 10 >second 2>second.err
  cmp first second || fail "$options: two runs differ"
  expect "$options: lines of stdout" 12 "$(wc -l <first)"
  expect "$options: first line" "train model" "$(head -1 first | cut -c1-11)"
  grep -q '^final loss [0-9.e-]* accuracy 0\.[0-9]* over the last 10 batches$' first || fail "$options: $(tail -1 first)"
  grep -q '^train: [0-9.]* samples/s, [0-9.]* ms/step, mean of 9 steps$' first.err || fail "$options: $(cat first.err)"
done
job 2 --width 16 --steps 10 --print-every 4 >sparse 2>/dev/null
expect "steps printed with --print-every 4" "0 4 8" "$(awk '$1 == "step" { printf "%s%s", s, $2; s = " " }' sparse)"
