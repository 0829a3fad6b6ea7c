package taskstore

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stint-tasks/stint/taskstore/internal/wire"
)

// The document of the service has the numbers of its limits.
func TestHandler_SaysItsLimits(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("http.go")
	if err != nil {
		t.Fatal(err)
	}
	document, _, _ := strings.Cut(string(text), "func Handler(")
	for _, limit := range []int64{
		tasksMax, dataBytesMax, requestBytesMax, groupBytesMax, timeMax, -timeMax,
		durationMax.Milliseconds(), wire.BodyBytesMax, answerBytesMax, 1<<63 - 1,
	} {
		if !strings.Contains(document, strconv.FormatInt(limit, 10)) {
			t.Errorf("the document of Handler lacks the limit %d", limit)
		}
	}
}
