package testservice

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// A Fault is what goes wrong with one attempt of a call.
type Fault int

// The faults.
const (
	NoFault     Fault = iota
	RequestLost       // nothing reaches the service
	RequestCut        // half of the message does
	AnswerLost        // the service has answered, nothing reaches the client
	AnswerCut         // half of the message does
	EndLost           // the whole message does, but not the trailers that say how the call ended
	Delayed           // by 100 ms, one half each way
	Late              // the client gives up, and the service gets the request afterwards
	faultsEnd
)

// AllFaults are the faults.
func AllFaults() []Fault {
	var all []Fault
	for f := NoFault + 1; f < faultsEnd; f++ {
		all = append(all, f)
	}
	return all
}

func (f Fault) String() string {
	return [...]string{
		"no fault", "request lost", "request cut", "answer lost", "answer cut", "end lost",
		"delayed", "late",
	}[f]
}

// ErrFault is what a client sees of a fault.
var ErrFault = errors.New("the connection was cut")

const (
	delay = 100 * time.Millisecond
	late  = 200 * time.Millisecond // after the second attempt of a client, most often
)

// Faults are a transport that makes requests fail. Streams go through unharmed.
type Faults struct {
	next http.RoundTripper

	mutex  sync.Mutex
	choose func(verb string) Fault
	made   int
	under  sync.WaitGroup // late requests
}

// NewFaults returns a transport over HTTP/2 without TLS, with no faults yet.
func NewFaults() *Faults {
	protocols := &http.Protocols{}
	protocols.SetUnencryptedHTTP2(true)
	return &Faults{next: &http.Transport{Protocols: protocols}}
}

// Choose makes choose say what goes wrong with each request of a verb, such as
// /stint.v1.TaskService/InsertTasks; nil is nothing.
func (f *Faults) Choose(choose func(verb string) Fault) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.choose = choose
}

// Made is how many faults there were so far.
func (f *Faults) Made() int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.made
}

// Wait waits until the requests that come late have been answered.
func (f *Faults) Wait() { f.under.Wait() }

const attendVerb = "/stint.v1.WorkerService/Attend"

func (f *Faults) fault(verb string) (chosen Fault) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.choose != nil && verb != attendVerb {
		chosen = f.choose(verb)
	}
	if chosen != NoFault {
		f.made++
	}
	return chosen
}

// RoundTrip sends a request, unless something goes wrong.
func (f *Faults) RoundTrip(r *http.Request) (*http.Response, error) {
	fault := f.fault(r.URL.Path)
	switch fault {
	case NoFault:
		return f.next.RoundTrip(r)
	case RequestLost:
		_ = r.Body.Close()
		return nil, ErrFault
	case Delayed:
		<-time.After(delay / 2)
		defer func() { <-time.After(delay / 2) }()
		return f.next.RoundTrip(r)
	default:
	}
	message, err := io.ReadAll(r.Body)
	if err = errors.Join(err, r.Body.Close()); err != nil {
		return nil, err
	}
	if fault == RequestCut {
		return f.cutRequest(r, message)
	}
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(bytes.NewReader(message))
	if fault == Late {
		f.sendLate(again)
		return nil, ErrFault
	}
	response, err := f.next.RoundTrip(again)
	if err != nil {
		return nil, err
	}
	return cutAnswer(response, fault)
}

// cutRequest sends half of a message, and then nothing any more.
func (f *Faults) cutRequest(r *http.Request, message []byte) (*http.Response, error) {
	again := r.Clone(r.Context())
	again.Body = io.NopCloser(io.MultiReader(
		bytes.NewReader(message[:len(message)/2]), broken{}))
	again.ContentLength = int64(len(message))
	response, err := f.next.RoundTrip(again)
	if err == nil { // the service answers before it has read it all
		_ = response.Body.Close()
	}
	return nil, errors.Join(ErrFault, err)
}

// sendLate sends a request when its client does not wait for the answer any more.
func (f *Faults) sendLate(r *http.Request) {
	f.under.Go(func() {
		<-time.After(late)
		response, err := f.next.RoundTrip(r.WithContext(context.WithoutCancel(r.Context())))
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
	})
}

// cutAnswer waits until the service has answered, and lets as much through as the fault says.
func cutAnswer(response *http.Response, fault Fault) (*http.Response, error) {
	message, err := io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	if fault == AnswerLost || err != nil || len(message) == 0 {
		return nil, errors.Join(ErrFault, err)
	}
	if fault == AnswerCut {
		message = message[:len(message)/2]
	}
	cut := *response
	cut.Trailer = nil
	cut.Body = io.NopCloser(io.MultiReader(bytes.NewReader(message), broken{}))
	return &cut, nil
}

// broken is where a message breaks off.
type broken struct{}

func (broken) Read([]byte) (int, error) {
	return 0, fmt.Errorf("%w: %w", ErrFault, io.ErrUnexpectedEOF)
}
