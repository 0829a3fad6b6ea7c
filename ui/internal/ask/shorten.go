package ask

import (
	"strings"

	"github.com/stint-tasks/stint"
	"github.com/stint-tasks/stint/ui/internal/show"
)

// shorten leaves the first words of what owners said, which may be 64 KiB of each task.
func shorten(tasks []stint.TaskInfo) {
	for i := range tasks {
		tasks[i].Status = strings.Clone(show.FirstWords(tasks[i].Status))
	}
}

// tail is the end of what an owner said, which is where errors are.
func tail(text string) string {
	const bytesMax = 4 << 10
	text = strings.TrimSpace(text)
	if len(text) <= bytesMax {
		return text
	}
	return "…" + strings.ToValidUTF8(strings.Clone(text[len(text)-bytesMax:]), "")
}
