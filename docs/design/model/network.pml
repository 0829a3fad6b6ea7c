/* What the end of a task does to others. Tasks wait only for tasks with lower numbers, so there are
 * no cycles, and one pass settles a cascade. */

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
#define ACCEPTS(e, end) ((e & ON_COMPLETED) && end == COMPLETED \
  || (e & ON_SKIPPED) && end == SKIPPED || (e & ON_ABORTED) && ABORTED(end))
/* An abort over this edge brings the dependent down. */
#define BRINGS_DOWN(e, d) (!RUNS_ANYWAY(d) && !WAITS_FOR_ANY(d) \
  && (e == AFTER || !(e & ON_ABORTED)))

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
