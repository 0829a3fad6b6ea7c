//go:build linux

package faults

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/stint-tasks/stint/chaos/system"
)

func clientFaults() []Fault {
	return []Fault{{
		Name: "hostile-clients", Do: hostileClients,
		Text: "strangers call the service slowly, in part, with nonsense, and break off calls as " +
			"fast as they can",
	}}
}

// hostileClients runs some clients of each kind against each service.
func hostileClients(ctx context.Context, s *system.System, r *rand.Rand, d time.Duration) error {
	const each = 4
	processes, err := those(s, r, func(p *system.Process) bool { return p.Address != "" })
	if err != nil {
		return err
	}
	live, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var clients sync.WaitGroup
	defer clients.Wait()
	for _, p := range processes {
		for _, hostile := range []func(context.Context, string, *dice) error{
			sendSlowly, resetHalfway, sendNonsense, speakTLS, promiseMuch, breakOff,
		} {
			for range each {
				dice := newDice(r)
				clients.Go(func() {
					for live.Err() == nil {
						// What the service thinks of it is its own matter.
						_ = hostile(live, p.Address, dice)
						pause(live, dice.between(time.Millisecond, 100*time.Millisecond))
					}
				})
			}
		}
	}
	return nil
}

// A verb that anybody may call wrongly.
const (
	path   = "/stint.v1.TaskService/ListTasks"
	header = "POST " + path + " HTTP/1.1\r\nHost: service\r\nContent-Type: application/json\r\n"
)

// call connects and calls do. The connection ends with ctx.
func call(
	ctx context.Context, address string, do func(conn *net.TCPConn) error,
) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nobody would be told
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return errors.New("not a TCP connection")
	}
	return do(tcp)
}

// sendSlowly sends a header that does not end, a byte at a time.
func sendSlowly(ctx context.Context, address string, dice *dice) error {
	return call(ctx, address, func(conn *net.TCPConn) error {
		text := header + "X-Slow: " + strings.Repeat("x", 1<<16)
		for i := range len(text) {
			if _, err := io.WriteString(conn, text[i:i+1]); err != nil {
				return err
			}
			pause(ctx, dice.between(10*time.Millisecond, 200*time.Millisecond))
		}
		return nil
	})
}

// resetHalfway sends half of a call, and resets the connection.
func resetHalfway(ctx context.Context, address string, dice *dice) error {
	return call(ctx, address, func(conn *net.TCPConn) error {
		_, err := io.WriteString(conn, header+"Content-Length: 1000\r\n\r\n{\"filter\": {")
		pause(ctx, dice.between(0, 20*time.Millisecond))
		return errors.Join(err, conn.SetLinger(0), conn.Close())
	})
}

// sendNonsense sends bytes that are no call.
func sendNonsense(ctx context.Context, address string, dice *dice) error {
	return call(ctx, address, func(conn *net.TCPConn) error {
		text := make([]byte, 1<<12)
		dice.fill(text)
		if dice.chance(2) { // the beginning of HTTP/2, so that what follows is taken for frames
			text = append([]byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), text...)
		}
		_, err := conn.Write(text)
		_, _ = io.Copy(io.Discard, conn)
		return err
	})
}

// speakTLS begins with a handshake that the service may not expect, or without a certificate.
func speakTLS(ctx context.Context, address string, _ *dice) error {
	return call(ctx, address, func(conn *net.TCPConn) error {
		config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // it is hostile
		return tls.Client(conn, config).HandshakeContext(ctx)
	})
}

// promiseMuch promises 10 GB and sends as much of them as the service takes in a moment.
func promiseMuch(ctx context.Context, address string, _ *dice) error {
	const moment = 200 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, moment)
	defer cancel()
	return call(ctx, address, func(conn *net.TCPConn) error {
		_, err := io.WriteString(conn, header+"Content-Length: 10000000000\r\n\r\n")
		if err != nil {
			return err
		}
		_, err = io.Copy(conn, zeros{})
		return err
	})
}

// breakOff begins calls over one connection of HTTP/2, and resets each at once.
func breakOff(ctx context.Context, address string, dice *dice) error {
	const often, shortest, longest = 1000, 10 * time.Microsecond, 500 * time.Microsecond
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols, IdleConnTimeout: time.Second}
	defer transport.CloseIdleConnections()
	var calls sync.WaitGroup
	defer calls.Wait()
	for range often {
		if ctx.Err() != nil {
			return nil
		}
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, dice.between(shortest, longest))
			defer cancel()
			request, err := http.NewRequestWithContext(ctx, http.MethodPost,
				"http://"+address+path, strings.NewReader("{}"))
			if err != nil {
				return
			}
			request.Header.Set("Content-Type", "application/json")
			if response, err := transport.RoundTrip(request); err == nil {
				_ = response.Body.Close()
			}
		})
		pause(ctx, shortest)
	}
	return nil
}
