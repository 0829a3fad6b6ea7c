// Package client has the verbs of a store for processes that cannot reach the database, but reach a
// service (package service, or the command stint serve). The names, parameters and errors are those
// of [stint.Store]. A worker of package worker takes a client instead of a store:
//
//	c, err := client.New("http://localhost:7330", client.Options{})
//	...
//	w, err := worker.New(c, worker.Options{}, worker.Handle("mail", send))
//
// If the answer to a call is lost on the way, the client repeats the call, for some seconds. It
// takes effect once, and its result and its error are those of the attempt that took effect: the
// service knows the call again by a key, for ten minutes. Verbs that are not repeated, or whose
// result may lack something then, say so. A service of an earlier release does not know such keys:
// a repeated call then finds what its first attempt has done, such as tasks that are there. An
// error names 64 tasks at most. Verbs that take effect together, as in a transaction of the
// database, are a [Client.Transact].
package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1/stintv1connect"
	"github.com/stint-tasks/stint/internal/outage"
	"github.com/stint-tasks/stint/internal/safely"
	"github.com/stint-tasks/stint/internal/wire"
	"github.com/stint-tasks/stint/verbs"
	"github.com/stint-tasks/stint/worker"
)

// The errors of this package, to be matched with [errors.Is].
var (
	// ErrUnavailable reports that the service did not answer, could not reach its database, or had
	// too much to do, at any attempt. The call may have taken effect.
	ErrUnavailable = errors.New("the service is not available")

	// ErrRefused is [stint.ErrRefused]: the service does not let the caller do this, or does not
	// know the caller.
	ErrRefused = stint.ErrRefused
)

// Options adjust a [Client]. The zero value is a good default.
type Options struct {
	// HTTPClient sends the requests; the client does not follow redirects, whatever it says.
	// Default: one that speaks HTTP/2, also to http:// addresses, and drops connections that do not
	// answer a ping within two seconds.
	HTTPClient *http.Client

	// Token is sent with every request, as "Authorization: Bearer" and the token. An address that
	// begins with http:// must then be one of this machine: localhost, 127.0.0.1 or [::1].
	Token string

	// TokenFile names a file that holds the token, instead of Token. It is read when the token is
	// first needed. When the service does not know the token (any more), the file is read again,
	// and if it holds another token by then, the call is made once more. A stream takes the token
	// that the file holds when it begins.
	TokenFile string

	// TLS is for https:// addresses: the authorities that sign the service's certificate, or a
	// certificate of the client. It goes with the default of HTTPClient only. Default: the
	// authorities of the system, and no certificate.
	TLS *tls.Config

	// Headers is [stint.Options.Headers]: it returns headers for the tasks that a call inserts, by
	// the context of the call, such as those of a trace: see package stintotel. Default: none.
	Headers func(context.Context) map[string]string

	// Logger logs failures in the background: each kind at once, then once a minute as long as it
	// lasts. Default: [slog.Default].
	Logger *slog.Logger
}

// outages log the failures in the background: of all actors together, since a service that is away
// fails them all.
type outages struct{ unseen, unreleased, callback *outage.Log }

func newOutages(logger *slog.Logger) outages {
	return outages{
		unseen:   outage.New(logger, "the service does not see that an actor lives"),
		callback: outage.New(logger, "a function that was given to WatchOwnership has failed"),
		unreleased: outage.New(logger,
			"could not give back tasks that may have been fetched; their leases expire"),
	}
}

var (
	_ verbs.All      = (*Client)(nil)
	_ verbs.Recorder = (*Client)(nil)
)

// A Client has the verbs of the store of a service. It is safe for concurrent use. Close it when it
// is no longer needed.
type Client struct {
	tasks   stintv1connect.TaskServiceClient
	owners  stintv1connect.WorkerServiceClient
	cluster stintv1connect.ClusterServiceClient

	// session is a number of this client's own: the leases of its actors carry it.
	session  int64
	presence presence

	outages outages
	headers func(context.Context) map[string]string // of Options, or nil

	closing    chan struct{}
	mutex      sync.Mutex // nothing begins in the background after closing
	background sync.WaitGroup
}

var _ worker.Queue = (*Client)(nil)

const (
	messageBytesMax = 80 << 20 // more than any answer of a service
	idleMax         = time.Minute
)

