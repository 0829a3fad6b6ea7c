//go:build linux

package main

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// echo answers each line with itself, and tells of it.
func echo(t *testing.T) (address string, heard <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	lines := make(chan string, 10)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				for scanner := bufio.NewScanner(conn); scanner.Scan(); {
					lines <- scanner.Text()
					_, _ = conn.Write(append(scanner.Bytes(), '\n'))
				}
			}()
		}
	}()
	return listener.Addr().String(), lines
}

func TestProxy_CutKeepsConnectionsAndPassesNothing(t *testing.T) {
	t.Parallel()
	to, heard := echo(t)
	p, err := newProxy(t.Context(), to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	conn, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	say := func(conn net.Conn, line string) {
		t.Helper()
		if _, err := conn.Write([]byte(line + "\n")); err != nil {
			t.Fatal(err)
		}
	}
	say(conn, "whole")
	if got := <-heard; got != "whole" {
		t.Fatalf("heard %q", got)
	}
	answers := bufio.NewReader(conn)
	if _, err := answers.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	p.cut()
	say(conn, "cut")
	_ = conn.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if _, err := answers.ReadString('\n'); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read across the cut: %v, want that nothing comes and the connection stands", err)
	}
	p.heal()
	_ = conn.SetReadDeadline(time.Time{})
	if _, err := answers.ReadString('\n'); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read after the cut: %v, want that the connection has ended", err)
	}
	again, err := net.Dial("tcp", p.address())
	if err != nil {
		t.Fatal(err)
	}
	say(again, "healed")
	if got := <-heard; got != "healed" {
		t.Errorf("heard %q, want only what was said after the cut", got)
	}
	if err := again.Close(); err != nil && !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}
