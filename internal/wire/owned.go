package wire

import (
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/internal/pg"
)

// FromOwned returns owned tasks as messages. With text, bodies are text if they are UTF-8.
func FromOwned(owned []stint.OwnedTask, text bool) []*stintv1.OwnedTask {
	messages := make([]*stintv1.OwnedTask, len(owned))
	// There may be a thousand: they are allocated together.
	together := make([]stintv1.OwnedTask, len(owned))
	bodies := make([]stintv1.OwnedTask_Body, len(owned))
	var until, inserted *timestamppb.Timestamp
	for i := range owned {
		t, m := &owned[i], &together[i]
		messages[i] = m
		if i == 0 || !t.LeaseUntil.Equal(owned[i-1].LeaseUntil) {
			until = fromTime(t.LeaseUntil)
		}
		m.Id, m.Token, m.Action, m.Key = string(t.ID), t.Token.String(), t.Action, t.Key
		m.Try, m.MaxTries = Int32(t.Try), Int32(t.MaxTries)
		m.Completed, m.Aborted = Int32(t.Completed), Int32(t.Aborted)
		if i == 0 || !t.InsertedAt.Equal(owned[i-1].InsertedAt) {
			inserted = fromTime(t.InsertedAt)
		}
		m.LeaseUntil, m.InsertedAt, m.Headers = until, inserted, t.Headers
		switch {
		case t.Body == nil:
		case text && utf8.Valid(t.Body):
			m.Content = &stintv1.OwnedTask_Text{Text: string(t.Body)}
		default:
			bodies[i].Body = t.Body
			m.Content = &bodies[i]
		}
	}
	return messages
}

// ToOwned undoes [FromOwned].
func ToOwned(messages []*stintv1.OwnedTask) ([]stint.OwnedTask, error) {
	owned := make([]stint.OwnedTask, len(messages))
	for i, m := range messages {
		token, err := stint.ParseToken(m.GetToken())
		if err != nil {
			return nil, err
		}
		owned[i] = stint.OwnedTask{
			ID: stint.TaskID(m.GetId()), Token: token, Action: m.GetAction(), Key: m.GetKey(),
			Try: int(m.GetTry()), MaxTries: int(m.GetMaxTries()),
			Completed: int(m.GetCompleted()), Aborted: int(m.GetAborted()),
			LeaseUntil: toTime(m.GetLeaseUntil()),
			Headers:    m.GetHeaders(), InsertedAt: toTime(m.GetInsertedAt()),
		}
		switch content := m.GetContent().(type) {
		case *stintv1.OwnedTask_Body:
			owned[i].Body = present(content.Body)
		case *stintv1.OwnedTask_Text:
			owned[i].Body = []byte(content.Text)
		}
	}
	return owned, nil
}

// FromPerformances returns the IDs and tokens of owned tasks.
func FromPerformances(owned []stint.OwnedTask) []*stintv1.Performance {
	messages := make([]*stintv1.Performance, len(owned))
	for i := range owned {
		messages[i] = FromPerformance(&owned[i])
	}
	return messages
}

// FromPerformance returns the ID and the token of an owned task.
func FromPerformance(owned *stint.OwnedTask) *stintv1.Performance {
	return &stintv1.Performance{Id: string(owned.ID), Token: owned.Token.String()}
}

// A performance is a message with the ID and the token of a task.
type performance interface {
	GetId() string
	GetToken() string
}

// ToPerformance returns the task that a message names, with its token.
func ToPerformance(m performance) (stint.OwnedTask, error) {
	token, err := stint.ParseToken(m.GetToken())
	return stint.OwnedTask{ID: stint.TaskID(m.GetId()), Token: token}, err
}

// ToPerformances is [ToPerformance] for several tasks. An error names the place of the task.
func ToPerformances(messages []*stintv1.Performance) ([]stint.OwnedTask, error) {
	owned := make([]stint.OwnedTask, len(messages))
	for i, message := range messages {
		var err error
		if owned[i], err = ToPerformance(message); err != nil {
			return nil, at(err, i, owned[i].ID)
		}
	}
	return owned, nil
}

// ToStatus makes any text one that a message can have, as the store makes it one that it can store:
// a status must never make a return impossible (R11).
func ToStatus(text string) string {
	const most = 64 << 10 // of the store, which cuts the rest off
	return pg.Storable(text, most)
}

// UTF8 replaces bytes that are none in a text of which the end counts.
func UTF8(text string) string { return strings.ToValidUTF8(text, string(utf8.RuneError)) }

