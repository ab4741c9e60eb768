#!/bin/sh
# Slurm epilogue: when a job ends, however it ends, writes what `ddl report` says of each of its recordings to RUN.ddl/report.txt.
#
#   slurm.conf:  Epilog=/opt/ddl/share/ddl/slurm/epilog.sh        (or call it from the epilogue that you have)
#
# Looks in the folder that the job was submitted from (sbatch --chdir) for what the job recorded: ddl-JOB.ddl, ddl-JOB.STEP.ddl, and any *.ddl that `ddl record`
# made in that job. Runs on the first node of the job, as the user of the job, for two minutes at most a recording. Harmless for jobs without a recording;
# always ends with 0, since Slurm drains a node whose epilogue fails.
here=$(dirname "$(readlink -f "$0")")
ddl=${DDL:-$here/../../../bin/ddl}

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
  grep -Eqs "\"job_id\": *\"$SLURM_JOB_ID\"" "$1/job.json"
}

report_all() {
  umask 077
  for run in "$SLURM_JOB_WORK_DIR"/*.ddl; do
    if [ ! -d "$run" ] || [ -L "$run" ] || ! is_of_this_job "$run"; then continue; fi
    draft=$(mktemp "$run/.report.XXXXXX") || continue
    {
      echo "Slurm job $SLURM_JOB_ID on ${nodes:-?} has ended. What it left:"
      timeout --kill-after=5 120 "$ddl" report "$run" </dev/null || echo "(ddl report: exit code $?)"
    } >"$draft" 2>&1
    mv -f "$draft" "$run/report.txt"
  done
}

[ -n "${SLURM_JOB_ID-}" ] && [ -n "${SLURM_JOB_WORK_DIR-}" ] && [ -x "$ddl" ] || exit 0
nodes=${SLURM_JOB_NODELIST-${SLURM_NODELIST-}}
[ -z "${SLURMD_NODENAME-}" ] || [ "$SLURMD_NODENAME" = "$(first_node "$nodes")" ] || exit 0
if [ "$(id -u)" = "${SLURM_JOB_UID-}" ]; then
  report_all >/dev/null 2>&1
else  # as root: touch nothing that belongs to the user
  setpriv --reuid="$SLURM_JOB_UID" --regid="${SLURM_JOB_GID:-$(id -g "$SLURM_JOB_UID")}" --init-groups env DDL="$ddl" "$0" >/dev/null 2>&1
fi
exit 0
