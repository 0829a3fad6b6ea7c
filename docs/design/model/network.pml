/* What the end of a task does to others, and the verbs that change networks. Tasks wait only for
 * tasks with lower numbers, so there are no cycles, and one pass settles a cascade. */

/* An edge: 0 none, AFTER, or a condition with the ends that it accepts. */
#define AFTER 16
#define ON_COMPLETED 1
#define ON_ABORTED 2
#define ON_SKIPPED 4
#define EDGE(p, d) edge[(p) * TASKS + (d)]
#define SAID(p, d) said[(p) * TASKS + (d)]
byte edge[TASKS * TASKS];
byte said[TASKS * TASKS]; /* the end of which the predecessor has told the dependent */

byte missing[TASKS];  /* signals, of a blocked task */
byte failed[TASKS];   /* how many predecessors were aborted, as its owner is told */
byte over[TASKS];     /* how a task has ended in this step; 0 between steps */
byte verdict[TASKS];  /* what this step has told a task; 0 between steps */
bool past[TASKS];     /* a task that it waited for was replaced */
bool untimed[TASKS];  /* RetryTasks drops NotBefore */
byte opening;         /* the tasks that this step inserts or opens; 0 between steps */
byte p, d, e;         /* 0 between steps */

/* What over and said have for a task that left the store before it had ended. */
#define DELETED 16
#define REPLACED_TASK 17

#define TOLD 1
#define FALLS 2
#define SKIPS 4
#define STARTS 8
#define ORPHANED 16

#define BIT(t) (1 << (t))
#define OPENS(t) ((opening & BIT(t)) != 0)
#define ACCEPTS(e, end) ((e & ON_COMPLETED) && end == COMPLETED || (e & ON_SKIPPED) && end == SKIPPED \
  || (e & ON_ABORTED) && ABORTED(end))
/* An abort over this edge brings the dependent down. */
#define BRINGS_DOWN(e, d) (!RUNS_ANYWAY(d) && !WAITS_FOR_ANY(d) && (e == AFTER || !(e & ON_ABORTED)))

/* p tells d how it has ended. */
inline tell(x, y, end) {
  e = EDGE(x, y);
  assert(SAID(x, y) == 0);
  SAID(x, y) = end;
  missing[y]--;
  if :: ABORTED(end) -> failed[y]++ :: else fi;
  verdict[y] = verdict[y] | TOLD;
  if
  :: MUTANT == whatever -> skip
  :: MUTANT != whatever && WAITS_FOR_ANY(y) ->
     if :: ACCEPTS(e, end) || MUTANT == any_end -> verdict[y] = verdict[y] | STARTS :: else fi
  :: MUTANT != whatever && !WAITS_FOR_ANY(y) && ABORTED(end) && BRINGS_DOWN(e, y) ->
     verdict[y] = verdict[y] | FALLS
  :: MUTANT != whatever && !WAITS_FOR_ANY(y) && !(ABORTED(end) && BRINGS_DOWN(e, y)) ->
     if
     :: e == AFTER && end == SKIPPED && !RUNS_ANYWAY(y) && MUTANT != unskipped ||
        e != AFTER && !ACCEPTS(e, end) && MUTANT != unasked ->
        verdict[y] = verdict[y] | SKIPS
     :: else
     fi
  fi;
  e = 0
}

/* What the rows say, apart from counters and verdicts: bits of w. */
#define SOME_MISSING 1
#define SOME_MET 2
#define SOME_UNMET 4
#define SOME_ABORTED 8
#define IS_MET(e, end, d) (e == AFTER && (end == COMPLETED || RUNS_ANYWAY(d) && end < DELETED) \
  || e != AFTER && ACCEPTS(e, end))

inline look_back(x) {
  w = 0; u = 0;
  do
  :: u < x ->
     e = EDGE(u, x); c = SAID(u, x);
     if
     :: e != 0 && c == 0 -> w = w | SOME_MISSING
     :: e != 0 && c != 0 && IS_MET(e, c, x) -> w = w | SOME_MET
     :: e != 0 && c != 0 && !IS_MET(e, c, x) ->
        w = w | SOME_UNMET;
        if :: ABORTED(c) -> w = w | SOME_ABORTED :: else fi
     :: else
     fi;
     u++
  :: else -> break
  od;
  u = 0; c = 0; e = 0
}

