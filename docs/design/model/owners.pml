/* What owners do; a worker has tokens of several tasks. */

#define MINE(t) known[me * TASKS + (t)]
#define FETCHABLE(t) ((state[t] == READY || state[t] == LATE) \
  && (!passed[t] || MUTANT == overdue) && !EXTERNAL(t) && NEXT(t))
#define FETCHABLE_TOGETHER(t) (TOGETHER && FETCHABLE(t))
#define BARRED(t) (ORDERED && state[t] == READY && HELD && !HOLDS(t))
#define EXTENDABLE(t) (EXTENDS && HAS_TOKEN(t))
#define HAS_TOKEN(t) (MINE(t) != 0)
#define VALID(t) ((state[t] == OWNED || state[t] == LATE \
    || state[t] == READY && MUTANT == repeated) \
  && (claim[t] == MINE(t) || MUTANT == token))

/* The claim of a fetch. Claims are only compared, so one that no row has may come again. */
inline new_claim() {
  c = 1; u = 0;
  do
  :: u < TASKS && claim[u] == c -> c++; u = 0
  :: u < TASKS && claim[u] != c -> u++
  :: u == TASKS -> break
  od;
  u = 0
}

/* Nobody has the token of the next fetch. */
inline outdate(x) {
  w = 0;
  do
  :: w < WORKERS ->
     if :: known[w * TASKS + x] != 0 -> known[w * TASKS + x] = STALE :: else fi; w++
  :: else -> break
  od;
  w = 0
}

inline give(x) {
  assert(!passed[x]);
  assert(!ORDERED || HOLDS(x) || FIRST(x)); /* the first that waits for the key */
  move(x, OWNED);
  if
  :: MUTANT != old_claim || claim[x] == 0 -> outdate(x); claim[x] = c
  :: else
  fi;
  MINE(x) = claim[x];
  if :: MUTANT != uncounted -> tries[x]++ :: else fi;
  given[x]++;
  assert(given[x] <= TRIES);
  owner[x] = me + 1;
  if :: ORDERED -> slot = x + 1 :: else fi
}

/* The verb of an owner is accepted: that of the last one. An expiry is undone (R8). */
inline accept(x) {
  assert(owner[x] == me + 1);
  assert(!ENDED(x));
  if :: state[x] == LATE -> revive(x) :: else fi
}

/* A task that comes back late, or is extended apart, has another lease than the others. */
inline lease_apart(x) {
  u = 0;
  do
  :: u < TASKS ->
     if
     :: u != x && state[u] == OWNED && claim[u] == claim[x] && part[u] == part[x] ->
        part[x]++; u = 0
     :: else -> u++
     fi
  :: else -> break
  od;
  u = 0
}

inline give_back(x, to) { /* as pending, or unstarted, which refunds the try */
  if
  :: tries[x] >= TRIES && !(to == SAME) && MUTANT != endless -> finish(x, EXHAUSTED)
  :: else ->
     if
     :: to == SAME -> tries[x]--; given[x]--; move(x, READY)
     :: to == READY || to == SCHEDULED ->
        if :: MUTANT == refunded -> tries[x]-- :: else fi;
        move(x, to)
     fi;
     if :: MUTANT == let_go -> slot = 0 :: else fi;
     if :: MUTANT == signalled -> over[x] = COMPLETED :: else fi
  fi
}

proctype worker(byte me) {
  byte how;
  do
  :: atomic { CHOOSE(FETCHABLE); d_step { /* OwnTasks of one task */
       new_claim(); give(t) } commit!0 }
  :: atomic { CHOOSE(FETCHABLE_TOGETHER); d_step { /* of all that are ready, in one lease */
       new_claim(); t = 0;
       do
       :: t < TASKS -> if :: FETCHABLE(t) -> give(t) :: else fi; t++
       :: else -> break
       od;
       t = 0 } commit!0 }
  :: atomic { CHOOSE(BARRED); d_step { move(t, PARKED) } commit!0 } /* OwnTasks meets it */
  :: atomic { CHOOSE(HAS_TOKEN); /* ReturnTask */
       if
       :: how = COMPLETED
       :: RETURNS & ABORTED_TOO -> how = RETURNED
       :: how = READY
       :: RETURNS & TRIED_LATER -> how = SCHEDULED /* with RetryAfter */
       :: RETURNS & UNSTARTED -> how = SAME /* Release */
       fi;
       d_step {
         if
         :: VALID(t) ->
            accept(t);
            if
            :: ENDS(how) -> finish(t, how)
            :: else -> give_back(t, how)
            fi
         :: !VALID(t) && late[t] && claim[t] == MINE(t) && how == READY ->
            assert(owner[t] == me + 1); late[t] = false /* its last try expired: says why, once */
         :: else
         fi;
         if :: !REPEATS -> MINE(t) = 0 :: else fi; /* else the answer is lost, and it tries again */
         how = 0 } commit!0 }
  :: atomic { CHOOSE(EXTENDABLE); d_step { /* ExtendTasksOwnership of one task */
       if
       :: VALID(t) || MUTANT == extended && UNFINISHED(t) ->
          accept(t); lease_apart(t); due[t] = false
       :: else -> MINE(t) = 0
       fi } commit!0 }
  :: atomic { CHOOSE(HAS_TOKEN); MINE(t) = 0; t = 0 } /* dies, or has got the answer */
  :: QUIET -> break
  od
}
