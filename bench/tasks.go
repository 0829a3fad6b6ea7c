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
	return fmt.Sprintf("task-%016x", uint64(n+1)*golden)
}

// body is text of a length that does not compress, as the parameters of most tasks hardly do.
func body(length int) []byte {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // The same for every contender.
	text := make([]byte, length)
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return text
}

// actionCount is how many actions W9 has.
const actionCount = 40

// mixedAction is the action of the task with a number in W9: four actions have 90 % of the tasks.
func mixedAction(n int) string {
	if n%10 != 0 {
		return "action-" + strconv.Itoa(n%4)
	}
	return "action-" + strconv.Itoa(4+n/10%(actionCount-4))
}

// mixedPriority is the priority of the task with a number in W9, from 0 to 3.
func mixedPriority(n int) int { return n / 7 % 4 }
