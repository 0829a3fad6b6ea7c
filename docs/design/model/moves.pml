/* How a task changes its state. Each change is recorded, in the verifier's own memory and not in
 * the states that it compares, and printed at the end: the test compares what was found with the
 * table of lifecycle.md. */

c_code {
  static unsigned char moved[17][17];
  __attribute__((destructor)) static void print_moves(void) {
    for (int from = 0; from < 17; from++)
      for (int to = 0; to < 17; to++)
        if (moved[from][to]) printf("move %d %d\n", from, to);
  }
};

hidden byte step_from, step_to;

/* Any change; only what may take a task out of its end calls it directly. */
inline step(x, to) {
  step_from = state[x]; step_to = to;
  c_code { moved[step_from][step_to] = 1; };
  state[x] = to;
  due[x] = false;
  part[x] = 0;
  if :: to < LATE && !REPEATS -> claim[x] = 0 :: else fi
}

/* An end is final. */
inline move(x, to) {
  assert(!ENDED(x));
  step(x, to)
}

inline finish(x, end) {
  move(x, end);
  over[x] = end;
  news = news || CALLERS && x == AWAITED
}

/* The late owner has its task back; the lease counts as expired until it is extended. */
inline revive(x) {
  move(x, SAME);
  state[x] = OWNED;
  lease_apart(x);
  due[x] = true
}

inline promote(x) {
  if
  :: SPONTANEOUS(x) -> finish(x, COMPLETED)
  :: else -> move(x, READY)
  fi
}
