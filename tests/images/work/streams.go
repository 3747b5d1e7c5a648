package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// screen prints the size of the terminal, each time that it is told that it changed, until it reads a line.
func screen() error {
	changed := make(chan os.Signal, 8)
	signal.Notify(changed, syscall.SIGWINCH)
	ended := make(chan error, 1)
	go func() {
		line, err := bufio.NewReader(os.Stdin).ReadString('\n')
		fmt.Printf("read %q\n", line)
		ended <- err
	}()
	for {
		size, err := unix.IoctlGetWinsize(int(os.Stdout.Fd()), unix.TIOCGWINSZ)
		if err != nil {
			return fmt.Errorf("the size of the terminal: %w", err)
		}
		fmt.Printf("screen %dx%d\n", size.Col, size.Row)
		select {
		case <-changed:
		case err := <-ended:
			return err
		}
	}
}

// listen serves each connection to a TCP port, of all addresses or of one, until it is told to terminate.
func listen(address string, terminated <-chan os.Signal, serve func(net.Conn)) error {
	if !strings.Contains(address, ":") {
		address = ":" + address
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return sleep("", terminated)
}

// pour gives each connection the first n bytes of ChaCha8 with the seed 0.
func pour(port, n string, terminated <-chan os.Signal) error {
	much, err := strconv.ParseInt(n, 10, 64)
	if err != nil || much < 0 {
		return errors.New("pour PORT BYTES")
	}
	return listen(port, terminated, func(c net.Conn) {
		io.CopyN(c, rand.NewChaCha8([32]byte{}), much) //nolint:errcheck // a client may leave
	})
}
