package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"

	"connectrpc.com/connect"

	"github.com/stint-tasks/stint"
)

// errToken is the error of a token that cannot be sent.
var errToken = errors.New("no token")

// A bearer sends a token with each request, and with the first message of each stream.
type bearer struct {
	file string // empty if the token is fixed

	mutex sync.Mutex
	token string // empty before the file was read
}

// newBearer returns nil if the options have no token.
func newBearer(at *url.URL, options Options) (*bearer, error) {
	switch {
	case options.Token == "" && options.TokenFile == "":
		return nil, nil //nolint:nilnil // as the comment says
	case options.Token != "" && options.TokenFile != "":
		return nil, optionError("Options.Token", "must not be set together with TokenFile")
	case at.Scheme == "http" && !isLoopback(at.Hostname()):
		return nil, optionError("Options.Token", "is sent to https:// addresses, and to "+
			"http:// on this machine alone, since anybody on the way could read it")
	case options.Token != "" && !isToken(options.Token):
		return nil, optionError("Options.Token", "must be visible ASCII characters")
	}
	return &bearer{file: options.TokenFile, token: options.Token}, nil
}

func optionError(option, problem string) error {
	return &stint.ArgumentError{
		Argument: option, Index: -1, Problem: problem, Err: stint.ErrInvalidArgument,
	}
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// isToken reports whether a text can be sent in a header.
func isToken(text string) bool {
	isOther := func(r rune) bool { return r <= ' ' || r > '~' }
	return text != "" && !strings.ContainsFunc(text, isOther)
}

// header returns the value of the header Authorization. It reads the file if nothing has done so
// yet, or if the header that it holds is stale.
func (b *bearer) header(stale string) (string, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if b.file != "" && (b.token == "" || bearing(b.token) == stale) {
		text, err := os.ReadFile(b.file)
		if err != nil {
			return "", fmt.Errorf("%w: %w", errToken, err)
		}
		token := strings.TrimSpace(string(text))
		if !isToken(token) {
			return "", fmt.Errorf("%w: %s must hold a token of visible ASCII characters", errToken,
				b.file)
		}
		b.token = token
	}
	return bearing(b.token), nil
}

func bearing(token string) string { return "Bearer " + token }

const authorization = "Authorization"

// WrapUnary sends the token. If the service does not know it, and the file has another one by now,
// it makes the call once more.
func (b *bearer) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		header, err := b.header("")
		if err != nil {
			return nil, err
		}
		request.Header().Set(authorization, header)
		response, err := next(ctx, request)
		if connect.CodeOf(err) != connect.CodeUnauthenticated {
			return response, err
		}
		again, headerErr := b.header(header)
		if headerErr != nil || again == header {
			return response, err
		}
		request.Header().Set(authorization, again)
		return next(ctx, request)
	}
}

// WrapStreamingClient sends the token. Since a stream cannot be repeated here, each has the token
// that the file then has.
func (b *bearer) WrapStreamingClient(
	next connect.StreamingClientFunc,
) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		conn := next(ctx, spec)
		header, err := b.header("")
		if err != nil {
			return &failing{conn, err}
		}
		if read, err := b.header(header); err == nil {
			header = read
		}
		conn.RequestHeader().Set(authorization, header)
		return conn
	}
}

// WrapStreamingHandler is for services.
func (*bearer) WrapStreamingHandler(
	next connect.StreamingHandlerFunc,
) connect.StreamingHandlerFunc {
	return next
}

// A failing stream has no token, and sends nothing.
type failing struct {
	connect.StreamingClientConn
	err error
}

func (f *failing) Send(any) error { return f.err }

func (f *failing) Receive(any) error { return f.err }

// CloseRequest would send headers.
func (f *failing) CloseRequest() error { return f.err }

// CloseResponse would wait for an answer.
func (f *failing) CloseResponse() error { return nil }
