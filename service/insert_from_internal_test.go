package service

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/api/stintv1/stintv1connect"
	"github.com/stint-tasks/stint/internal/testing/testrun"
)

// newImpatient returns a client of a service that waits only so long for clients that stream: for
// something, and for all.
func newImpatient(
	t *testing.T, silence, age time.Duration, http2 bool,
) (stintv1connect.TaskServiceClient, *stint.Store) {
	t.Helper()
	s, store := newService(t, Options{})
	s.silence, s.limits.StreamTime = silence, age
	server := httptest.NewUnstartedServer(nil)
	server.Config = NewServer(s)
	server.Start()
	t.Cleanup(server.Close)
	protocols := &http.Protocols{}
	protocols.SetHTTP1(!http2)
	protocols.SetUnencryptedHTTP2(http2)
	transport := &http.Transport{Protocols: protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return stintv1connect.NewTaskServiceClient(
		&http.Client{Transport: transport}, server.URL), store
}

func sendOne(
	t *testing.T, client stintv1connect.TaskServiceClient, last bool,
) *connect.ClientStreamForClientSimple[
	stintv1.InsertTasksFromRequest, stintv1.InsertTasksFromResponse,
] {
	t.Helper()
	stream, err := client.InsertTasksFrom(t.Context())
	if err != nil {
		t.Fatalf("InsertTasksFrom = %v", err)
	}
	err = stream.Send(&stintv1.InsertTasksFromRequest{
		Tasks: []*stintv1.Task{{Id: "a", Action: "act"}}, Last: last,
	})
	if err != nil {
		t.Fatalf("Send = %v", err)
	}
	return stream
}

func wantNone(t *testing.T, store *stint.Store) {
	t.Helper()
	page, err := store.ListTasks(t.Context(), stint.Filter{})
	if err != nil || len(page.Tasks) > 0 {
		t.Errorf("ListTasks = %+v, %v", page, err)
	}
}

// A client that sends nothing for too long, or never ends, has inserted nothing.
// Proves G4.
func TestInsertTasksFrom_GivesUpClientsThatAreSilentOrSlow(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	const soon = 100 * time.Millisecond
	for name, c := range map[string]struct {
		silence, age time.Duration
		http2        bool
	}{
		"silent by HTTP/1.1": {soon, time.Hour, false},
		"silent by HTTP/2":   {soon, time.Hour, true},
		"slow by HTTP/1.1":   {time.Hour, soon, false},
		"slow by HTTP/2":     {time.Hour, soon, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, store := newImpatient(t, c.silence, c.age, c.http2)
			stream := sendOne(t, client, false)
			ended := make(chan struct{})
			time.AfterFunc(time.Minute, func() {
				select {
				case <-ended:
				default:
					t.Error("the service waits for the client")
					_, _ = stream.CloseAndReceive()
				}
			})
			var err error
			for err == nil { // until the service has ended the stream
				select {
				case <-time.After(200 * time.Millisecond):
					err = stream.Send(&stintv1.InsertTasksFromRequest{})
				case <-t.Context().Done():
					return
				}
			}
			close(ended)
			_, err = stream.CloseAndReceive()
			if connect.CodeOf(err) != connect.CodeDeadlineExceeded {
				t.Errorf("InsertTasksFrom = %v", err)
			}
			wantNone(t, store)
		})
	}
}

// A stream that ends cleanly, but without its last message, has inserted nothing: a proxy may have
// ended it for a client that broke off.
// Proves G4.
func TestInsertTasksFrom_NeedsTheLastMessage(t *testing.T) {
	t.Parallel()
	client, store := newImpatient(t, time.Hour, time.Hour, true)
	_, err := sendOne(t, client, false).CloseAndReceive()
	if connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("InsertTasksFrom = %v", err)
	}
	wantNone(t, store)
	response, err := sendOne(t, client, true).CloseAndReceive()
	if err != nil || response.GetInserted() != 1 {
		t.Errorf("InsertTasksFrom = %v, %v", response, err)
	}
}

// The service may work for longer than a client may be silent.
func TestImpatientBody_LimitsOnlyReads(t *testing.T) {
	t.Parallel()
	const silence = 50 * time.Millisecond
	s := &Service{silence: silence, limits: newLimits(Limits{}, 1)}
	read := make(chan error, 1)
	server := httptest.NewUnstartedServer(s.impatient(http.HandlerFunc(
		func(_ http.ResponseWriter, r *http.Request) {
			one := make([]byte, 1)
			_, err := io.ReadFull(r.Body, one)
			if err == nil {
				<-time.After(4 * silence)
				_, err = io.ReadFull(r.Body, one)
			}
			read <- err
		})))
	server.EnableHTTP2 = true // whose streams a deadline ends even if nobody reads
	server.StartTLS()
	t.Cleanup(server.Close)
	body, send := io.Pipe()
	go func() {
		_, _ = send.Write([]byte("1"))
		<-time.After(2 * silence)
		_, _ = send.Write([]byte("2"))
		_ = send.Close()
	}()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	if err := <-read; err != nil {
		t.Errorf("Read = %v", err)
	}
}
