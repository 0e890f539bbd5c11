package relay

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"sessiondock.dev/sessiondock/daemon/wire"
)

// recordArg makes the benchmark's own executable the process of a Recorded relay.
const recordArg = "relay-record"

// Recorded is a relay behind one more process, which appends each command to a file and
// syncs it before it passes the command on: the least that anything can do which is no
// part of the host and loses no command. It uses the relay's own connection, so the two
// must be called in turns.
type Recorded struct {
	Caller
	cmd *exec.Cmd
}

// Recorded starts such a process; its file is in dir, which must be on a disk.
func (r *Relay) Recorded(dir string) (*Recorded, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "client"), os.NewFile(uintptr(pair[1]), "recorder")
	defer ours.Close()
	defer theirs.Close()
	host, err := r.conn.File()
	if err != nil {
		return nil, err
	}
	defer host.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, recordArg, filepath.Join(dir, "recorded"))
	cmd.ExtraFiles = []*os.File{theirs, host}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return &Recorded{newCaller(c.(*net.UnixConn)), cmd}, nil
}

// Close ends the process; the relay goes on.
func (r *Recorded) Close() error { return errors.Join(r.Caller.Close(), r.cmd.Wait()) }

// IsRecorder says whether this process was started as that of a Recorded relay.
func IsRecorder() bool { return len(os.Args) == 3 && os.Args[1] == recordArg }

// RunRecorder records and passes on commands until its client ends.
func RunRecorder() error {
	file, err := os.OpenFile(os.Args[2], os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	client, err := inherited(3)
	if err != nil {
		return err
	}
	host, err := inherited(4)
	if err != nil {
		return err
	}
	asked, answered := bufio.NewReaderSize(client, 64<<10), bufio.NewReaderSize(host, 64<<10)
	var out []byte
	pass := func(to io.Writer, from *bufio.Reader, record bool) error {
		body, err := wire.ReadFrame(from, binary.LittleEndian, wire.MaxFrame)
		if err != nil {
			return err
		}
		out = wire.AppendFrame(out[:0], binary.LittleEndian, body)
		if record {
			if _, err := file.Write(out); err != nil {
				return err
			}
			if err := syscall.Fdatasync(int(file.Fd())); err != nil {
				return err
			}
		}
		_, err = to.Write(out)
		return err
	}
	for {
		if err := pass(host, asked, true); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := pass(client, answered, false); err != nil {
			return err
		}
	}
}

func inherited(fd uintptr) (net.Conn, error) {
	f := os.NewFile(fd, "inherited")
	defer f.Close()
	return net.FileConn(f)
}
