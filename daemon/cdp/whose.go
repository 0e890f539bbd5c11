package cdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// whose asks the kernel for the users of the other ends of connections on this machine, so
// that what other users connect takes nobody's place.
type whose struct {
	fd  int // netlink, sock_diag
	seq uint32
}

// openWhose opens it, if the kernel can tell whose a listener is that is surely there: one
// without the module for that answers as if there were no connection.
func openWhose(listener netip.AddrPort) (*whose, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, err
	}
	wait := unix.NsecToTimeval(time.Second.Nanoseconds())
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait); err != nil {
		unix.Close(fd)
		return nil, err
	}
	w := &whose{fd: fd}
	if _, err := w.uid(listener, netip.AddrPortFrom(netip.IPv4Unspecified(), 0)); err != nil {
		w.close()
		return nil, fmt.Errorf("the kernel does not know of the endpoint's own socket: %w", err)
	}
	return w, nil
}

func (w *whose) close() {
	if w != nil {
		unix.Close(w.fd)
	}
}

// errGone is of a connection whose other end is not there any more.
var errGone = errors.New("no such socket")

// Sizes and places in struct inet_diag_req_v2 and struct inet_diag_msg (linux/inet_diag.h),
// each behind a netlink header of nlHeader bytes.
const (
	nlHeader      = 16
	diagByFamily  = 20 // SOCK_DIAG_BY_FAMILY
	reqLen        = 56
	reqID         = 8 // struct inet_diag_sockid: two ports, two addresses of 16 bytes, ...
	reqCookie     = reqID + 40
	answerID      = 4
	answerUID     = 64
	answerLen     = 72
	addressLen    = 16
	portsLen      = 4
	anyState      = 0xffffffff
	unknownCookie = 0xffffffff
)

// uid is the user of the socket whose own address is local and whose other end is remote:
// for the other end of a connection of ours, its remote and its local address.
func (w *whose) uid(local, remote netip.AddrPort) (int, error) {
	w.seq++
	b := make([]byte, nlHeader+reqLen)
	h := binary.NativeEndian
	h.PutUint32(b[0:], uint32(len(b)))
	h.PutUint16(b[4:], diagByFamily)
	h.PutUint16(b[6:], unix.NLM_F_REQUEST)
	h.PutUint32(b[8:], w.seq)
	req := b[nlHeader:]
	req[0], req[1] = unix.AF_INET, unix.IPPROTO_TCP
	h.PutUint32(req[4:], anyState)
	id := req[reqID:]
	binary.BigEndian.PutUint16(id[0:], local.Port())
	binary.BigEndian.PutUint16(id[2:], remote.Port())
	src, dst := local.Addr().As4(), remote.Addr().As4()
	copy(id[portsLen:], src[:])
	copy(id[portsLen+addressLen:], dst[:])
	h.PutUint32(req[reqCookie:], unknownCookie)
	h.PutUint32(req[reqCookie+4:], unknownCookie)
	if err := unix.Sendto(w.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, err
	}
	for answer := make([]byte, 4096); ; {
		n, _, err := unix.Recvfrom(w.fd, answer, 0)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return 0, err
		case n < nlHeader+4:
			return 0, fmt.Errorf("an answer of %d bytes", n)
		case h.Uint32(answer[8:]) != w.seq:
			continue // to a question that was given up
		}
		body := answer[nlHeader:n]
		if h.Uint16(answer[4:]) == unix.NLMSG_ERROR {
			if errno := unix.Errno(-int32(h.Uint32(body))); errno != unix.ENOENT {
				return 0, errno
			}
			return 0, errGone
		}
		if len(body) < answerLen {
			return 0, fmt.Errorf("an answer of %d bytes", n)
		}
		if [portsLen]byte(body[answerID:]) != [portsLen]byte(id) {
			return 0, errGone // a listener on the same port
		}
		return int(h.Uint32(body[answerUID:])), nil
	}
}

// ours says whether the other end of a connection is this user's. Where the kernel cannot
// be asked the secret in the address has to do, as for all that comes after.
func (w *whose) ours(conn net.Conn) (bool, error) {
	local, remote := conn.LocalAddr().(*net.TCPAddr).AddrPort(), conn.RemoteAddr().(*net.TCPAddr).AddrPort()
	uid, err := w.uid(remote, local)
	if errors.Is(err, errGone) {
		return false, nil
	}
	return err != nil || uid == os.Geteuid(), err
}
