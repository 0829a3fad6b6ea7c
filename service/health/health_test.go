package health_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint/internal/testing/testrun"
	"github.com/stint-tasks/stint/service/health"
	"github.com/stint-tasks/stint/service/health/internal/healthv1"
)

type (
	question = healthv1.HealthCheckRequest
	answer   = healthv1.HealthCheckResponse
)

const (
	checkPath = "/grpc.health.v1.Health/Check"
	watchPath = "/grpc.health.v1.Health/Watch"
)

func well(context.Context) error { return nil }

// ask asks a handler without a network, which a bubble of synctest would not see.
func ask(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	h.ServeHTTP(recorder, request)
	return recorder.Code, recorder.Body.String()
}

func wantAnswer(t *testing.T, h http.Handler, path string, code int, text string) {
	t.Helper()
	if gotCode, got := ask(t, h, path); gotCode != code || got != text {
		t.Errorf("%s = %d %q, want %d %q", path, gotCode, got, code, text)
	}
}

// serve serves a handler by HTTP/1.1 and HTTP/2 without TLS, and returns its address and a client
// of the second.
func serve(t *testing.T, h *health.Handler) (*httptest.Server, *http.Client) {
	t.Helper()
	server := httptest.NewUnstartedServer(h)
	server.Config.Protocols = &http.Protocols{}
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	t.Cleanup(h.Drain)
	transport := &http.Transport{Protocols: &http.Protocols{}}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return server, &http.Client{Transport: transport}
}

func TestHandler_SaysWhyRequestsCannotBeServed(t *testing.T) {
	t.Parallel()
	sick := health.New(func(context.Context) error {
		return errors.New("the database does not answer\nat all")
	})
	wantAnswer(t, sick, "/healthz", http.StatusOK, "ok\n")
	wantAnswer(t, sick, "/readyz", http.StatusServiceUnavailable, "the database does not answer\n")
	wantAnswer(t, health.New(well), "/readyz", http.StatusOK, "ok\n")
	for _, path := range []string{"/", "/healthz/x", "/stint.v1.TaskService/GetTasks"} {
		if code, _ := ask(t, sick, path); code != http.StatusNotFound {
			t.Errorf("%s = %d, want 404", path, code)
		}
	}
}

// However many ask, the database is asked once a second.
func TestHandler_ProbesOnceASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		probes := 0
		h := health.New(func(context.Context) error {
			probes++
			return nil
		})
		ended := make(chan struct{})
		for range 100 {
			go func() {
				defer func() { ended <- struct{}{} }()
				wantAnswer(t, h, "/readyz", http.StatusOK, "ok\n")
			}()
		}
		for range 100 {
			<-ended
		}
		<-time.After(999 * time.Millisecond)
		ask(t, h, "/readyz")
		if probes != 1 {
			t.Errorf("%d probes within a second, want 1", probes)
		}
		<-time.After(time.Millisecond)
		ask(t, h, "/readyz")
		ask(t, h, "/readyz")
		if probes != 2 {
			t.Errorf("%d probes after a second, want 2", probes)
		}
	})
}

func TestHandler_GivesAProbeTwoSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health.New(func(ctx context.Context) error {
			<-ctx.Done()
			return errors.New("password=secret: " + ctx.Err().Error())
		})
		began := time.Now()
		wantAnswer(t, h, "/readyz", http.StatusServiceUnavailable, "no answer within 2s\n")
		if took := time.Since(began); took != 2*time.Second {
			t.Errorf("the answer takes %v, want 2 s", took)
		}
	})
}

// A probe goes on for others if the one who asked first leaves.
func TestHandler_ProbesOnIfTheCallerLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health.New(func(ctx context.Context) error {
			select {
			case <-time.After(time.Second):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		ctx, leave := context.WithCancel(t.Context())
		leave()
		recorder := httptest.NewRecorder()
		h.ServeHTTP(recorder, httptest.NewRequestWithContext(ctx, http.MethodGet, "/readyz", nil))
		wantAnswer(t, h, "/readyz", http.StatusOK, "ok\n")
	})
}

// Draining is told at once, also while a probe hangs and while the last answer holds.
func TestHandler_DrainsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := health.New(func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			ask(t, h, "/readyz")
		}()
		synctest.Wait()
		began := time.Now()
		h.Drain()
		wantAnswer(t, h, "/readyz", http.StatusServiceUnavailable,
			"draining: send requests elsewhere\n")
		wantAnswer(t, h, "/healthz", http.StatusOK, "ok\n")
		if took := time.Since(began); took != 0 {
			t.Errorf("the answer takes %v, want none", took)
		}
		<-ended
	})
}

