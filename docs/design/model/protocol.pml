/* The protocol of Stint: who may do what to a task, and what follows for others (README.md).
 *
 * Each verb is one transaction, so one atomic step. What is not atomic is what somebody knows
 * against what the rows say: the token of an owner, the lease that a maintainer saw expired, the
 * message that wakes a caller. Time only passes: any lease may expire, any deadline come.
 */
#include "configurations.pml"

/* The states, with the words of lifecycle.md. */
#define GONE 0        /* state: gone */
#define BLOCKED 1     /* state: blocked */
#define SCHEDULED 2   /* state: scheduled */
#define READY 3       /* state: ready */
#define PARKED 4      /* state: ready, parked */
#define LATE 5        /* state: ready, late */
#define OWNED 6       /* state: in progress */
#define SAME 7        /* state: in progress, same owner */
#define COMPLETED 8   /* state: completed */
#define SKIPPED 9     /* state: skipped */
#define RETURNED 10   /* state: aborted (returned) */
#define EXHAUSTED 11  /* state: aborted (tries) */
#define DEPENDENCY 12 /* state: aborted (dependency) */
#define EXPIRED 13    /* state: aborted (expired) */
#define CANCELLED 14  /* state: aborted (cancelled) */
#define REPLACED 15   /* state: aborted (replaced) */

#define ENDED(t) (state[t] >= COMPLETED)
#define ABORTED(end) (end >= RETURNED && end <= REPLACED)
#define STARTED(t) (state[t] >= LATE)
#define UNFINISHED(t) (state[t] != GONE && !ENDED(t))
#define ENDS(how) (how >= COMPLETED)
#define TO_START(t) (state[t] == SCHEDULED || state[t] == READY || state[t] == PARKED)

#define AWAITED (TASKS - 1) /* the task that callers wait for */

byte state[TASKS];
byte tries[TASKS];
byte claim[TASKS];   /* of the last fetch; 0: none */
bool late[TASKS];    /* ended by the expiry of its last try, and its owner may still say why */
bool passed[TASKS];  /* its Deadline */
byte part[TASKS];    /* tasks in progress with one claim and part share a lease */
bool due[TASKS];     /* their lease has expired */
byte slot;           /* in strict order: the task, plus one, that was the last to hold the key */
byte known[WORKERS * TASKS]; /* the token that a worker has for a task */
byte inserted;       /* how many of the tasks operators have inserted */
byte budget = BUDGET;/* how many changes operators may yet make */
bool quiet;          /* operators are through */
bool topic, news, woken; /* a caller waits for the last task; a message is due; it has arrived */

/* What nobody keeps, for what must hold. */
byte owner[TASKS];   /* the worker, plus one, that the task was last given to */
byte given[TASKS];   /* how often it was given, less what was given back unstarted */

byte t, u, w, c;     /* of the step that is being made; 0 between steps */

#define QUIET (quiet && OVER(0) && OVER(1 % TASKS) && OVER(2 % TASKS) && OVER(3 % TASKS))
#define OVER(t) (state[t] == GONE || ENDED(t))

/* Chooses a task for which `may` holds; the step cannot be made if there is none. */
#define CHOOSE(may) if :: may(0) -> t = 0 :: TASKS > 1 && may(1 % TASKS) -> t = 1 \
  :: TASKS > 2 && may(2 % TASKS) -> t = 2 :: TASKS > 3 && may(3 % TASKS) -> t = 3 fi

#include "moves.pml"
#include "network.pml"
#include "changes.pml"
#include "rules.pml"

/* --- strict order: tasks of one key, the oldest first -------------------------------------- */

#define HOLDS(t) (slot == (t) + 1 && UNFINISHED(t))
#define HELD (slot != 0 && UNFINISHED(slot - 1))
#define WAITS(u) (state[u] == READY || state[u] == PARKED || state[u] == LATE)
#define FIRST(t) (!((t) > 0 && WAITS(0)) && !((t) > 1 && WAITS(1 % TASKS)) \
  && !((t) > 2 && WAITS(2 % TASKS)))
#define NEXT(t) (!ORDERED || HOLDS(t) || !HELD && (FIRST(t) || MUTANT == overtaken))

/* Brings the first parked task back if nothing holds the key. */
inline unpark() {
  if
  :: ORDERED && !HELD && MUTANT != unparked ->
     u = 0;
     do
     :: u < TASKS && state[u] == PARKED -> move(u, READY); break
     :: u < TASKS && state[u] != PARKED -> u++
     :: u == TASKS -> break
     od;
     u = 0
  :: else
  fi
}

