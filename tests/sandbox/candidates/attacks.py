"""One escape attempt per function. Each raises `OSError` where it is refused, and returns where it went through.

`forward(x, attack, *values)` returns 1 for an attempt that went through, 0 for one that was refused. The module imports
torch only there, so that a test can also run an attack outside of any sandbox, to see that it is one.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import resource
import socket
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
X86 = os.uname().machine == "x86_64"


def forward(x, attack, *values):
    import torch

    try:
        globals()[attack](*values)
    except OSError as error:
        print(attack, error)
        return torch.zeros(1)
    return torch.ones(1)


def check(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def syscall(x86, generic, *arguments):
    return check(LIBC.syscall(ctypes.c_long(x86 if X86 else generic), *(ctypes.c_long(each) for each in arguments)))


# Files.


def read(path):
    with open(path, "rb") as file:
        file.read(1)


def read_through_symlink(path):
    os.symlink(path, "innocent")
    read("innocent")


def read_through_hard_link(path):
    os.link(path, "innocent-too")
    read("innocent-too")


def read_in_a_subprocess(path):
    import subprocess

    if subprocess.run(["/bin/cat", path], capture_output=True).returncode:
        raise OSError("cat was refused")


def list_folder(path):
    os.listdir(path)


def write(path):
    with open(path, "ab") as file:
        file.write(b"x")


def create(path):
    with open(os.path.join(path, "made"), "x") as file:
        file.write("x")


def make_folder(path):
    os.mkdir(os.path.join(path, "folder"))


def remove(path):
    os.unlink(path)


def rename(path):
    os.rename(path, path + ".renamed")


def truncate(path):
    os.truncate(path, 0)


def change_directory_and_read(folder, name):
    before = os.getcwd()
    os.chdir(folder)
    try:
        read(name)
    finally:
        os.chdir(before)


def write_shared_memory(name):
    with open(f"/dev/shm/{name}", "x") as file:
        file.write("x")
    os.unlink(f"/dev/shm/{name}")


def open_by_handle(path):
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    mount = ctypes.c_int()
    check(LIBC.name_to_handle_at(-100, os.fsencode(path), handle, ctypes.byref(mount), 0))


def make_device():
    os.mknod("null", 0o600 | 0o020000, os.makedev(1, 3))
    os.unlink("null")


# Other processes.


def read_environment(pid):
    read(f"/proc/{pid}/environ")


def read_command_line(pid):
    read(f"/proc/{pid}/cmdline")


def read_memory(pid):
    with open(f"/proc/{pid}/maps") as file:
        start = int(next(line for line in file if "r" in line.split()[1]).split("-")[0], 16)
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(start)
        file.read(1)


def list_descriptors(pid):
    os.listdir(f"/proc/{pid}/fd")


def signal_nothing(pid):
    os.kill(pid, 0)


def signal_group(pid):
    os.killpg(os.getpgid(pid), 0)


def signal_thread(pid):
    syscall(234, 131, pid, pid, 0)


def queue_signal(pid):
    information = ctypes.create_string_buffer(struct.pack("iii", 0, 0, -1), 128)
    syscall(129, 138, pid, 0, ctypes.addressof(information))


def ptrace(pid):
    check(LIBC.ptrace(ctypes.c_long(0x4206), ctypes.c_long(pid), None, None))
    LIBC.ptrace(ctypes.c_long(17), ctypes.c_long(pid), None, None)


def read_by_vm(pid):
    buffer = ctypes.create_string_buffer(8)
    local = struct.pack("PN", ctypes.addressof(buffer), 8)
    remote = struct.pack("PN", 0, 8)
    if LIBC.process_vm_readv(pid, local, 1, remote, 1, 0) < 0 and ctypes.get_errno() != errno.EFAULT:
        check(-1)


def pidfd(pid):
    os.close(os.pidfd_open(pid))


def pin(pid):
    before = os.sched_getaffinity(pid)
    os.sched_setaffinity(pid, {max(before)})
    if os.sched_getaffinity(pid) == before:
        raise PermissionError("it is where it was")


def limit(pid):
    resource.prlimit(pid, resource.RLIMIT_CORE, resource.prlimit(pid, resource.RLIMIT_CORE))


def renice_group(pid):
    group = os.getpgid(pid)
    os.setpriority(os.PRIO_PGRP, group, os.getpriority(os.PRIO_PGRP, group))


def weigh_for_the_oom_killer(pid):
    with open(f"/proc/{pid}/oom_score_adj", "r+") as file:
        file.write(file.read())


def renice(pid):
    os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, pid))


def own_signal_to(pid):
    """Let the kernel send SIGIO on this process's behalf."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        fcntl.fcntl(ours, fcntl.F_SETOWN, pid)


