// Package interleave has tests that run two verbs on the same tasks at once, in every order in
// which their statements can come, and compare what comes of it with what comes of one after the
// other: the state of the tasks, and the answers.
//
// A proxy stops each session ahead of each statement, also amid a batch. Where one waits
// for a lock of the other, the other one goes on. Of orders that differ only in statements that
// cannot notice one another, one is tried. Of a pair that has thousands of orders, some are tried,
// chosen at random. What others commit in the middle of a statement that waits for no lock, these
// tests do not see.
//
// A new verb is a line in the table verbs, a new situation one in fixtures.
package interleave
