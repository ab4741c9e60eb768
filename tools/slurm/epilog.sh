#!/bin/sh
# Slurm epilogue: when a job ends, however it ends, writes what `ddl report` says of each of its recordings to RUN.ddl/report.txt.
#
#   slurm.conf:  Epilog=/opt/ddl/share/ddl/slurm/epilog.sh        (or call it from the epilogue that you have)
#
# Looks in the folder that the job was submitted from (sbatch --chdir) for what the job recorded: ddl-JOB.ddl, ddl-JOB.STEP.ddl, and any *.ddl that `ddl record`
# made in that job. Runs on the first node of the job, as the user of the job from the first look at that folder on. The folder is the user's, and may hold anything:
# only regular files are opened, and all of it ends after DDL_EPILOG_SECONDS (120). At most 16 recordings of at most 64 GiB are read, and 64 KiB of each job.json.
# With DDL_HISTORY in its environment (a file or postgresql://..., without a password: the user's processes may read it) each recording is added to the history of runs.
# Harmless for jobs without a recording; always ends with 0, since Slurm drains a node whose epilogue fails.
self=$(readlink -f "$0")
ddl=${DDL:-${self%/*}/../../../bin/ddl}
seconds=${DDL_EPILOG_SECONDS:-120}
most_recordings=16
most_bytes=68719476736
most_job_bytes=65536

# node[01-04,07],gpu1 -> node01
first_node() {
  rest=$1 name=
  while :; do
    words=${rest%%\[*}
    name=$name${words%%,*}
    if [ "$words" = "$rest" ] || [ "$words" != "${words%%,*}" ]; then break; fi
    numbers=${rest#*\[}
    rest=${numbers#*\]}
    numbers=${numbers%%\]*}
    name=$name${numbers%%[,-]*}
  done
  echo "$name"
}

# RUN: did the job SLURM_JOB_ID record it?
is_of_this_job() {
  case ${1##*/} in
    "ddl-$SLURM_JOB_ID.ddl" | "ddl-$SLURM_JOB_ID."*.ddl) return 0 ;;
  esac
  [ -f "$1/job.json" ] && [ ! -L "$1/job.json" ] || return 1
  head -c "$most_job_bytes" <"$1/job.json" | grep -Eqs "\"job_id\": *\"$SLURM_JOB_ID\""
}

spool_bytes() { find "$1/" -maxdepth 1 -type f -name '*.spool' -printf '%s\n' | awk '{ sum += $1 } END { printf "%.0f\n", sum }'; }

report_all() {
  umask 077
  count=0
  for run in "$SLURM_JOB_WORK_DIR"/*.ddl; do
    if [ ! -d "$run" ] || [ -L "$run" ] || ! is_of_this_job "$run"; then continue; fi
    count=$((count + 1))
    [ "$count" -le "$most_recordings" ] || break
    draft=$(mktemp "$run/.report.XXXXXX") || continue
    {
      echo "Slurm job $SLURM_JOB_ID on ${SLURM_JOB_NODELIST:-?} has ended. What it left:"
      bytes=$(spool_bytes "$run")
      if [ "$bytes" -gt "$most_bytes" ]; then
        echo "(not read by the epilogue: its spools hold $bytes bytes, more than $most_bytes. Try: ddl report)"
      else
        "$ddl" report "$run" </dev/null || echo "(ddl report: exit code $?)"
        if [ -n "${DDL_HISTORY-}" ]; then "$ddl" history add "$run" </dev/null || echo "(ddl history add: exit code $?)"; fi
      fi
    } >"$draft" 2>&1
    mv -fT "$draft" "$run/report.txt"
  done
}

case ${SLURM_JOB_ID-} in '' | *[!0-9]*) exit 0 ;; esac
if [ "${1-}" = --report-all ]; then
  report_all
  exit 0
fi
case ${SLURM_JOB_UID-} in '' | *[!0-9]*) exit 0 ;; esac
case ${SLURM_JOB_WORK_DIR-} in /*) [ -x "$ddl" ] || exit 0 ;; *) exit 0 ;; esac
nodes=${SLURM_JOB_NODELIST-${SLURM_NODELIST-}}
[ -z "${SLURMD_NODENAME-}" ] || [ "$SLURMD_NODENAME" = "$(first_node "$nodes")" ] || exit 0
drop=
if [ "$(id -u)" != "$SLURM_JOB_UID" ]; then  # as root: touch nothing that belongs to the user
  drop="setpriv --reuid=$SLURM_JOB_UID --regid=${SLURM_JOB_GID:-$(id -g "$SLURM_JOB_UID")} --init-groups --no-new-privs"
fi
# One time limit over everything, in a place and an environment that are nobody's.
cd / || exit 0
# shellcheck disable=SC2086  # of numbers and words of ours
timeout --kill-after=1 "$seconds" $drop env -i PATH=/usr/bin:/bin DDL="$ddl" SLURM_JOB_ID="$SLURM_JOB_ID" SLURM_JOB_WORK_DIR="$SLURM_JOB_WORK_DIR" \
  SLURM_JOB_NODELIST="$nodes" DDL_HISTORY="${DDL_HISTORY-}" "$self" --report-all >/dev/null 2>&1 </dev/null
exit 0