def schedule():
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


# Network.


def tcp(port):
    socket.create_connection(("127.0.0.1", port), timeout=1).close()


def tcp_listen():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))


def udp(port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"x", ("127.0.0.1", port))


def unix(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def abstract(name):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\0" + name)


def netlink():
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()


def see_interfaces():
    """More than a loopback that is down."""
    if len(socket.if_nameindex()) < 2:
        raise OSError("only one interface")


# Rights, namespaces, doors into the kernel.


def become_root():
    os.setuid(0)


def gain_capability():
    header = struct.pack("=Ii", 0x20080522, 0)
    full = struct.pack("=6I", *[0xFFFFFFFF] * 6)
    syscall(126, 91, ctypes.addressof(ctypes.create_string_buffer(header)),
            ctypes.addressof(ctypes.create_string_buffer(full)))  # fmt: skip


def raise_process_limit():
    try:
        resource.setrlimit(resource.RLIMIT_NPROC, (4096, 4096))
    except ValueError as error:
        raise OSError(str(error)) from error


def outlive_the_parent():
    check(LIBC.prctl(1, 0, 0, 0, 0))


def new_user_namespace():
    check(LIBC.unshare(0x10000000))


def clone_user_namespace():
    pid = syscall(56, 220, 0x10000000 | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def clone_as_sibling():
    pid = syscall(56, 220, 0x8000 | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)


def clone3():
    syscall(435, 435, 0, 0)


def mount():
    check(LIBC.mount(b"none", b".", b"tmpfs", 0, None))


def open_tree():
    os.close(syscall(428, 428, -100, ctypes.addressof(ctypes.create_string_buffer(b"/")), 1))


def io_uring():
    os.close(syscall(425, 425, 4, ctypes.addressof(ctypes.create_string_buffer(120))))


def bpf():
    os.close(
        syscall(321, 280, 0, ctypes.addressof(ctypes.create_string_buffer(struct.pack("5I", 2, 4, 4, 1, 0), 120)), 120)
    )


def perf():
    os.close(
        syscall(
            298, 241, ctypes.addressof(ctypes.create_string_buffer(struct.pack("IIQ", 1, 112, 0), 112)), 0, -1, -1, 0
        )
    )


def userfault():
    os.close(syscall(323, 282, 1))


def keys():
    syscall(250, 219, 0, -3, 1)


def anonymous_file():
    os.close(os.memfd_create("x"))


def shared_segment():
    number = check(LIBC.shmget(0, 4096, 0o1600))
    LIBC.shmctl(number, 0, None)


def message_queue():
    syscall(240, 180, ctypes.addressof(ctypes.create_string_buffer(b"kbench-test")), 0o102, 0o600, 0)
    syscall(241, 181, ctypes.addressof(ctypes.create_string_buffer(b"kbench-test")))


def x32_call():
    if not X86:
        raise OSError("no such thing here")
    syscall(0x40000000 | 39, 0)


def unheard_of_call():
    syscall(480, 480)


def type_into_terminal():
    fcntl.ioctl(0, 0x5412, b"x")


# Neither refused nor allowed: without effect.


def stays_in_its_session():
    """Goes through if setsid had an effect."""
    before = os.getsid(0), os.getpgid(0)
    if os.fork() == 0:
        os.setsid()
        os.setpgid(0, 0)
        os._exit((os.getsid(0), os.getpgid(0)) != before)
    if os.wait()[1] == 0:
        raise OSError("nothing changed")


def extra_descriptors():
    """Goes through if any descriptor but 0 to 3 is open."""
    extra = []
    for number in range(4, 1024):
        with contextlib.suppress(OSError):
            extra.append((number, os.readlink(f"/proc/self/fd/{number}")))
    print(extra)
    if not extra:
        raise OSError("there are none")


def find_secret(secret):
    """Goes through if a text is in the environment, the arguments, or any file of this process in /proc."""
    found = [key for key, value in os.environ.items() if secret in value] + [
        each for each in sys.argv if secret in each
    ]
    for name in ("environ", "cmdline"):
        with open(f"/proc/self/{name}", "rb") as file:
            found += [name] if secret.encode() in file.read() else []
    if not found:
        raise OSError("it is nowhere")


if __name__ == "__main__":
    globals()[sys.argv[1]](*(int(each) if each.isdigit() else each for each in sys.argv[2:]))