/* Conditions hold at the step that decides. */
inline must_start(x) {
  look_back(x);
  assert(WAITS_FOR_ANY(x) && (w & SOME_MET) ||
    !WAITS_FOR_ANY(x) && !(w & (SOME_MISSING | SOME_UNMET)));
  w = 0
}

inline must_end(x, end) {
  look_back(x);
  assert(w & SOME_UNMET);
  assert(!WAITS_FOR_ANY(x) || !(w & (SOME_MET | SOME_MISSING)));
  assert(end == SKIPPED || (w & SOME_ABORTED) && !RUNS_ANYWAY(x));
  w = 0
}

/* A task that this step inserts or opens, and that ends at once, is as if it had been blocked. */
inline enter(x) {
  if :: OPENS(x) -> step(x, BLOCKED) :: else fi
}

inline place(x, to) {
  if :: OPENS(x) -> step(x, to) :: else -> move(x, to) fi
}

inline start(x) {
  must_start(x);
  if
  :: TIMED(x) && !untimed[x] -> place(x, SCHEDULED)
  :: !(TIMED(x) && !untimed[x]) && SPONTANEOUS(x) -> enter(x); finish(x, COMPLETED)
  :: else -> place(x, READY)
  fi
}

inline fall(x, end) {
  enter(x);
  must_end(x, end);
  finish(x, end)
}

inline none_met(x) {
  if
  :: failed[x] > 0 && !RUNS_ANYWAY(x) -> fall(x, DEPENDENCY)
  :: else -> fall(x, SKIPPED)
  fi
}

/* Nothing is missing. If all its predecessors were deleted before they ended, it goes, too. */
inline go_on(x) {
  look_back(x);
  if
  :: (verdict[x] & ORPHANED) && w == 0 && !past[x] -> move(x, GONE); over[x] = DELETED
  :: else -> start(x)
  fi;
  w = 0
}

inline decide(x) {
  if
  :: verdict[x] == 0 || state[x] != BLOCKED && !OPENS(x) -> skip
  :: else ->
     if
     :: verdict[x] & FALLS -> fall(x, DEPENDENCY)
     :: !(verdict[x] & FALLS) && (verdict[x] & SKIPS) -> fall(x, SKIPPED)
     :: !(verdict[x] & (FALLS | SKIPS)) && (verdict[x] & STARTS) -> start(x)
     :: !(verdict[x] & (FALLS | SKIPS | STARTS)) && missing[x] == 0 ->
        if
        :: WAITS_FOR_ANY(x) -> none_met(x)
        :: else -> go_on(x)
        fi
     :: else -> enter(x) /* it waits */
     fi
  fi;
  verdict[x] = 0;
  opening = opening & ~BIT(x)
}

inline cut(x, y) { EDGE(x, y) = 0; SAID(x, y) = 0 }

/* p, which ended in this step, tells d. A task that was deleted or replaced before it ended takes
 * its ordinary edges along. */
inline signal(x, y) {
  if
  :: state[y] == BLOCKED || OPENS(y) -> tell(x, y, over[x])
  :: else -> SAID(x, y) = over[x]
  fi;
  if
  :: over[x] >= DELETED && EDGE(x, y) == AFTER ->
     cut(x, y);
     if :: over[x] == DELETED -> verdict[y] = verdict[y] | ORPHANED :: else -> past[y] = true fi
  :: else
  fi
}

inline settle() {
  p = 0;
  do
  :: p < TASKS ->
     decide(p);
     if
     :: over[p] != 0 ->
        d = p + 1;
        do
        :: d < TASKS -> if :: EDGE(p, d) != 0 -> signal(p, d) :: else fi; d++
        :: else -> break
        od;
        if :: over[p] >= DELETED -> forget(p) :: else fi;
        over[p] = 0
     :: else
     fi;
     p++
  :: else -> break
  od;
  p = 0; d = 0
}

