"""Signals through `vgpu run`: to vgpu alone, to its process group, and from a terminal. Exits non-zero on a failure."""
import contextlib
import faulthandler
import glob
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

VGPU = os.environ["VGPU"]
SIGNALS = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM]
# Python may run a handler late, where the signal comes right before a call that blocks. The wakeup descriptor is not late.
COUNTER = r"""
import os, select, signal
came, comes = os.pipe()
os.set_blocking(comes, False)
signal.set_wakeup_fd(comes)
for number in (1, 2, 3, 10, 12, 15, 18, 28):
    signal.signal(number, lambda number, frame: None)
print("ready", flush=True)
while True:
    ready = select.select([0, came], [], [])[0]
    if came in ready:
        for number in os.read(came, 64):
            os.write(1, b"%d\n" % number)
    elif not os.read(0, 64):
        break
"""
PATIENCE_S = 60
failures = []


def check(what, got, wanted):
    if got != wanted:
        failures.append(f"{what}: {got!r}, not {wanted!r}")


def start(*command, **options):
    return subprocess.Popen([VGPU, "run", *command], text=True, start_new_session=True, stdout=subprocess.PIPE,
                            stdin=subprocess.PIPE, **options)


def received(send, numbers):
    process = start(sys.executable, "-c", COUNTER)
    assert process.stdout.readline() == "ready\n"
    got = []
    for number in numbers:
        send(process.pid, number)
        got.append(int(process.stdout.readline()))
    while not taken(process.pid):
        time.sleep(0.01)
    process.stdin.close()
    got += [int(line) for line in process.stdout.read().split()]
    check("status", process.wait(), 0)
    return got


def children(pid):
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(path, errors="replace") as stat:  # a name is any bytes
            text = stat.read()
            if int(text.rpartition(")")[2].split()[1]) == pid:
                found.append(int(text.split()[0]))
    return found


def taken(pid):
    """Whether no signal waits for a process or for a child of it."""
    for each in [pid, *children(pid)]:
        with open(f"/proc/{each}/status") as status:
            if not any(line.split() == ["ShdPnd:", "0000000000000000"] for line in status):
                return False
    return True


def sleeper(**options):
    process = start("sh", "-c", "echo up; exec sleep 60", **options)
    assert process.stdout.readline() == "up\n"
    return process


def test_once():
    check("to vgpu", received(os.kill, SIGNALS), SIGNALS)
    check("to the group", received(os.killpg, SIGNALS), SIGNALS)

    def both(pid, number):
        while not taken(pid):
            time.sleep(0.01)  # a second one that waits beside the first is lost, as ever
        (os.killpg if both.group else os.kill)(pid, number)
        both.group = not both.group
    both.group = True
    check("by turns", received(both, [15, 15, 15, 15, 2, 2, 2]), [15, 15, 15, 15, 2, 2, 2])
    check("continue", received(os.kill, [signal.SIGCONT]), [signal.SIGCONT])


def test_status():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGQUIT):
        process = sleeper(stderr=subprocess.DEVNULL)
        process.send_signal(number)
        check(f"status after {number}", process.wait(), 128 + number)
    # A signal to the whole group that kills both looks to a shell as if it had killed its own child.
    process = sleeper()
    os.killpg(process.pid, signal.SIGINT)
    check("status after SIGINT to the group", process.wait(), -signal.SIGINT)


def test_early():
    """A ^C that comes before vgpu waits for the command ends vgpu, too."""
    for _ in range(20):
        process = start("sh", "-c", "kill -STOP $PPID; echo up; exec sleep 60")
        assert process.stdout.readline() == "up\n"
        os.killpg(process.pid, signal.SIGINT)
        os.kill(process.pid, signal.SIGCONT)
        check("status after an early SIGINT", process.wait(), -signal.SIGINT)


