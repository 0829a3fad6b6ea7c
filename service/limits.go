package service

import (
	"math"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits bound what each principal may ask of a service at a time. A call too many is refused at
// once; the client repeats it for some seconds. Where nobody is asked who he is, all callers are
// one principal.
type Limits struct {
	// Calls is how many calls may be under way that do not wait for tasks. Default: 1,000.
	Calls int
	// Waiting is how many calls may wait for tasks, and how many actors show by a stream that they
	// live, together. Default: 20,000.
	Waiting int
	// Streams is how many calls may stream tasks, each of which keeps a connection to the database
	// and a transaction. All principals together may take half of the connections. Default: a
	// quarter of the connections, at least one.
	Streams int
	// StreamTime is how long such a stream may take. Default: an hour.
	StreamTime time.Duration
	// Rate is how many calls may begin in a second, on average; so many may begin at once. Default:
	// no limit.
	Rate float64
	// RequestBytes is the size of a request at most. Default: 65 MiB, the largest body of a task
	// and what is around it.
	RequestBytes int
	// Bytes is how many bytes of requests and answers the service holds at a time, of all
	// principals. One takes half, or RequestBytes or 72 MiB if more; all if nobody is asked who
	// they are. A call for which there is no room waits, ahead of being read, and is refused after
	// five seconds, or at its deadline. Messages of up to 32 KiB do not count, nor does what is
	// around a message: a large one takes up to five times as many bytes of memory. Of answers,
	// those of GetTasks, WaitForTasks, GetInputs and OwnTasks count before what is long is read,
	// the others once they have come from the database; those of [Service.Guard] never. Default:
	// 256 MiB.
	Bytes int64
	// TransferTime is how long a request may take to arrive from its first byte on, and its answer
	// to be read. Streams have longer. Default: a minute.
	TransferTime time.Duration
}

const (
	callsDefault        = 1000
	waitingDefault      = 20_000
	requestBytesDefault = 65 << 20
	transferTimeDefault = time.Minute
	streamTimeDefault   = time.Hour

	// bytesDefault is four of the largest requests.
	bytesDefault = 256 << 20

	// connsPerStream is for how many connections of the pool there may be one stream of tasks, so
	// that other calls find some, and streamsShare for how many of all streams there may be one of
	// a principal, unless its Limits say so.
	connsPerStream = 2
	streamsShare   = 2

	// heldMax is how many tasks an actor may tell by its stream that it holds: as many as it can
	// own by one call.
	heldMax = 100_000

	// usagesMax is how many principals are remembered after their last call, to keep to their rate.
	usagesMax = 10_000
)

func (l Limits) negative() bool {
	return min(l.Calls, l.Waiting, l.Streams, l.RequestBytes) < 0 || l.Rate < 0 || l.Bytes < 0 ||
		min(l.StreamTime, l.TransferTime) < 0
}

func newLimits(l Limits, conns int32) limits {
	streams := max(1, int(conns)/connsPerStream)
	return limits{
		Limits: l.withDefaults(streams), streamsMax: streams, usages: map[string]*usage{},
	}
}

func (l Limits) withDefaults(streams int) Limits {
	if l.Calls == 0 {
		l.Calls = callsDefault
	}
	if l.Waiting == 0 {
		l.Waiting = waitingDefault
	}
	if l.Streams == 0 {
		l.Streams = max(1, streams/streamsShare)
	}
	if l.StreamTime == 0 {
		l.StreamTime = streamTimeDefault
	}
	if l.RequestBytes == 0 {
		l.RequestBytes = requestBytesDefault
	}
	if l.Bytes == 0 {
		l.Bytes = bytesDefault
	}
	if l.TransferTime == 0 {
		l.TransferTime = transferTimeDefault
	}
	return l
}

// limits keep principals to their Limits.
type limits struct {
	Limits

	streamsMax int // of all principals

	mutex   sync.Mutex
	usages  map[string]*usage // of principals by their names
	streams int               // of tasks, of all principals
}

// A usage is how much a principal takes of its limits.
type usage struct {
	calls, waiting int
	streams        int           // of tasks, by some of the calls
	rate           *rate.Limiter // nil without a limit
}

func (u *usage) idle() bool {
	return u.calls == 0 && u.waiting == 0 &&
		(u.rate == nil || u.rate.Tokens() >= float64(u.rate.Burst()))
}

// A place is what one request takes of its principal's limits.
type place struct {
	limits *limits
	name   string
	usage  *usage
	waits  bool
}

// enter takes a place for a call, or says after which time to ask again.
func (l *limits) enter(name string) (*place, time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	used := l.usages[name]
	if used == nil {
		used = &usage{}
		if l.Rate > 0 {
			used.rate = rate.NewLimiter(rate.Limit(l.Rate), int(max(1, math.Ceil(l.Rate))))
		}
		l.usages[name] = used
	}
	if used.calls >= l.Calls {
		return nil, time.Second
	}
	if used.rate != nil {
		if turn := used.rate.Reserve(); turn.Delay() > 0 {
			wait := turn.Delay()
			turn.Cancel()
			return nil, wait
		}
	}
	used.calls++
	return &place{limits: l, name: name, usage: used}, 0
}

// wait makes a place that of a call that waits, unless too many wait.
func (p *place) wait() error {
	p.limits.mutex.Lock()
	defer p.limits.mutex.Unlock()
	if p.usage.waiting >= p.limits.Waiting {
		return errLimited("has too many calls and streams that wait")
	}
	p.usage.calls--
	p.usage.waiting++
	p.waits = true
	return nil
}

// resume undoes wait. The limit of calls does not hold it up: it has done its work.
func (p *place) resume() {
	p.limits.mutex.Lock()
	defer p.limits.mutex.Unlock()
	p.usage.calls++
	p.usage.waiting--
	p.waits = false
}

// stream lets a call stream tasks until it calls done, unless too many do.
func (p *place) stream() (done func(), err error) {
	p.limits.mutex.Lock()
	defer p.limits.mutex.Unlock()
	switch {
	case p.usage.streams >= p.limits.Streams:
		return nil, errLimited("has too many calls that stream tasks")
	case p.limits.streams >= p.limits.streamsMax:
		return nil, errLimited("is one of too many that stream tasks, each with a connection")
	}
	p.usage.streams++
	p.limits.streams++
	return func() {
		p.limits.mutex.Lock()
		defer p.limits.mutex.Unlock()
		p.usage.streams--
		p.limits.streams--
	}, nil
}

// leave gives the place back.
func (p *place) leave() {
	l := p.limits
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if p.waits {
		p.usage.waiting--
	} else {
		p.usage.calls--
	}
	if p.usage.idle() {
		delete(l.usages, p.name)
	}
	if len(l.usages) > usagesMax {
		for name, used := range l.usages {
			if used.idle() {
				delete(l.usages, name)
			}
		}
	}
}

// seconds is a time as a header has it.
func seconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }
