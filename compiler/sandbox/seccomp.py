"""A seccomp filter: system calls that compiling has no use for, and that reach beyond the process or outlive it.

What needs a capability is not listed: `privileges.drop` comes first.
"""

from __future__ import annotations

import ctypes
import errno
import struct

from compiler.sandbox.kernel import ARCHITECTURES, MACHINE, prctl, system_call

# Name: numbers on x86-64 and aarch64; None where there is no such call.
Calls = dict[str, tuple[int | None, int | None]]

# Out of the job's process group, in which it is counted, timed and ended.
GROUP: Calls = {"setsid": (112, 157), "setpgid": (109, 154)}
# Other processes: their memory, descriptors, scheduling.
PROCESSES: Calls = {
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "pidfd_getfd": (438, 438), "process_madvise": (440, 440), "process_mrelease": (448, 448),
    "migrate_pages": (256, 238), "move_pages": (279, 239), "setpriority": (141, 140), "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119), "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}  # fmt: skip
# Signals, for kernels whose Landlock doesn't keep them in. abort() still ends its process, by another signal.
SIGNALS: Calls = {
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424),
}  # fmt: skip
# Memory that belongs to no process, and messages to others.
SHARED: Calls = {"shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180)}
MEMORY_FILES: Calls = {"memfd_create": (319, 279), "memfd_secret": (447, 447)}
# Parts of the kernel that exploits begin with, or that do what the filter can't see.
KERNEL: Calls = {
    "bpf": (321, 280), "userfaultfd": (323, 282), "perf_event_open": (298, 241), "personality": (135, 92),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "open_by_handle_at": (304, 265),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "move_mount": (429, 429), "fsopen": (430, 430),
    "open_tree": (428, 428), "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105),
    "finit_module": (313, 273),
}  # fmt: skip
# What Landlock leaves to anyone who owns the file.
OWNERS: Calls = {
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "setxattr": (188, 5),
    "lsetxattr": (189, 6), "fsetxattr": (190, 7), "setxattrat": (463, 463), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "removexattrat": (466, 466),
}  # fmt: skip
# The same, done by whoever copies or links a file, for whom a refusal is a failure: it changes nothing, in silence.
IGNORED: Calls = {"chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452)}
# Looked at more closely.
CLONE, CLONE3, SOCKET, PRLIMIT, PRCTL = (56, 220), (435, 435), (41, 198), (302, 261), (157, 167)

NEW_NAMESPACES = 0x7E020000  # flags of clone
AF_UNIX = 1
PR_SET_PDEATHSIG = 1
PR_SET_SECCOMP, MODE_FILTER = 22, 2
SECCOMP, GET_ACTION_AVAIL = (317, 277), 2
KILL_PROCESS, ERRNO, ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
X32 = 0x40000000  # in the numbers of another set of calls under x86-64's name

# Classic BPF: load a word of the call, jump on it, answer.
LOAD, EQUAL, ANY_BIT, ANSWER = 0x20, 0x15, 0x45, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # where in struct seccomp_data; both architectures are little-endian


def available() -> bool:
    """Whether this kernel takes filters, and this processor's calls are known here."""
    if MACHINE not in ARCHITECTURES:
        return False
    try:
        action = ctypes.create_string_buffer(struct.pack("=I", ERRNO))
        system_call(SECCOMP[ARCHITECTURES[MACHINE][1]], GET_ACTION_AVAIL, 0, action)
    except OSError:
        return False
    return True


def install(*, signals: bool, devices: bool) -> None:
    """Filters this thread's system calls from now on, and those of all that it starts: `signals` to other processes
    may be sent; sockets of this host and files in memory are for those who drive `devices`.

    `PR_SET_NO_NEW_PRIVS` must be set. Raises OSError, and KeyError where `available` says no.
    """
    program = b"".join(_filter(signals=signals, devices=devices))
    code = ctypes.create_string_buffer(program, len(program))
    head = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code)))
    prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.addressof(head))


def _filter(*, signals: bool, devices: bool) -> list[bytes]:
    architecture, column = ARCHITECTURES[MACHINE]
    refused = [GROUP, PROCESSES, SHARED, KERNEL, OWNERS]
    refused += [] if signals else [SIGNALS]
    refused += [] if devices else [MEMORY_FILES]
    code = [_load(ARCHITECTURE), *_unless(EQUAL, architecture, KILL_PROCESS), _load(NUMBER)]
    if MACHINE == "x86_64":
        code += _when(ANY_BIT, X32, ERRNO | errno.ENOSYS)
    for calls, answer in (*((calls, ERRNO | errno.EPERM) for calls in refused), (IGNORED, ERRNO)):
        for numbers in calls.values():
            if (number := numbers[column]) is not None:
                code += _when(EQUAL, number, answer)
    # Its flags are in memory, which no filter reads; C's library goes back to clone.
    code += _when(EQUAL, CLONE3[column], ERRNO | errno.ENOSYS)
    refuse = ERRNO | errno.EPERM
    code += _with_argument(CLONE[column], _when(ANY_BIT, NEW_NAMESPACES, refuse))
    code += _with_argument(PRLIMIT[column], _unless(EQUAL, 0, refuse))  # of another process
    code += _with_argument(PRCTL[column], _when(EQUAL, PR_SET_PDEATHSIG, refuse))  # who dies with the parent
    no_network = ERRNO | errno.EACCES
    code += _with_argument(SOCKET[column], _unless(EQUAL, AF_UNIX, no_network) if devices else [_answer(no_network)])
    return [*code, _answer(ALLOW)]


def _instruction(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("HBBI", code, true, false, value)


def _load(offset: int) -> bytes:
    return _instruction(LOAD, offset)


def _answer(action: int) -> bytes:
    return _instruction(ANSWER, action)


def _when(test: int, value: int, action: int) -> list[bytes]:
    return [_instruction(test, value, 0, 1), _answer(action)]


def _unless(test: int, value: int, action: int) -> list[bytes]:
    return [_instruction(test, value, 1, 0), _answer(action)]


def _with_argument(number: int, code: list[bytes]) -> list[bytes]:
    """Runs `code` on the call's first argument, of which every flag and number here is in the lower half."""
    inner = [_load(FIRST_ARGUMENT), *code, _answer(ALLOW)]
    return [_instruction(EQUAL, number, 0, len(inner)), *inner]