/* --- verbs ----------------------------------------------------------------------------------- */

/* The task is as new. */
inline renew(x) {
  tries[x] = 0; claim[x] = 0; late[x] = false; owner[x] = 0; given[x] = 0;
  missing[x] = 0; failed[x] = 0; verdict[x] = TOLD;
  opening = opening | BIT(x)
}

/* The task has left the store, and with it the edges into it. */
inline forget(x) {
  renew(x); verdict[x] = 0; opening = opening & ~BIT(x);
  passed[x] = false; past[x] = false; untimed[x] = false;
  u = 0;
  do
  :: u < x -> cut(u, x); u++
  :: else -> break
  od;
  u = 0
}

/* A task that has ended leaves the store: edges to others that have ended go, too. */
inline erase(x) {
  step(x, GONE);
  forget(x);
  d = x + 1;
  do
  :: d < TASKS -> if :: !UNFINISHED(d) && EDGE(x, d) == AFTER -> cut(x, d) :: else fi; d++
  :: else -> break
  od;
  d = 0
}

inline delete(x) {
  assert(state[x] != OWNED);
  if
  :: ENDED(x) -> erase(x)
  :: else -> move(x, GONE); over[x] = DELETED
  fi;
  if :: MUTANT == unsettled -> over[x] = 0 :: else fi
}

/* The edge counts from now on; a predecessor that has ended tells at once. */
inline depend(x, y, kind) {
  EDGE(x, y) = kind; SAID(x, y) = 0; missing[y]++;
  if :: ENDED(x) && !OPENS(x) && MUTANT != unheard -> tell(x, y, state[x]) :: else fi
}

#define PRESENT(t) (!(LINK(0, t) && state[0] == GONE) \
  && !(LINK(1 % TASKS, t) && state[1 % TASKS] == GONE) \
  && !(LINK(2 % TASKS, t) && state[2 % TASKS] == GONE))

inline insert(x) {
  if
  :: PRESENT(x) ->
     renew(x);
     p = 0;
     do
     :: p < x -> if :: LINK(p, x) -> depend(p, x, LINK(p, x)) :: else fi; p++
     :: else -> break
     od;
     p = 0
  :: else /* ErrTaskNotFound */
  fi
}

/* The old task ends, and its edges go without a signal; one with its ID takes its place. */
inline replace(x) {
  if
  :: UNFINISHED(x) -> move(x, REPLACED); over[x] = REPLACED_TASK
  :: else ->
     d = x + 1;
     do
     :: d < TASKS -> if :: EDGE(x, d) != 0 -> cut(x, d); past[d] = true :: else fi; d++
     :: else -> break
     od;
     d = 0
  fi;
  step(x, GONE);
  forget(x);
  settle();
  insert(x)
}

inline add_dependency() {
  if :: state[LATER] != BLOCKED -> move(LATER, BLOCKED) :: else fi;
  EDGE(EARLIER, LATER) = AFTER; missing[LATER]++
}

#define MAY_ADD (UNFINISHED(EARLIER) || MUTANT == added && ENDED(EARLIER)) \
  && UNFINISHED(LATER) && (!STARTED(LATER) || MUTANT == started) && EDGE(EARLIER, LATER) == 0

/* The tasks that end because of those that are opened are opened, too, unless another one that was
 * aborted keeps them aborted. */
inline find_opening(x) {
  opening = BIT(x);
  d = x + 1;
  do
  :: d < TASKS ->
     p = x;
     do
     :: p < d ->
        if
        :: EDGE(p, d) != 0 && OPENS(p) && (state[d] == SKIPPED ||
           state[d] == DEPENDENCY && ABORTED(state[p])) -> opening = opening | BIT(d)
        :: else
        fi;
        p++
     :: else -> break
     od;
     d++
  :: else -> break
  od;
  d = x;
  do
  :: d < TASKS ->
     p = 0;
     do
     :: p < d ->
        if
        :: EDGE(p, d) != 0 && BRINGS_DOWN(EDGE(p, d), d) && ABORTED(state[p]) && !OPENS(p) ->
           opening = opening & ~BIT(d)
        :: else
        fi;
        p++
     :: else -> break
     od;
     d++
  :: else -> break
  od;
  p = 0; d = 0
}

