// Command mutants makes faults in Stint on purpose, one at a time, and says which tests find each.
// A fault that no test finds shows what the tests do not prove.
//
//	go run ./mutants                        # all, in the directory chaos; takes hours
//	go run ./mutants -engine own            # those of one engine
//	go run ./mutants -name own-one-too-many # one
//	go run ./mutants -n 8                   # a sample, which the commit chooses
//	go run ./mutants -open                  # those that are open
//
// The files in list have the mutants, a file for each engine. A mutant is written as
//
//	mutant: own-one-too-many
//	wrong: A fetch hands out a task more than the caller wants.
//	file: sql/own/own_tasks.sql
//	test: ./test TestOwnTasks_NeverGivesMoreThanAsked
//	-    the lines that are taken out of the file
//	+    those that come in their place
//
// with lines of the file around them, if need be, behind a space: what remains is compared line by
// line, and must be in the file once. If it is there several times, a line "nth: 2" says which is
// meant. A line @@ begins another place of the same file.
//
// The line test names a package and tests in it, as few and as short as possible. If no test can
// find a mutant, a line equivalent says why in its place, so that nobody adds it again. A line open
// says that its tests have not found it yet, or were not run: it is left out unless it is named, or
// the flag asks for such mutants. Lines that begin with # are comments.
//
// The tree is not touched: the tests are built with -overlay, which files that are embedded obey,
// too; a variable names roles.sql, which nothing embeds, to the tests that read it. A mutant is
// found if one of its tests fails. It is stale if its lines are not in the file any more, which the
// tests of this package find out within milliseconds.
package main