// New returns a client of the service at an address such as http://localhost:7330. It does not
// contact the service yet.
func New(address string, options Options) (*Client, error) {
	at, err := parseAddress(address)
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	doer, err := httpClient(at, options)
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	bearer, err := newBearer(at, options)
	if err != nil {
		return nil, fmt.Errorf("new client: %w", err)
	}
	address = strings.TrimRight(address, "/")
	with := []connect.ClientOption{
		connect.WithGRPC(), connect.WithReadMaxBytes(messageBytesMax),
		connect.WithInterceptors(author{}, keyed{}),
	}
	if bearer != nil {
		with = append(with, connect.WithInterceptors(bearer))
	}
	c := &Client{
		tasks:   stintv1connect.NewTaskServiceClient(doer, address, with...),
		owners:  stintv1connect.NewWorkerServiceClient(doer, address, with...),
		cluster: stintv1connect.NewClusterServiceClient(doer, address, with...),
		outages: newOutages(safely.LoggerOr(options.Logger)), closing: make(chan struct{}),
		headers: options.Headers,
		session: rand.Int64()&^1 | 1, //nolint:gosec // no secret; never 0
	}
	c.presence.init()
	return c, nil
}

func parseAddress(address string) (*url.URL, error) {
	at, err := url.Parse(address)
	switch {
	case err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https":
		return nil, optionError("address", "must have the form http://host:port or "+
			"https://host:port")
	case at.User != nil || at.RawQuery != "" || at.Fragment != "":
		return nil, optionError("address", "must hold no user, no query and no fragment")
	}
	return at, nil
}

// httpClient returns what sends the requests. It follows no redirects: they would lead the token to
// somebody else.
func httpClient(at *url.URL, options Options) (connect.HTTPClient, error) {
	switch {
	case options.TLS != nil && options.HTTPClient != nil:
		return nil, optionError("Options.TLS", "must not be set together with HTTPClient, whose "+
			"transport has a TLS configuration of its own")
	case options.TLS != nil && at.Scheme != "https":
		return nil, optionError("Options.TLS", "is for https:// addresses")
	}
	sends := newHTTPClient(options.TLS)
	if options.HTTPClient != nil {
		given := *options.HTTPClient
		sends = &given
	}
	sends.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	return attempting{sends}, nil
}

// An attempting client sends each request of a call that has a key once. Of HTTP/1.1, Go's
// transport would make it again by itself, and not say so.
type attempting struct{ client *http.Client }

func (a attempting) Do(r *http.Request) (*http.Response, error) {
	if r.Header.Get(wire.KeyHeader) != "" {
		r.GetBody = nil
	}
	return a.client.Do(r) //nolint:gosec // to the address that New was given
}

// newHTTPClient returns a client that notices within two seconds that the other end of a connection
// is gone, although nobody has closed it.
func newHTTPClient(secured *tls.Config) *http.Client {
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: attemptMax, IdleConnTimeout: idleMax,
	}
	if secured != nil {
		transport.TLSClientConfig = secured.Clone()
	}
	transport.Protocols = &http.Protocols{}
	transport.Protocols.SetHTTP2(true)
	transport.Protocols.SetUnencryptedHTTP2(true)
	transport.HTTP2 = &http.HTTP2Config{SendPingTimeout: time.Second, PingTimeout: time.Second}
	return &http.Client{Transport: transport}
}

// Close ends the client's background work, and waits for it no longer than ctx allows: actors that
// are registered leave, and claims whose answers were lost are released, if one more attempt can do
// it. Calls that wait end, and every later verb returns [stint.ErrClosed].
func (c *Client) Close(ctx context.Context) error {
	c.mutex.Lock()
	if c.checkOpen() == nil {
		close(c.closing)
	}
	c.mutex.Unlock()
	ended := make(chan struct{})
	go func() {
		c.background.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("close client: %w", ctx.Err())
	}
}

// inBackground does something that Close waits for, unless the client is closed.
func (c *Client) inBackground(work func()) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.checkOpen() != nil {
		return false
	}
	c.background.Go(work)
	return true
}

// untilClosed returns a context for calls that wait, which ends when the client is closed, too.
func (c *Client) untilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	waiting, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-c.closing:
			cancel()
		case <-waiting.Done():
		}
	}()
	return waiting, cancel
}

func (c *Client) checkOpen() error {
	select {
	case <-c.closing:
		return stint.ErrClosed
	default:
		return nil
	}
}