// FromReturns returns returns as messages.
func FromReturns(returns []stint.Return) []*stintv1.Return {
	messages := make([]*stintv1.Return, len(returns))
	together := make([]stintv1.Return, len(returns)) // as in FromOwned
	for i := range returns {
		r, m := &returns[i], &together[i]
		messages[i] = m
		m.Id, m.Token, m.Code = string(r.ID), r.Token.String(), string(r.Code)
		m.Status, m.Release, m.Log = ToStatus(r.Status), r.Release, UTF8(r.Log)
		if r.RetryAfter != 0 {
			m.RetryAfter = FromDuration(r.RetryAfter)
		}
		if r.Spent != nil {
			m.Spent = new(Int32(*r.Spent))
		}
		if r.Result != nil {
			messages[i].Outcome = &stintv1.Return_Result{Result: r.Result}
		}
	}
	return messages
}

// ToReturns undoes [FromReturns]. An error names the place of the return.
func ToReturns(messages []*stintv1.Return) ([]stint.Return, error) {
	returns := make([]stint.Return, len(messages))
	for i, m := range messages {
		owned, err := ToPerformance(m)
		if err != nil {
			return nil, at(err, i, owned.ID)
		}
		returns[i] = stint.Return{
			ID: owned.ID, Token: owned.Token, Code: stint.StatusCode(m.GetCode()),
			Status: m.GetStatus(), RetryAfter: m.GetRetryAfter().AsDuration(),
			Release: m.GetRelease(), Log: m.GetLog(),
		}
		if m.Spent != nil {
			returns[i].Spent = new(int(m.GetSpent()))
		}
		switch outcome := m.GetOutcome().(type) {
		case *stintv1.Return_Result:
			returns[i].Result = present(outcome.Result)
		case *stintv1.Return_ResultText:
			returns[i].Result = []byte(outcome.ResultText)
		}
	}
	return returns, nil
}

// FromAnswers returns answers as messages.
func FromAnswers(answers []stint.Answer) []*stintv1.Answer {
	messages := make([]*stintv1.Answer, len(answers))
	for i := range answers {
		a := &answers[i]
		messages[i] = &stintv1.Answer{
			Id: string(a.ID), Key: string(a.Key), Code: string(a.Code), Status: a.Status,
		}
		if a.Result != nil {
			messages[i].Outcome = &stintv1.Answer_Result{Result: a.Result}
		}
	}
	return messages
}

// ToAnswers undoes [FromAnswers].
func ToAnswers(messages []*stintv1.Answer) []stint.Answer {
	answers := make([]stint.Answer, len(messages))
	for i, m := range messages {
		answers[i] = stint.Answer{
			ID: stint.TaskID(m.GetId()), Key: stint.AnswerKey(m.GetKey()),
			Code: stint.StatusCode(m.GetCode()), Status: m.GetStatus(),
		}
		switch outcome := m.GetOutcome().(type) {
		case *stintv1.Answer_Result:
			answers[i].Result = present(outcome.Result)
		case *stintv1.Answer_ResultText:
			answers[i].Result = []byte(outcome.ResultText)
		}
	}
	return answers
}

// FromInputs returns inputs as messages. With text, results are text if they are UTF-8.
func FromInputs(inputs []stint.Input, text bool) []*stintv1.Input {
	messages := make([]*stintv1.Input, len(inputs))
	for i := range inputs {
		in := &inputs[i]
		messages[i] = &stintv1.Input{
			Id: string(in.ID), Action: in.Action, StatusCode: string(in.StatusCode),
			AbortCause: string(in.AbortCause), Status: in.Status,
		}
		switch {
		case in.Result == nil:
		case text && utf8.Valid(in.Result):
			messages[i].Outcome = &stintv1.Input_ResultText{ResultText: string(in.Result)}
		default:
			messages[i].Outcome = &stintv1.Input_Result{Result: in.Result}
		}
	}
	return messages
}

// ToInputs undoes [FromInputs].
func ToInputs(messages []*stintv1.Input) []stint.Input {
	inputs := make([]stint.Input, len(messages))
	for i, m := range messages {
		inputs[i] = stint.Input{
			ID: stint.TaskID(m.GetId()), Action: m.GetAction(),
			StatusCode: stint.StatusCode(m.GetStatusCode()),
			AbortCause: stint.AbortCause(m.GetAbortCause()), Status: m.GetStatus(),
		}
		switch outcome := m.GetOutcome().(type) {
		case *stintv1.Input_Result:
			inputs[i].Result = present(outcome.Result)
		case *stintv1.Input_ResultText:
			inputs[i].Result = []byte(outcome.ResultText)
		}
	}
	return inputs
}
