package native

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMain lets the test binary be its own noisy child.
func TestMain(m *testing.M) {
	switch os.Getenv("NATIVE_TEST_CHILD") {
	case "":
		os.Exit(m.Run())
	case "print", "panic":
		out, err := Claim()
		if err != nil {
			panic(err)
		}
		fmt.Println("a stray print")
		os.Stdout.WriteString("another\n")
		out.Write(frame(`{"t":"a"}`))
		if os.Getenv("NATIVE_TEST_CHILD") == "panic" {
			panic("a stray panic")
		}
	}
}

// What a child prints, and how it dies, never reaches the wire.
func TestStdoutIsTheWire(t *testing.T) {
	for _, how := range []string{"print", "panic"} {
		for _, stderr := range []string{"open", "closed"} {
			t.Run(how+" with stderr "+stderr, func(t *testing.T) {
				cmd := exec.Command(os.Args[0])
				if stderr == "closed" {
					cmd = exec.Command("/bin/sh", "-c", `exec "$0" 2>&-`, os.Args[0])
				}
				cmd.Env = append(os.Environ(), "NATIVE_TEST_CHILD="+how)
				var out, errs bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &errs
				err := cmd.Run()
				if (err != nil) != (how == "panic") {
					t.Fatalf("child: %v", err)
				}
				if want := frame(`{"t":"a"}`); !bytes.Equal(out.Bytes(), want) {
					t.Fatalf("wire carries %q, want %q", out.Bytes(), want)
				}
				if stderr == "open" && !strings.Contains(errs.String(), "a stray print\nanother\n") {
					t.Fatalf("stderr carries %q", errs.String())
				}
			})
		}
	}
}
