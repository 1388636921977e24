"""What is run on the box, in its shell. Pure.

A run has a folder `.remote/RUN` there: `lock`, which its shell holds while it lives, `pid` of that shell, which leads
a process group, `command`, `output`, and `status`, written when it has ended.
"""

import shlex
from dataclasses import dataclass

NEEDED = ("rsync", "setsid", "flock")
HELD = 75  # flock's status where another process has the lock; other failures have others
LOCKED = f'[ "$(flock -n -E {HELD} lock true; echo $?)" = {HELD} ]'  # while the run goes on
UP = "../.."  # from the run's folder to the box's
RUNS = "runs"  # below the box's folder, whatever the project's settings are
# Stands before the command in its file.
ENTER = f'cd {UP} && export LAB_PROJECT="$PWD" LAB_RUNS="$PWD"/{RUNS} && '
# setsid, and not `&`: what a shell starts in the background ignores Ctrl-C, and the run must not.
START = """\
if mkdir start-{attempt} 2>/dev/null && flock -n lock true; then
cat >command <<'COMMAND'
{command}
COMMAND
rm -f status pid
setsid -f sh -c '
  exec 9>>lock; flock -n 9 || exit 0
  trap : INT
  echo $$ >pid
  sh command >output 2>&1 9>&-
  echo $? >status
' </dev/null >/dev/null 2>&1
fi
n=0
while [ ! -s pid ] && [ $n -lt 300 ]; do n=$((n + 1)); sleep 0.1; done"""

# Not `tail --pid`: in a container nobody may wait for the run's shell, which then stays a process after its end.
FOLLOW = """\
n={offset}
while :; do
  if {locked}; then ended=; else ended=yes; fi
  size=$(wc -c <output)
  if [ "$size" -gt "$n" ]; then tail -c +$((n + 1)) output | head -c $((size - n)) || exit; fi
  n=$size
  if [ -n "$ended" ]; then exit; fi
  sleep 0.5
done"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scripts:
    """The scripts for one run. `folder` is the box's folder."""

    folder: str
    run_id: str

    @property
    def prepare(self) -> str:
        """Makes the folders, and prints what the box lacks, a line for each."""
        lacking = f"for each in {' '.join(NEEDED)}; do command -v $each >/dev/null || echo $each; done"
        locks = f"flock -n -E {HELD} {shlex.quote(self._place)}/lock true >/dev/null 2>&1"
        refused = f"case $? in 0|{HELD}|127) ;; *) echo file locks in {shlex.quote(self.folder)};; esac"
        return f"mkdir -p {shlex.quote(self._place)} && {lacking}; {locks}; {refused}"

    @property
    def state(self) -> str:
        """Prints `running`, `ended STATUS` or `none` and the disk, then the command that the run was started with."""
        return self._there(
            f"if {LOCKED}; then echo running; elif [ -s status ]; then echo ended $(cat status); "
            "else echo none $(df -Pk . 2>/dev/null | tail -n 1); fi\n"
            "if [ -f command ]; then cat command; fi"
        )

    def start(self, command: str, attempt: str) -> str:
        """Starts a line of shell in a session of its own, which no lost connection ends.

        It leaves a run that goes on alone, and the same attempt starts nothing twice: a client that lost its connection
        cannot know whether the first one arrived.
        """
        return self._there(START.format(command=f"{ENTER}{command}", attempt=attempt))

    def holds(self, place: str) -> str:
        """Prints `yes` where the box's folder has such a folder."""
        return self._there(f"if [ -d {UP}/{shlex.quote(place)} ]; then echo yes; fi")

    def follow(self, offset_bytes: int) -> str:
        """Prints the output from there on until the run has ended."""
        return self._there(FOLLOW.format(offset=offset_bytes, locked=LOCKED))

    @property
    def stop(self) -> str:
        """As Ctrl-C would."""
        return self._there(f'if {LOCKED}; then kill -s INT -- "-$(cat pid)"; fi')

    @property
    def _place(self) -> str:
        return f"{self.folder}/.remote/{self.run_id}"

    def _there(self, script: str) -> str:
        # In braces, so that nothing is run of a script whose end a lost connection took.
        return f"{{\ncd {shlex.quote(self._place)} || exit\n{script}\n}}"
