# same_losses.sh MODEL [OPTIONS...]
#
# Known truth: no layer mixes samples, and step k takes the same global batch however it is divided; so 1 rank with batch 64 and 2 ranks
# with batch 32 differ in the order of additions only. Allowed: 1e-4 of each of the first 20 losses.
. "$(dirname "$0")/common.sh"

losses() { awk '$1 == "step" { print $4 }' "$1"; }

job 1 --model "$@" --batch 64 --steps 20 >one
expect "losses of 1 rank" 20 "$(losses one | wc -l)"
for mode in "" --no-overlap; do
  job 2 --model "$@" --batch 32 --steps 20 $mode >two
  losses one >a
  losses two >b
  paste a b | awk -v mode="${mode:-overlap}" '
    { d = ($1 - $2) / $1; if (d < 0) d = -d; if (d > worst) worst = d; if (!($1 > 0) || !(d <= 1e-4)) bad = bad " " NR - 1 }
    END { print mode ": largest difference " worst; if (NR != 20 || bad) { print "steps that differ:" bad; exit 1 } }' || fail "losses differ"
done

# The comparison can fail: another seed draws other images.
job 2 --model "$@" --batch 32 --steps 2 --seed 2 >other
[ "$(losses other | head -1)" != "$(losses one | head -1)" ] || fail "another seed gives the same loss"