def test_ignored():
    """What the caller ignores (nohup), the command ignores too."""
    process = subprocess.Popen(["nohup", VGPU, "run", "sh", "-c", "kill -HUP $$; echo alive"], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True)
    check("nohup", process.communicate()[0], "alive\n")
    old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    command = f"{VGPU} run sh -c 'exit 7'; echo $?"
    out = subprocess.run(["sh", "-c", f"trap '' CHLD; {command}"], stdout=subprocess.PIPE, text=True).stdout
    signal.signal(signal.SIGCHLD, old)
    check("SIGCHLD ignored", out, "7\n")


def test_pipe():
    """The reader of a pipe sees its end when the command is gone, whatever vgpu keeps open."""
    begin = time.monotonic()
    process = start("sh", "-c", "exec >/dev/null; sleep 0.2")
    process.stdout.read()
    check("end of output", process.wait(), 0)
    check("took long", time.monotonic() - begin > PATIENCE_S, False)


def test_hangup():
    """A terminal that is closed ends the command also where vgpu leads the session: the kernel tells nobody else."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execv(VGPU, [VGPU, "run", "sh", "-c", "echo up; exec sleep 60"])
    while b"up" not in os.read(fd, 4096):
        pass
    os.close(fd)
    check("status after a hangup", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 128 + signal.SIGHUP)


class Terminal:
    def __init__(self):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ["PS1"] = ""
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.seen = self.text = ""
        self.send("stty -echo; PS1='ready''>'; set -m; bind 'set enable-bracketed-paste off' 2>/dev/null; echo go$((1))\n")
        self.expect("go1")

    def send(self, text):
        os.write(self.fd, text.encode())

    def expect(self, pattern):
        end = time.monotonic() + PATIENCE_S
        while not re.search(pattern, self.text):
            if not select.select([self.fd], [], [], max(0, end - time.monotonic()))[0]:
                sys.exit(f"terminal: waited in vain for {pattern!r}, after {self.seen!r} came {self.text!r}")
            self.text += os.read(self.fd, 4096).decode(errors="replace")
        end = re.search(pattern, self.text).end()
        self.seen += self.text[:end]
        self.text = self.text[end:]

    def close(self):
        self.send("exit\n")
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def test_terminal():
    terminal = Terminal()
    # Not a shell: one that is about to start a program by vfork() when the ^Z comes does not stop, with or without vgpu.
    # SIGCONT may come twice, from the shell and from vgpu, the second one while the first is being handled.
    script = ('import os, signal, time; signal.signal(2, signal.SIG_DFL); '
              'signal.signal(18, lambda *a: os.write(1, b"co" + b"nt\\n")); print("u" + "p", flush=True); '
              'any(time.sleep(0.05) for _ in range(2000))')
    terminal.send(f"{VGPU} run {sys.executable} -c '{script}'; echo \"status=$?\"\n")
    terminal.expect("up")
    terminal.send("\x1a")
    terminal.expect("Stopped")
    terminal.expect("status=148")
    terminal.send("jobs\n")
    terminal.expect("Stopped")
    terminal.send("fg\n")
    terminal.expect("cont")
    terminal.send("\x03")
    terminal.expect("ready>")  # what is typed before is lost
    terminal.send("echo \"status=$?\"\n")
    terminal.expect("status=130")
    # ^C ends the loop, not only the command in it.
    terminal.send(f"bash -c 'for i in 1 2 3; do {VGPU} run sh -c \"echo turn$i; exec sleep 30\"; done'\n")
    terminal.expect("turn1")
    terminal.send("\x03")
    terminal.expect("ready>")  # what is typed before is lost
    terminal.send("echo end=$?\n")
    terminal.expect("end=130")
    if "turn2" in terminal.text:
        failures.append("^C did not end the loop")
    # The command may read from the terminal.
    terminal.send(f"{VGPU} run sh -c 'echo as\\k; read line; echo got-$line'\n")
    terminal.expect("ask")
    terminal.send("word\n")
    terminal.expect("got-word")
    terminal.close()


faulthandler.dump_traceback_later(2 * PATIENCE_S, exit=True)  # what hangs, ends with its stdin
for test in (test_once, test_status, test_early, test_ignored, test_pipe, test_hangup, test_terminal):
    test()
print("\n".join(failures), file=sys.stderr)
sys.exit(bool(failures))
