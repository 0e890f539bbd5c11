package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"
)

// installWithin bounds the installation of Chromium by the distribution.
const installWithin = 10 * time.Minute

// chromiumNames are the programs' names in distributions, in order of preference.
var chromiumNames = []string{"chromium", "chromium-browser"}

// FindChromium returns the path of Chromium.
func FindChromium() (string, error) {
	for _, name := range chromiumNames {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no Chromium on this machine")
}

// ErrNoChromium is returned after the person has been told what to do.
var ErrNoChromium = errors.New("Chromium is missing")

// needChromium says if Chromium is missing and, as root on a distribution that it
// knows, installs it; else it prints the one command to run.
func needChromium(ctx context.Context, out io.Writer) error {
	if _, err := FindChromium(); err == nil {
		return nil
	}
	command := installCommand(osRelease("/etc/os-release"))
	fmt.Fprintln(out, "Chromium is missing on this machine; the demonstration plays in a real one.")
	if command == nil {
		fmt.Fprintln(out, "Install the package chromium of your distribution, then run this again.")
		return ErrNoChromium
	}
	if os.Getuid() != 0 {
		fmt.Fprintf(out, "Install it, then run this again:\n\n  sudo %s\n\n", strings.Join(command, " "))
		return ErrNoChromium
	}
	fmt.Fprintf(out, "Installing it from the distribution: %s\n", strings.Join(command, " "))
	ctx, cancel := context.WithTimeout(ctx, installWithin)
	defer cancel()
	install := func() error {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Stdout, cmd.Stderr = out, out
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		return cmd.Run()
	}
	err := install()
	if err != nil && command[0] == "apt-get" {
		// A machine that never read the package lists knows no package.
		fmt.Fprintln(out, "Reading the distribution's package lists first: apt-get update")
		cmd := exec.CommandContext(ctx, "apt-get", "update")
		cmd.Stdout, cmd.Stderr = out, out
		if err = cmd.Run(); err == nil {
			err = install()
		}
	}
	if err != nil {
		return fmt.Errorf("the installation of Chromium failed: %w", err)
	}
	_, err = FindChromium()
	return err
}

// installCommand is the command that installs Chromium on the distribution, or nil.
func installCommand(release map[string]string) []string {
	for _, id := range append([]string{release["ID"]}, strings.Fields(release["ID_LIKE"])...) {
		switch id {
		case "debian", "ubuntu":
			return []string{"apt-get", "install", "-y", "chromium"}
		case "fedora":
			return []string{"dnf", "install", "-y", "chromium"}
		case "arch":
			return []string{"pacman", "-S", "--noconfirm", "chromium"}
		}
	}
	return nil
}

// osRelease reads the distribution's identification file; what cannot be read is empty.
func osRelease(path string) map[string]string {
	values := map[string]string{}
	f, err := os.Open(path)
	if err != nil {
		return values
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), "="); ok {
			values[name] = strings.Trim(value, `"'`)
		}
	}
	return values
}
