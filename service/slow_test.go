package service_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/client"
	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/internal/testing/testservice"
	"github.com/stint-tasks/stint/service"
)

const patience = 2 * time.Minute

// dial connects to the service, for a request that is no good.
func (r *running) dial(t *testing.T) net.Conn {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(r.address, "http://"))
	wantErr(t, "Dial", err, nil)
	t.Cleanup(func() { _ = conn.Close() })
	wantErr(t, "SetDeadline", conn.SetDeadline(time.Now().Add(patience)), nil)
	return conn
}

// Whoever sends a request byte by byte is cut off, be it in the header or in the message.
func TestService_CutsOffWhoeverSendsSlowly(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := startWith(t, service.Options{Limits: service.Limits{TransferTime: 300 * time.Millisecond}})
	const head = "POST /stint.v1.TaskService/GetTasks HTTP/1.1\r\nHost: stint\r\n" +
		"Content-Type: application/json\r\nContent-Length: 100000\r\n"
	for name, first := range map[string]string{
		"header": head, "message": head + "\r\n", // the server sees to the header, within 5 s
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := r.dial(t)
			_, err := io.WriteString(conn, first)
			ended := make(chan string, 1)
			go func() {
				answer, err := io.ReadAll(conn)
				ended <- fmt.Sprintf("%.200q, %v", answer, err)
			}()
			trickle := time.NewTicker(20 * time.Millisecond)
			defer trickle.Stop()
			for err == nil {
				select {
				case <-trickle.C:
					_, err = io.WriteString(conn, " ")
				case answer := <-ended:
					t.Logf("is answered by %s", answer)
					return
				}
			}
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the connection is not closed: %v", err)
			}
		})
	}
}

// Whoever does not read a large answer is cut off.
func TestService_CutsOffWhoeverDoesNotRead(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	r := startWith(t, service.Options{Limits: service.Limits{TransferTime: 300 * time.Millisecond}})
	const size = 48 << 20 // more than the buffers of a connection
	err := r.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "act", Body: make([]byte, size)},
	})
	wantErr(t, "InsertTasks", err, nil)
	conn := r.dial(t)
	const request = `{"ids":["a"]}`
	_, err = fmt.Fprintf(conn, "POST /stint.v1.TaskService/GetTasks HTTP/1.1\r\nHost: stint\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(request), request)
	wantErr(t, "Write", err, nil)
	first := make([]byte, 1)
	_, err = io.ReadFull(conn, first) // the service writes
	wantErr(t, "Read", err, nil)
	wantErr(t, "stop", r.stop(), nil) // which waits for the call
	rest, _ := io.Copy(io.Discard, conn)
	if rest >= size {
		t.Errorf("%d bytes came though nobody read them", rest)
	}
}

// Neither a call that waits nor a stream is slow.
func TestService_LetsWhoeverWaitsWait(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const limit = 300 * time.Millisecond
	r := startWith(t, service.Options{Limits: service.Limits{TransferTime: limit}})
	c := testservice.Client(t, r.address, client.Options{})
	wantErr(t, "RegisterActor", c.RegisterActor(t.Context(), "far", []string{"act"}), nil)
	err := r.store.InsertTasks(t.Context(), []stint.Task{
		{ID: "a", Action: "act", NotBefore: time.Now().Add(4 * limit)},
	})
	wantErr(t, "InsertTasks", err, nil)
	code, text := r.send(t, "WorkerService/OwnTasks", "application/json", strings.NewReader(
		`{"actor":"curl","claim":17,"max_tasks":1,"actions":["act"],"lease":"60s","wait":"25s"}`))
	if code != http.StatusOK || !strings.Contains(string(text), `"a"`) {
		t.Errorf("OwnTasks = %d %s", code, text)
	}
	var epoch int64
	err = r.pool.QueryRow(t.Context(), "SELECT max(epoch) FROM stint.actors").Scan(&epoch)
	if err != nil || epoch != 1 {
		t.Errorf("the stream of the actor is the %d. one, %v", epoch, err)
	}
}