// gRPC, gRPC-Web and JSON get the answers of /readyz.
func TestCheck_AnswersEveryProtocol(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	var sick atomic.Bool
	h := health.New(func(context.Context) error {
		if sick.Load() {
			return errors.New("the database does not answer")
		}
		return nil
	})
	server, http2 := serve(t, h)
	for protocol, options := range map[string][]connect.ClientOption{
		"gRPC": {connect.WithGRPC()}, "gRPC-Web": {connect.WithGRPCWeb()},
		"JSON": {connect.WithProtoJSON()},
	} {
		client := connect.NewClient[question, answer](http2, server.URL+checkPath, options...)
		for _, service := range []string{"", "stint.v1.TaskService", "stint.v1.WorkerService"} {
			got, err := client.CallUnary(t.Context(),
				connect.NewRequest(&question{Service: service}))
			if err != nil || got.Msg.GetStatus() != healthv1.HealthCheckResponse_SERVING {
				t.Errorf("by %s: Check(%q) = %v, %v", protocol, service, got, err)
			}
		}
		_, err := client.CallUnary(t.Context(), connect.NewRequest(&question{Service: "x"}))
		if connect.CodeOf(err) != connect.CodeNotFound {
			t.Errorf("by %s: Check(x) = %v, want not_found", protocol, err)
		}
	}
	sick.Store(true)
	client := connect.NewClient[question, answer](http2, server.URL+checkPath, connect.WithGRPC())
	for got := healthv1.HealthCheckResponse_SERVING; got == healthv1.HealthCheckResponse_SERVING; {
		response, err := client.CallUnary(t.Context(), connect.NewRequest(&question{}))
		if err != nil {
			t.Fatalf("Check = %v", err)
		}
		got = response.Msg.GetStatus()
	}
}

// The bytes are those of grpc.health.v1, whose messages have other names: a probe made from the
// original gets along with them.
func TestCheck_HasTheBytesOfTheOriginal(t *testing.T) {
	t.Parallel()
	server, _ := serve(t, health.New(well))
	for kind, talk := range map[string][2]string{
		"application/proto": {"\x0a\x14stint.v1.TaskService", "\x08\x01"},
		"application/json":  {`{"service":"stint.v1.TaskService"}`, `{"status":"SERVING"}`},
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			server.URL+checkPath, strings.NewReader(talk[0]))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", kind)
		response, err := server.Client().Do(request)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(bytes.ReplaceAll(got, []byte(" "), nil), []byte(talk[1])) {
			t.Errorf("%s: %q is answered by %q, want %q", kind, talk[0], got, talk[1])
		}
	}
}

// A watch tells each change, and that the handler drains, and ends.
func TestWatch_TellsChanges(t *testing.T) {
	t.Parallel()
	testrun.Long(t)
	var sick atomic.Bool
	h := health.New(func(context.Context) error {
		if sick.Load() {
			return errors.New("the database does not answer")
		}
		return nil
	})
	server, http2 := serve(t, h)
	stream := open(t, server.URL, http2, "stint.v1.WorkerService")
	wantNext(t, stream, healthv1.HealthCheckResponse_SERVING)
	sick.Store(true)
	wantNext(t, stream, healthv1.HealthCheckResponse_NOT_SERVING)
	sick.Store(false)
	wantNext(t, stream, healthv1.HealthCheckResponse_SERVING)
	unknown := open(t, server.URL, http2, "x")
	wantNext(t, unknown, healthv1.HealthCheckResponse_SERVICE_UNKNOWN)
	h.Drain()
	wantNext(t, stream, healthv1.HealthCheckResponse_NOT_SERVING)
	for _, stream := range []*connect.ServerStreamForClient[answer]{stream, unknown} {
		if stream.Receive() || stream.Err() != nil {
			t.Errorf("after the drain: %v, %v, want the end", stream.Msg(), stream.Err())
		}
	}
	late := open(t, server.URL, http2, "")
	wantNext(t, late, healthv1.HealthCheckResponse_NOT_SERVING)
	if late.Receive() || late.Err() != nil {
		t.Errorf("a watch of a drained handler: %v, %v, want the end", late.Msg(), late.Err())
	}
}

func open(
	t *testing.T, address string, http2 *http.Client, service string,
) *connect.ServerStreamForClient[answer] {
	t.Helper()
	client := connect.NewClient[question, answer](http2, address+watchPath, connect.WithGRPC())
	stream, err := client.CallServerStream(t.Context(),
		connect.NewRequest(&question{Service: service}))
	if err != nil {
		t.Fatalf("Watch = %v", err)
	}
	return stream
}

func wantNext(
	t *testing.T, stream *connect.ServerStreamForClient[answer],
	want healthv1.HealthCheckResponse_ServingStatus,
) {
	t.Helper()
	if !stream.Receive() || stream.Msg().GetStatus() != want {
		t.Fatalf("Watch says %v, %v, want %v", stream.Msg().GetStatus(), stream.Err(), want)
	}
}
