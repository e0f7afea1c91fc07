# Runs the steps of ./test, ./demo and tools/setup, with a log and the time of each, and advice if a step fails.
# Sourced by bash scripts. STEP_LOGS is the folder of the logs; it must exist before the first step.

# run_step NAME ADVICE COMMAND...: runs the command with its output in a log. Shows the log's last line, every second on
# a terminal and else every half minute. On failure prints the log's end and the advice, and returns the status.
run_step() {
  local name=$1 advice=$2 status=0
  shift 2
  local log="$STEP_LOGS/${name//[^A-Za-z0-9]/_}.log" began=$SECONDS watcher
  printf '== %s\n' "$name"
  : >"$log"
  # The watcher runs in the background, not the command, so that an interrupt from the keyboard reaches the command.
  watch_log "$log" $$ 9>&- &
  watcher=$!
  "$@" >"$log" 2>&1 </dev/null || status=$?
  kill "$watcher" 2>/dev/null || true
  wait "$watcher" 2>/dev/null || true
  [ -t 1 ] && printf '\r\033[K'
  if [ "$status" -eq 0 ]; then
    printf '   done in %d s\n' $((SECONDS - began))
  else
    show_failure "$name" "$log" "$advice" $((SECONDS - began))
  fi
  return "$status"
}

# show_failure NAME LOG ADVICE SECONDS
show_failure() {
  printf '   FAILED after %d s; the end of %s:\n' "$4" "$2"
  tail -n 30 "$2" | sed 's/^/   | /'
  printf '   %s failed. What to do: %s\n' "$1" "$3"
}

# watch_log LOG OWNER: shows the last line of a growing log until it is killed or the owner's process is gone.
watch_log() {
  local log=$1 owner=$2 began=$SECONDS line width next=30
  while sleep 1 && kill -0 "$owner" 2>/dev/null; do
    line=$(tail -c 2000 "$log" | tr '\r' '\n' | tr -d '\033' | grep -v '^[[:space:]]*$' | tail -n 1)
    if [ -t 1 ]; then
      width=$(tput cols 2>/dev/null || echo 100)
      printf '\r\033[K   %4d s  %s' $((SECONDS - began)) "${line:0:width - 12}"
    elif [ $((SECONDS - began)) -ge "$next" ]; then
      printf '   %4d s  %s\n' $((SECONDS - began)) "${line:0:160}"
      next=$((next + 30))
    fi
  done
}

# build_jobs: prints how many compilers to run at once. A compiler that reads torch's headers takes up to 2 GB.
build_jobs() {
  local by_memory cores
  by_memory=$(awk '/MemAvailable/ { print int($2 / 2097152) }' /proc/meminfo)
  cores=$(nproc)
  [ "$by_memory" -lt 1 ] && by_memory=1
  echo $((cores < by_memory ? cores : by_memory))
}
