package wire

import (
	"unicode/utf8"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/api/stintv1"
)

// A stepResult is a message with the result of a step.
type stepResult interface {
	GetResult() []byte
	GetResultText() string
}

// ToStepResult returns the result that a message has as bytes or as text.
func ToStepResult(m stepResult) []byte {
	if text := m.GetResultText(); text != "" {
		return []byte(text)
	}
	return m.GetResult()
}

// FromStepResult returns the result of a step as a message. With text, it is text if it is UTF-8.
func FromStepResult(result []byte, text bool) *stintv1.RecordStepResponse {
	if text && utf8.Valid(result) {
		return &stintv1.RecordStepResponse{
			Outcome: &stintv1.RecordStepResponse_ResultText{ResultText: string(result)},
		}
	}
	return &stintv1.RecordStepResponse{Outcome: &stintv1.RecordStepResponse_Result{Result: result}}
}

// FromSteps returns steps as messages. With text, results are text if they are UTF-8.
func FromSteps(steps []stint.RecordedStep, text bool) []*stintv1.RecordedStep {
	messages := make([]*stintv1.RecordedStep, len(steps))
	for i := range steps {
		recorded := &steps[i]
		message := &stintv1.RecordedStep{
			Name: recorded.Name, RecordedAt: fromTime(recorded.RecordedAt),
			Ago: FromDuration(recorded.Ago),
		}
		if text && utf8.Valid(recorded.Result) {
			message.Outcome = &stintv1.RecordedStep_ResultText{ResultText: string(recorded.Result)}
		} else {
			message.Outcome = &stintv1.RecordedStep_Result{Result: recorded.Result}
		}
		messages[i] = message
	}
	return messages
}

// ToSteps undoes [FromSteps].
func ToSteps(messages []*stintv1.RecordedStep) []stint.RecordedStep {
	steps := make([]stint.RecordedStep, len(messages))
	for i, m := range messages {
		steps[i] = stint.RecordedStep{
			Name: m.GetName(), Result: present(ToStepResult(m)),
			RecordedAt: m.GetRecordedAt().AsTime(), Ago: m.GetAgo().AsDuration(),
		}
	}
	return steps
}

// FromStepInfos returns the steps of an explanation as messages.
func FromStepInfos(steps []stint.StepInfo) []*stintv1.StepInfo {
	messages := make([]*stintv1.StepInfo, len(steps))
	for i, recorded := range steps {
		messages[i] = &stintv1.StepInfo{
			Name: recorded.Name, RecordedAt: fromTime(recorded.RecordedAt),
			Bytes: int64(recorded.Bytes),
		}
	}
	return messages
}

// ToStepInfos undoes [FromStepInfos].
func ToStepInfos(messages []*stintv1.StepInfo) []stint.StepInfo {
	var steps []stint.StepInfo
	for _, m := range messages {
		steps = append(steps, stint.StepInfo{
			Name: m.GetName(), RecordedAt: m.GetRecordedAt().AsTime(), Bytes: int(m.GetBytes()),
		})
	}
	return steps
}
