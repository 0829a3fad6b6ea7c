package testrun

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// SomeTests returns the pattern for -test.run with which a test binary runs its tests again, or
// those that [Few] chooses of them.
func SomeTests(ctx context.Context, program string) (string, error) {
	output, err := exec.CommandContext(ctx, program, "-test.list", "^Test").Output()
	if err != nil {
		return "", fmt.Errorf("list tests: %w", err)
	}
	var names []string
	for _, line := range strings.Fields(string(output)) {
		if strings.HasPrefix(line, "Test") {
			names = append(names, line)
		}
	}
	return "^(" + strings.Join(Few(names), "|") + ")$", nil
}
