package main

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// taskID is an ID of 21 bytes. Those of successive numbers are in no order, as those of most
// applications are.
func taskID(n int) string {
	const golden = 0x9e3779b97f4a7c15
	return fmt.Sprintf("task-%016x", uint64(n+1)*golden) //nolint:gosec // It is not negative.
}

// bodies makes the bodies of tasks: text that does not compress, as the parameters of most tasks
// hardly do, and another one for each task, since a library may index it.
type bodies struct{ rest []byte }

func newBodies(length int) bodies {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // The same for every contender.
	text := make([]byte, length-len(taskID(0)))
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return bodies{text}
}

// of is the body of the task with a number.
func (b bodies) of(n int) []byte { return append([]byte(taskID(n)), b.rest...) }

// W9 has so many actions, of which the first few have 90 % of the tasks.
const (
	actionCount       = 40
	commonActionCount = 4
)

// mixedAction is the action of the task with a number in W9.
func mixedAction(n int) string {
	if n%10 != 0 {
		return actionName(n % commonActionCount)
	}
	return actionName(commonActionCount + n/10%(actionCount-commonActionCount))
}

// mixedActions are the actions of W9.
func mixedActions() []string {
	actions := make([]string, actionCount)
	for i := range actions {
		actions[i] = actionName(i)
	}
	return actions
}

func actionName(n int) string { return "action-" + strconv.Itoa(n) }

// mixedPriority is the priority of the task with a number in W9, from 0 to 3.
func mixedPriority(n int) int16 { return int16(n / 7 % 4) }