// Large requests wait for room ahead of being read, whether they say how large they are or not, and
// whoever is slow to send one keeps it for as long as a request may take to arrive, and no longer.
// Proves G137.
func TestService_HoldsNoMoreBytesThanItsLimit(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const size = 90_000
	r := startWith(t, service.Options{Limits: service.Limits{
		Bytes: size + 1000, RequestBytes: size + 500, TransferTime: time.Second,
	}})
	slow := r.dial(t)
	_, err := fmt.Fprintf(slow, "POST /stint.v1.TaskService/GetTasks HTTP/1.1\r\nHost: stint\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n{", size)
	wantErr(t, "Write", err, nil)
	var under sync.WaitGroup
	for i := range 20 {
		under.Go(func() {
			text := fmt.Sprintf(`{"tasks":[{"id":"%d","action":"act","text":%q}]}`, i,
				strings.Repeat("x", size-100))
			var body io.Reader = strings.NewReader(text)
			if i%2 == 0 {
				body = io.MultiReader(body) // which does not say how large it is
			}
			code, answer := r.send(t, "TaskService/InsertTasks", "application/json", body)
			if code != http.StatusOK {
				t.Errorf("InsertTasks %d = %d %s", i, code, answer)
			}
		})
	}
	under.Wait()
	code, answer := r.post(t, "TaskService/GetTasks", `{"ids":["1"]}`)
	if code != http.StatusOK {
		t.Errorf("GetTasks = %d %v", code, answer)
	}
}

// A request that waits for room keeps no other one of its connection from arriving.
func TestService_ReadsRequestsBesideOneThatWaitsForRoom(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const size = 2 << 20
	r := startWith(t, service.Options{
		Limits: service.Limits{Bytes: size, TransferTime: patience},
	})
	conn := r.dial(t) // takes all room
	_, err := fmt.Fprintf(conn, "POST /stint.v1.TaskService/InsertTasks HTTP/1.1\r\n"+
		"Host: stint\r\nContent-Type: application/json\r\nContent-Length: %d\r\n"+
		"Expect: 100-continue\r\n\r\n", size)
	wantErr(t, "write", err, nil)
	const goOn = "HTTP/1.1 100 Continue"
	said := make([]byte, len(goOn))
	if _, err := io.ReadFull(conn, said); err != nil || string(said) != goOn {
		t.Fatalf("the first request is answered by %q, %v", said, err)
	}
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	over := &http.Client{Transport: &http.Transport{Protocols: protocols, MaxConnsPerHost: 1}}
	post := func(body io.Reader) error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			r.address+"/stint.v1.TaskService/GetTasks", body)
		if err != nil {
			return err
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := over.Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	sent := &sending{left: size, begun: make(chan struct{})}
	waiting := make(chan error, 1)
	go func() { waiting <- post(sent) }()
	<-sent.begun
	for range 40 { // more than a connection may have unread by default
		wantErr(t, "a call beside it", post(strings.NewReader(strings.Repeat(" ", 30<<10))), nil)
	}
	select {
	case err := <-waiting:
		t.Errorf("the request that is to wait has ended: %v", err)
	default:
	}
	wantErr(t, "Close", conn.Close(), nil)
	wantErr(t, "the request that waited", <-waiting, nil)
}

// A sending is a request of blanks, which says when a part of it is on its way.
type sending struct {
	left, given int
	begun       chan struct{}
}

func (s *sending) Read(into []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	n := min(len(into), s.left)
	for i := range into[:n] {
		into[i] = ' '
	}
	const part = 256 << 10
	if s.left -= n; s.given < part && s.given+n >= part {
		close(s.begun)
	}
	s.given += n
	return n, nil
}

// A header that is far longer than any of a client is refused, before anybody is asked who calls.
func TestNewServer_RefusesLongHeaders(t *testing.T) {
	t.Parallel()
	r := start(t)
	r.token = strings.Repeat("x", 100<<10)
	code, text := r.send(t, "TaskService/GetStats", "application/json", strings.NewReader("{}"))
	if code != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a header of 100 KiB is answered by %d %.100s", code, text)
	}
}
