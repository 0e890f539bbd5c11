package confine

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Landlock judges connect() of TCP. There are other ways to a TCP port, which programs do
// not need: a first packet that carries data, multipath TCP, RDMA's sockets, and system
// calls made by the kernel in the process's place. A filter closes them.
const (
	fastOpen = 0x20000000 // MSG_FASTOPEN
	mptcp    = 262        // IPPROTO_MPTCP
	smc      = 43         // AF_SMC
)

// What is mounted holds in this mount namespace alone: in another the directories could be
// renamed by a descriptor. So there is no way into another. A user namespace may be had: it
// gives no power over the mounts of this one.
const newMounts = unix.CLONE_NEWNS | 0x00100000 // UNSHARE_EMPTY_MNTNS, Linux 7.1

// Ways to type into the person's terminal, which is the command's too: what they put there
// would be run outside once it ends. One is unix.TIOCSTI; the other pastes, on a console.
const tioclinux = 0x541c

// archs are the machine's own number for the filter; a call by another convention (32-bit
// programs) is refused, because its numbers mean something else.
var archs = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// Offsets in struct seccomp_data, on little-endian machines.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16 // eight bytes each
)

// filter refuses all that. It takes no_new_privs, which Landlock has set.
func filter() error {
	arch, ok := archs[runtime.GOARCH]
	if !ok {
		return fmt.Errorf("the numbers of system calls are not known for %s", runtime.GOARCH)
	}
	load := func(off uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: off}
	}
	jump := func(how uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, Jt: yes, Jf: no, K: k}
	}
	end := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	refuse := func(errno unix.Errno) unix.SockFilter { return end(unix.SECCOMP_RET_ERRNO | uint32(errno)) }

	prog := []unix.SockFilter{
		load(offArch), jump(unix.BPF_JEQ, arch, 1, 0), refuse(unix.ENOSYS),
		load(offNr), jump(unix.BPF_JGE, 0x40000000, 0, 1), refuse(unix.ENOSYS), // x32 is one more convention of amd64
	}
	// when refuses a call if an argument is, or has set, a value.
	when := func(nr uint32, arg uint32, how uint16, value uint32, errno unix.Errno) {
		prog = append(prog, load(offNr), jump(unix.BPF_JEQ, nr, 0, 3),
			load(offArgs+8*arg), jump(how, value, 0, 1), refuse(errno))
	}
	never := func(nr uint32, errno unix.Errno) {
		prog = append(prog, load(offNr), jump(unix.BPF_JEQ, nr, 0, 1), refuse(errno))
	}
	when(unix.SYS_SOCKET, 2, unix.BPF_JEQ, mptcp, unix.EPROTONOSUPPORT)
	when(unix.SYS_SOCKET, 0, unix.BPF_JEQ, smc, unix.EAFNOSUPPORT)
	when(unix.SYS_SENDTO, 3, unix.BPF_JSET, fastOpen, unix.EOPNOTSUPP)
	when(unix.SYS_SENDMSG, 2, unix.BPF_JSET, fastOpen, unix.EOPNOTSUPP)
	when(unix.SYS_SENDMMSG, 3, unix.BPF_JSET, fastOpen, unix.EOPNOTSUPP)
	never(unix.SYS_IO_URING_SETUP, unix.ENOSYS)
	when(unix.SYS_UNSHARE, 0, unix.BPF_JSET, newMounts, unix.EPERM)
	when(unix.SYS_CLONE, 0, unix.BPF_JSET, unix.CLONE_NEWNS, unix.EPERM)
	never(unix.SYS_CLONE3, unix.ENOSYS) // its flags are in memory: programs fall back on clone
	never(unix.SYS_SETNS, unix.EPERM)
	when(unix.SYS_IOCTL, 1, unix.BPF_JEQ, unix.TIOCSTI, unix.EPERM)
	when(unix.SYS_IOCTL, 1, unix.BPF_JEQ, tioclinux, unix.EPERM)
	prog = append(prog, end(unix.SECCOMP_RET_ALLOW))

	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&fprog)), 0, 0)
	runtime.KeepAlive(prog)
	return err
}
