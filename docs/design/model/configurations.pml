/* The sizes and networks that are explored, each small, and what may happen in each. A run names
 * one by -DCONFIGURATION, and a fault by -DMUTANT=name. */

/* The faults; each stands where the model asks for it. */
mtype:mutant = { none, token, repeated, extended, old_claim, uncounted, endless, refunded, let_go,
  signalled, overtaken, unparked, overdue, forever, cut_lease, stale, unsettled, again, snatched,
  deaf, hasty, whatever, any_end, unskipped, unasked, unheard, added, started, kept_edge,
  kept_signal, miscounted, pruned, left_alone };
#ifndef MUTANT
#define MUTANT none
#endif

/* Verbs of operators, which make BUDGET changes in all. -DLARGE allows one more. */
#ifdef LARGE
#define MORE 1
#else
#define MORE 0
#endif
#define ABORT 1
#define DELETE 2
#define RETRY 4
#define CHANGE 8
#define ADD 16
#define REPLACE 32

/* Returns besides those as completed, and as pending at once. */
#define ABORTED_TOO 1
#define TRIED_LATER 2
#define UNSTARTED 4

#ifdef TOKENS /* one task, of which two workers have tokens */
#define TASKS 1
#define VERBS (ABORT | RETRY | DELETE | REPLACE | CHANGE)
#define MAINTAINERS 2
#define DEADLINES true
#define RETURNS (ABORTED_TOO | TRIED_LATER | UNSTARTED)
#define REPEATS true
#define EXTENDS true
#define TIMED(t) true
#endif

#ifdef SPAN /* two tasks of one lease; 1 may be made to wait for 0 */
#define TASKS 2
#define WORKERS 1
#define MAINTAINERS 2
#define TOGETHER true
#define EXTENDS true
#define VERBS ADD
#define EARLIER 0
#define LATER 1
#endif

#ifdef CHAIN /* 0 -> 1 -> 2; 2 runs anyway */
#define WORKERS 1
#define TRIES 1
#define RETURNS ABORTED_TOO
#define TASKS 3
#define LINK(p, d) ((d) == (p) + 1 -> AFTER : 0)
#define RUNS_ANYWAY(t) ((t) == 2)
#define VERBS (ABORT | DELETE | ADD | REPLACE)
#define EARLIER 0
#define LATER 2
#endif

#ifdef CONDITIONS /* 2 when 0 completed and 1 was aborted, or 0 was; 3 after 2 */
#define WORKERS 1
#define TRIES 1
#define RETURNS ABORTED_TOO
#define TASKS 4
#define LINK(p, d) ((d) == 2 && (p) == 0 -> ON_COMPLETED : ((d) == 2 && (p) == 1 -> \
  ON_ABORTED | ON_SKIPPED : ((d) == 3 && (p) == 2 -> AFTER : 0)))
#define VERBS (ABORT | DELETE | RETRY)
#endif

#ifdef ANY /* 2 when the first of 0 and 1 has completed */
#define TASKS 3
#define WORKERS 1
#define TRIES 1
#define RETURNS ABORTED_TOO
#define LINK(p, d) ((d) == 2 && (p) < 2 -> ON_COMPLETED : 0)
#define WAITS_FOR_ANY(t) ((t) == 2)
#define VERBS (ABORT | DELETE | RETRY)
#endif

#ifdef JOIN /* 0 is external, 1 spontaneous with a NotBefore, 2 spontaneous, 3 runs anyway */
#define WORKERS 1
#define TRIES 1
#define TASKS 4
#define LINK(p, d) ((d) == (p) + 1 -> AFTER : 0)
#define EXTERNAL(t) ((t) == 0)
#define SPONTANEOUS(t) ((t) == 1 || (t) == 2)
#define TIMED(t) ((t) == 1)
#define RUNS_ANYWAY(t) ((t) == 3)
#define VERBS (ABORT | DELETE | RETRY)
#define DEADLINES true
#endif

#ifdef RETRIES /* 2 after 0 and 1 */
#define TASKS 3
#define WORKERS 1
#define TRIES 1
#define RETURNS ABORTED_TOO
#define LINK(p, d) ((d) == 2 && (p) < 2 -> AFTER : 0)
#define VERBS RETRY
#define BUDGET (2 + MORE)
#define PRUNES true
#endif

#ifdef STRICT_ORDER /* three tasks of one key */
#define TASKS 3
#define WORKERS 1
#define ORDERED true
#define RETURNS TRIED_LATER
#define VERBS (ABORT | RETRY)
#endif

#ifdef WAITING /* for the end of a task */
#define TASKS 1
#define WORKERS 1
#define CALLERS true
#define VERBS (ABORT | RETRY)
#define BUDGET (2 + MORE)
#endif

#ifdef LIVE /* 1 after 0, under weak fairness */
#define TASKS 2
#define WORKERS 1
#define RETURNS (ABORTED_TOO | TRIED_LATER)
#define LINK(p, d) ((p) < (d) -> AFTER : 0)
#endif

#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef MAINTAINERS
#define MAINTAINERS 1
#endif
#ifndef TRIES
#define TRIES 2
#endif
#ifndef BUDGET
#define BUDGET (1 + MORE)
#endif
#ifndef VERBS
#define VERBS 0
#endif
#ifndef LINK
#define LINK(p, d) 0
#endif
#ifndef RUNS_ANYWAY
#define RUNS_ANYWAY(t) false
#endif
#ifndef WAITS_FOR_ANY
#define WAITS_FOR_ANY(t) false
#endif
#ifndef TIMED
#define TIMED(t) false
#endif
#ifndef SPONTANEOUS
#define SPONTANEOUS(t) false
#endif
#ifndef EXTERNAL
#define EXTERNAL(t) false
#endif
#ifndef EARLIER
#define EARLIER 0
#define LATER 0
#endif
#ifndef DEADLINES
#define DEADLINES false
#endif
#ifndef PRUNES
#define PRUNES false
#endif
#ifndef RETURNS
#define RETURNS 0
#endif
#ifndef REPEATS
#define REPEATS false
#endif
#ifndef EXTENDS
#define EXTENDS false
#endif
#ifndef TOGETHER
#define TOGETHER false
#endif
#ifndef ORDERED
#define ORDERED false
#endif
#ifndef CALLERS
#define CALLERS false
#endif
