/* The verbs that change networks: inserts, deletions, replacements, retries. */

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
