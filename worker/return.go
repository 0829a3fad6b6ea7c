package worker

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/internal/groupcommit"
)

func (e *execution) newReturnGroup() *returnGroup {
	return &returnGroup{
		Run: func(
			_ context.Context, _ struct{}, performances []*performance, _ bool,
		) ([]struct{}, error) {
			e.returnShared(performances)
			return nil, nil
		},
		Size: returnSize,
		Go: func(run func()) error {
			go run()
			return nil
		},
	}
}

// returnSize is the size of a return in a batch: one, and one for each KiB of what it says.
func returnSize(p *performance) int {
	const textBytes = 1 << 10
	return 1 + bytesOf(&p.ret)/textBytes
}

func bytesOf(r *stint.Return) int { return len(r.Result) + len(r.Status) + len(r.Log) }

// firstFew splits performances into those whose returns go into one call, and the rest.
func firstFew(due []*performance) (first, rest []*performance) {
	size := 0
	for i, p := range due {
		if size += returnSize(p); size > groupcommit.SizeMax && i > 0 {
			return due[:i:i], due[i:]
		}
	}
	return due, nil
}

// giveBack returns the task of a performance, together with others that end at the same time, and
// with the next fetch if there is one. It does not wait for the call, unless the server does not
// answer.
func (e *execution) giveBack(p *performance) {
	if err := e.outage.current(); err != nil {
		e.outlast(p, err)
		return
	}
	if !e.ended.post(p) {
		e.returns.Post(struct{}{}, p)
	}
}

// giveBackAlone returns tasks of performances without a fetch.
func (e *execution) giveBackAlone(due []*performance) {
	if len(due) > 0 {
		e.returns.Post(struct{}{}, due...)
	}
}

// returnShared returns tasks of performances in one call.
func (e *execution) returnShared(performances []*performance) {
	returns := returnsOf(performances)
	ctx, cancel := context.WithTimeout(
		context.WithoutCancel(performances[0].ctx), attemptFor(returns...))
	defer cancel()
	verdicts, _, err := e.queue.ReturnAndOwnTasks(ctx, returns, stint.Want{})
	e.judge(performances, verdicts, err)
}

func returnsOf(performances []*performance) []stint.Return {
	returns := make([]stint.Return, len(performances))
	for i, p := range performances {
		returns[i] = p.ret
	}
	return returns
}

// judge deals with the verdicts on returns that were made together. Tasks that this call could not
// return are returned in goroutines of their own.
func (e *execution) judge(performances []*performance, verdicts []error, err error) {
	if errors.Is(err, stint.ErrInvalidArgument) { // for one of them, or all together are too large
		for _, p := range performances {
			go e.returnAlone(p, err)
		}
		return
	}
	verdicts, err = e.conclusions(performances, verdicts, err)
	for i, p := range performances {
		switch {
		case err != nil:
			go e.outlast(p, err)
		case verdicts[i] != nil:
			go e.returnAlone(p, verdicts[i])
		}
	}
}

// outlast returns the task of a performance once the server answers again, unless that is too late.
func (e *execution) outlast(p *performance, err error) {
	for {
		switch e.outage.wait(e, p, err) {
		case tooLate:
			e.giveUp(err, p)
			return
		case answered:
			e.giveBack(p)
			return
		case mayProbe:
			var verdict error
			verdict, err = e.probe(p)
			e.outage.probed(err == nil)
			if err != nil {
				continue
			}
			if verdict != nil {
				e.returnAlone(p, verdict)
			}
			return
		}
	}
}

// conclusions lets go of the performances that are over by the verdicts on their returns: those are
// nil then. The error says that the server has not answered; then nothing has changed.
func (e *execution) conclusions(
	performances []*performance, verdicts []error, err error,
) ([]error, error) {
	for _, p := range performances {
		p.unsure = p.unsure || err != nil // some may have been made in a transaction before
	}
	if unanswered(err) {
		return nil, err
	}
	if err != nil { // all failed with it
		verdicts = slices.Repeat([]error{err}, len(performances))
	}
	over := make([]*performance, 0, len(performances))
	for i, p := range performances {
		if e.isOver(p, verdicts[i]) {
			verdicts[i] = nil
			over = append(over, p)
		}
	}
	e.finish(over...)
	return verdicts, nil
}

// probe returns the task of a performance alone, to see whether the server answers.
func (e *execution) probe(p *performance) (verdict, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), attemptFor(p.ret))
	defer cancel()
	all, one := []*performance{p}, []stint.Return{p.ret}
	verdicts, _, err := e.queue.ReturnAndOwnTasks(ctx, one, stint.Want{})
	if verdicts, err = e.conclusions(all, verdicts, err); err != nil {
		return nil, err
	}
	return verdicts[0], nil
}

// returnAlone returns a task that could not be returned together with others. It tries until the
// store has accepted or refused the return, or it is too late. If the server does not answer, the
// task waits as others do; but if an attempt takes too long, a lock may be the reason.
func (e *execution) returnAlone(p *performance, err error) {
	for try := 1; ; try++ {
		if !errors.Is(err, stint.ErrBusy) && !errors.Is(err, stint.ErrInvalidArgument) &&
			!e.pause(p, reconnect().pause(try)) {
			e.giveUp(err, p)
			return
		}
		if unanswered(err) && !errors.Is(err, context.DeadlineExceeded) {
			e.giveBack(p)
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), attemptFor(p.ret))
		err = returnOne(ctx, e.queue, p.ret)
		cancel()
		if e.isOver(p, err) {
			break
		}
	}
	e.finish(p)
}

const notReturned = "could not return task"

// giveUp lets go of a task that could not be returned because of err.
func (e *execution) giveUp(err error, p *performance) {
	e.count(p, slog.LevelError, notReturned, slog.Any("error", err))
	e.conclude(p, OutcomeLost)
	e.finish(p)
}

// isOver concludes a performance if the verdict on its return is the last.
func (e *execution) isOver(p *performance, verdict error) bool {
	inTx := p.task.returned.Load()
	p.unsure = p.unsure || unanswered(verdict)
	switch {
	case verdict == nil, errors.Is(verdict, stint.ErrAlreadyReturned):
		e.conclude(p, p.outcome)
	case p.unsure && p.ret.Code != stint.StatusPending && errors.Is(verdict, stint.ErrTaskNotFound):
		e.conclude(p, p.outcome) // it has ended, and was not kept, as with KeepNone
	case errors.Is(verdict, stint.ErrInvalidToken) && inTx:
		// The handler believed that its commit failed, but it has gone through.
		e.conclude(p, OutcomeCompleted)
	case errors.Is(verdict, stint.ErrInvalidToken):
		e.log(p, slog.LevelDebug, "task lost", slog.Any("cause", verdict))
		e.conclude(p, OutcomeLost)
	case errors.Is(verdict, stint.ErrInvalidArgument) && p.ret.Result != nil:
		// Nothing else in a return can be invalid: the result is too large.
		p.ending = ended(endedAbort, Abort(verdict), nil)
		p.ret, p.outcome = p.task.failure(&p.ending, Retry{})
		return false
	case hopeless(verdict):
		e.count(p, slog.LevelError, notReturned, slog.Any("error", verdict))
		e.conclude(p, OutcomeLost)
	default:
		return false
	}
	return true
}
