package supervise

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// listeningSockets are this user's listening TCP sockets, each inode with its address.
// The kernel is asked for those alone (sock_diag(7)): its table in /proc/net lists every
// connection's bucket first, which costs milliseconds on a machine with much memory.
// A kernel without that answer is read the long way.
func listeningSockets() map[string]string {
	out, err := askListeners()
	if err != nil {
		return readListeners()
	}
	return out
}

// diagRequest is struct inet_diag_req_v2 of linux/inet_diag.h behind its header.
type diagRequest struct {
	unix.NlMsghdr
	family, protocol, ext, pad uint8
	states                     uint32
	id                         diagSocket
}

type diagSocket struct {
	sourcePort, destPort [2]byte // big-endian
	source, dest         [16]byte
	device               uint32
	cookie               [2]uint32
}

// diagAnswer is struct inet_diag_msg.
type diagAnswer struct {
	family, state, timer, retrans       uint8
	id                                  diagSocket
	expires, readQueue, writeQueue, uid uint32
	inode                               uint32
}

const (
	diagByFamily = 20      // SOCK_DIAG_BY_FAMILY
	tcpListen    = 10      // TCP_LISTEN
	diagBuffer   = 1 << 15 // the kernel's answers come in pieces of at most 32 KB
)

func askListeners() (map[string]string, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	// An answer without an end must not make the looker blind for ever.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return nil, err
	}
	out, us, buf := map[string]string{}, uint32(os.Geteuid()), make([]byte, diagBuffer)
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		req := diagRequest{family: family, protocol: unix.IPPROTO_TCP, states: 1 << tcpListen}
		req.NlMsghdr = unix.NlMsghdr{Len: uint32(unsafe.Sizeof(req)), Type: diagByFamily, Flags: unix.NLM_F_REQUEST | unix.NLM_F_DUMP}
		if err := unix.Sendto(fd, unsafe.Slice((*byte)(unsafe.Pointer(&req)), unsafe.Sizeof(req)), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return nil, err
		}
		for done := false; !done; {
			n, _, err := unix.Recvfrom(fd, buf, 0)
			if err != nil {
				return nil, err
			}
			if done, err = eachAnswer(buf[:n], func(a *diagAnswer) {
				if a.uid == us {
					out[strconv.FormatUint(uint64(a.inode), 10)] = fmt.Sprintf("TCP port %d", binary.BigEndian.Uint16(a.id.sourcePort[:]))
				}
			}); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// eachAnswer reads one datagram of the kernel's answer, and says whether it was the last.
func eachAnswer(text []byte, see func(*diagAnswer)) (bool, error) {
	for len(text) >= unix.SizeofNlMsghdr {
		h := (*unix.NlMsghdr)(unsafe.Pointer(&text[0]))
		if int(h.Len) < unix.SizeofNlMsghdr || int(h.Len) > len(text) {
			break
		}
		body := text[unix.SizeofNlMsghdr:h.Len]
		switch {
		case h.Type == unix.NLMSG_DONE:
			return true, nil
		case h.Type == unix.NLMSG_ERROR && len(body) >= 4:
			return true, unix.Errno(-int32(binary.NativeEndian.Uint32(body)))
		case h.Type == diagByFamily && len(body) >= int(unsafe.Sizeof(diagAnswer{})):
			see((*diagAnswer)(unsafe.Pointer(&body[0])))
		}
		text = text[min(len(text), int(h.Len+unix.NLMSG_ALIGNTO-1)&^(unix.NLMSG_ALIGNTO-1)):]
	}
	return false, nil
}

func readListeners() map[string]string {
	const address, state, uid, inode, listens = 1, 3, 7, 9, "0A"
	out := map[string]string{}
	us := strconv.Itoa(os.Geteuid())
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(table)
		if err != nil {
			continue // a machine without that protocol
		}
		for s := bufio.NewScanner(f); s.Scan(); {
			c := strings.Fields(s.Text())
			if len(c) > inode && c[state] == listens && c[uid] == us {
				_, port, _ := strings.Cut(c[address], ":")
				n, _ := strconv.ParseUint(port, 16, 16)
				out[c[inode]] = fmt.Sprintf("TCP port %d", n)
			}
		}
		f.Close()
	}
	return out
}