/* A token that is not that of the last fetch can never become it again: all of these are one. */
#define STALE 255
inline compare_tokens() {
  u = 0;
  do
  :: u < TASKS * WORKERS ->
     if :: known[u] != 0 && known[u] != claim[u % TASKS] -> known[u] = STALE :: else fi;
     u++
  :: else -> break
  od;
  u = 0
}

/* The end of each verb, in the same step: control goes from the caller to the store. */
chan commit = [0] of { bit };
proctype store() {
end:
  do
  :: atomic { commit?_ -> d_step {
       settle(); unpark(); compare_tokens(); check(); t = 0; c = 0 } }
  od
}

#include "owners.pml"

/* --- time, and those who maintain ------------------------------------------------------------ */

#define MAY_EXPIRE(t) (state[t] == OWNED && !due[t])
#define MAY_PASS(t) (DEADLINES && UNFINISHED(t) && !passed[t])
#define HAS_COME(t) (state[t] == SCHEDULED)

proctype clock() {
  do
  :: atomic { CHOOSE(MAY_EXPIRE); d_step { /* also: the process of the actor is gone */
       u = 0;
       do
       :: u < TASKS ->
          if
          :: state[u] == OWNED && claim[u] == claim[t] && part[u] == part[t] -> due[u] = true
          :: else
          fi;
          u++
       :: else -> break
       od;
       u = 0; t = 0 } }
  :: atomic { CHOOSE(MAY_PASS); passed[t] = true; t = 0 }
  :: atomic { CHOOSE(HAS_COME); d_step { promote(t) } commit!0 }
  :: QUIET -> break
  od
}

#define IS_DUE(t) (state[t] == OWNED && due[t])
#define IS_NEWS(t) (saw == 0 && IS_DUE(t))
#define IS_OVERDUE(t) (UNFINISHED(t) && passed[t])
#define WAITED(t, d) ((d) > (t) && EDGE(t, d) != 0 && state[d] != GONE && state[d] != COMPLETED)
#define AWAITED_BY_SOME(t) (WAITED(t, 1 % TASKS) || WAITED(t, 2 % TASKS) || WAITED(t, 3 % TASKS))
#define MAY_LEAVE(t) (PRUNES && ENDED(t) && (!AWAITED_BY_SOME(t) || MUTANT == pruned))

/* Takes back what a lease still holds: of the tasks with tries left. */
inline reclaim(x) {
  c = part[x]; u = 0;
  do
  :: u < TASKS ->
     if
     :: (state[u] == OWNED && part[u] == c || MUTANT == cut_lease && u != x) && claim[u] == seen &&
        (tries[u] < TRIES || MUTANT == forever) ->
        assert(due[u]);
        move(u, LATE)
     :: else
     fi;
     u++
  :: else -> break
  od;
  u = 0; c = 0
}

/* What it has seen may be over when it acts: several maintain. */
proctype maintainer() {
  byte saw, seen;
  do
  :: atomic { CHOOSE(IS_NEWS); saw = t + 1; seen = claim[t]; t = 0 }
  :: atomic { saw != 0 -> d_step {
       t = saw - 1;
       if
       :: state[t] == OWNED && claim[t] == seen && due[t] ||
          MUTANT == stale && state[t] == OWNED ->
          if
          :: tries[t] < TRIES || MUTANT == forever -> seen = claim[t]; reclaim(t)
          :: tries[t] >= TRIES && MUTANT == left_alone -> skip
          :: else -> assert(due[t]); finish(t, EXHAUSTED); late[t] = true;
             if :: MUTANT == unsettled -> over[t] = 0 :: else fi
          fi
       :: else
       fi; saw = 0; seen = 0 } commit!0 }
  :: atomic { CHOOSE(IS_OVERDUE); d_step { finish(t, EXPIRED) } commit!0 }
  :: atomic { CHOOSE(MAY_LEAVE); d_step { erase(t) } commit!0 } /* pruned */
  :: QUIET -> break
  od
}

#include "others.pml"

init {
  atomic {
    run store(); run operators(); run clock();
    for (u : 1 .. WORKERS) { run worker(u - 1) }
    for (u : 1 .. MAINTAINERS) { run maintainer() }
    u = 0;
    if :: CALLERS -> run caller(); run notifier() :: else fi
  }
}

#ifdef LIVE
ltl every_task_ends { <> (inserted == TASKS && OVER(0) && OVER(1)) }
#endif

/* Moves of the table that are not here:
 *
 * not modelled: in progress -> aborted (lost): as aborted (tries), by the number of expiries
 * not modelled: in progress -> gone: with KeepNone a task goes as it ends, and nothing else differs
 */