/* What d, which is opened, is told by p again. */
inline ask_again(x, y) {
  if
  :: OPENS(x) || state[x] != GONE -> depend(x, y, EDGE(x, y))
  :: state[x] == GONE && EDGE(x, y) == AFTER -> cut(x, y)
  :: state[x] == GONE && EDGE(x, y) != AFTER -> /* as it was decided */
     c = SAID(x, y); SAID(x, y) = 0; missing[y]++;
     tell(x, y, c); c = 0
  fi
}

/* p is opened, and d is not. */
inline take_back(x, y) {
  if
  :: state[y] == COMPLETED || STARTED(y) && !ENDED(y) || WAITS_FOR_ANY(y) && TO_START(y) ->
     if :: MUTANT != kept_edge -> cut(x, y) :: else fi
  :: (state[y] == BLOCKED || TO_START(y) && !WAITS_FOR_ANY(y)) && SAID(x, y) != 0 &&
     MUTANT != kept_signal ->
     if :: ABORTED(SAID(x, y)) && MUTANT != miscounted -> failed[y]-- :: else fi;
     SAID(x, y) = 0; missing[y]++;
     if :: state[y] != BLOCKED -> move(y, BLOCKED) :: else fi
  :: else
  fi
}

inline retry(x) {
  find_opening(x);
  if :: !OPENS(x) -> opening = 0 /* ErrPredecessorAborted */ :: else fi;
  d = 0;
  do
  :: d < TASKS ->
     if :: OPENS(d) -> renew(d); untimed[d] = true :: else fi;
     p = 0;
     do
     :: p < d ->
        if
        :: EDGE(p, d) != 0 && OPENS(d) -> ask_again(p, d)
        :: EDGE(p, d) != 0 && !OPENS(d) && OPENS(p) -> take_back(p, d)
        :: else
        fi;
        p++
     :: else -> break
     od;
     d++
  :: else -> break
  od;
  p = 0; d = 0
}

/* --- what holds between steps ---------------------------------------------------------------- */

inline check_edges(x) {
  look_back(x);
  if
  :: state[x] == BLOCKED ->
     assert(w & SOME_MISSING);
     assert(!(w & SOME_UNMET) || WAITS_FOR_ANY(x));
     assert(!(w & SOME_MET) || !WAITS_FOR_ANY(x))
  :: state[x] != BLOCKED && UNFINISHED(x) && !WAITS_FOR_ANY(x) ->
     assert(!(w & (SOME_MISSING | SOME_UNMET))) /* not started before its predecessors ended */
  :: else
  fi;
  w = 0; c = 0; u = 0;
  do
  :: u < x && UNFINISHED(x) ->
     if
     :: EDGE(u, x) != 0 ->
        assert(SAID(u, x) == 0 -> UNFINISHED(u) :
          state[u] == SAID(u, x) || state[u] == GONE); /* no wait for what has ended */
        if
        :: SAID(u, x) == 0 -> w++
        :: else -> if :: ABORTED(SAID(u, x)) -> c++ :: else fi
        fi
     :: else
     fi;
     u++
  :: else -> break
  od;
  assert(state[x] != BLOCKED || missing[x] == w);
  assert(state[x] != BLOCKED || tries[x] != 0 || failed[x] == c);
  w = 0; c = 0; u = 0
}

inline check() {
  d = 0; e = 0;
  do
  :: d < TASKS ->
     check_edges(d);
     assert(tries[d] <= TRIES);
     if :: ORDERED && owner[d] != 0 && UNFINISHED(d) -> e++ :: else fi;
     p = 1; /* no two have the token of the last fetch */
     do
     :: p < WORKERS -> assert(known[d] != claim[d] || known[d] != known[p * TASKS + d] || claim[d] == 0); p++
     :: else -> break
     od;
     d++
  :: else -> break
  od;
  assert(e <= 1); /* that have begun, of one key */
  p = 0; d = 0; e = 0
}
