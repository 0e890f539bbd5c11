package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"sessiondock.dev/sessiondock/e2e/manager"
)

// screen is the display of the window cells, once it is open.
var screen string

// openDisplay starts an X server without a screen, for the rest of the run, and has the
// user manager start programs on it, as a desktop session does. It returns why it
// cannot, if a program is missing.
func openDisplay() (notRun string, err error) {
	path, err := exec.LookPath("Xvfb")
	if err != nil {
		return "Xvfb is missing: make deps", nil
	}
	from, to, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer from.Close()
	cmd := exec.Command(path, "-displayfd", "3", "-screen", "0", "1280x900x24", "-nolisten", "tcp", "-noreset")
	cmd.ExtraFiles = []*os.File{to}
	err = cmd.Start()
	to.Close()
	if err != nil {
		return "", err
	}
	go cmd.Wait() // ends with the run
	number, err := bufio.NewReader(from).ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("Xvfb does not say its display: %w", err)
	}
	screen = ":" + strings.TrimSpace(number)
	return "", display()
}

// display tells a user manager, which may be a new one, of the screen.
func display() error {
	if screen == "" {
		return nil
	}
	return manager.Systemctl("set-environment", "DISPLAY="+screen)
}
