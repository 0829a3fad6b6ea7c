// The verbs of the service.

import {
  Connection, repeat, type Attempt, type CallOptions, type ClientOptions,
} from "./connection.ts";
import {
  ClaimSpent, InvalidArgument, TimeoutError, Unavailable, newError, nothingHandedOut,
  type StintError,
} from "./errors.ts";
import * as f from "./fields.ts";
import * as m from "./messages.ts";
import { monotonic, pause, randomBits } from "./platform.ts";
import { show, type Presence, type Watcher } from "./presence.ts";
import type * as t from "./tasks.ts";

// For how many seconds a call waits at the service at most; proxies cut off what is silent for
// longer.
const poll = 20;
// How long a change may take: of limits, which waits for transactions that fetch tasks, and of
// tasks, of which one may bring many others with it.
const changing = 3600;
// How many tasks a page of a list has at most.
const page = 1000;
// For how long a claim is released if the service does not answer: for about as long as it bars it.
const releaseFor = 60;
// How long close waits for claims to be released.
const closeFor = 5;

const stepFields: f.Fields = { name: f.text, result: f.content("result", "result_text") };

/** How abort, retry, change and delete are called. */
export interface ChangeOptions extends CallOptions {
  /** Only say what the call would do: the service does the work in a transaction, and undoes it. */
  dryRun?: boolean;
}

/** How own asks for tasks. */
export interface OwnOptions extends CallOptions {
  /** Default: 1. */
  maxTasks?: number;
  /** Default: 30 s. */
  lease?: f.Duration;
  /** For how long to wait for tasks if there are none. Default: 0, with which it looks once. */
  wait?: f.Duration;
  /** In the place of the client's: it is for Worker. */
  fetch?: typeof fetch;
}

/**
 * The verbs of a service.
 *
 * A call whose answer is lost is repeated for ten seconds, so that it takes effect once; then it
 * throws Unavailable. Verbs that are not repeated say so. Durations are in seconds.
 *
 * With a token, an http address must be localhost or an address of this machine such as 127.0.0.1
 * or [::1]: anybody on the way elsewhere could read it. The client follows no redirects. A token
 * that is read from a file, or returned by a function, is read again when the service does not
 * accept it any more.
 */
export class Client {
  readonly #connection: Connection;
  // The number of this process: the leases of its actors carry it.
  readonly #session = String(randomBits(62));
  readonly #releasing = new Set<Promise<void>>();

  /** url: the address of the service, such as http://localhost:7330. */
  constructor(url: string, options: ClientOptions = {}) {
    this.#connection = new Connection(url, options);
  }

  /** The address of the service. */
  get url(): string {
    return this.#connection.url;
  }

  /**
   * Waits some seconds until claims whose answers were lost are released. The client can be used
   * again.
   */
  async close(): Promise<void> {
    const ended = new AbortController();
    await Promise.race([
      Promise.all(this.#releasing), pause(closeFor, ended.signal).catch(() => undefined),
    ]);
    ended.abort();
  }

  /** Makes a call that may be repeated as it is. */
  #call(procedure: string, request: f.Message, how: Attempt = {}): Promise<f.Message> {
    return repeat(this.#connection.attempts(procedure, request, how), how.signal);
  }

  // The verbs of those who insert tasks, wait for them, look at them and control them.

  /**
   * Inserts all tasks or none, and returns their IDs.
   *
   * The service keeps no response to a call with one task, unless it drops tasks that have ended:
   * where the answer to an attempt was lost, a task of this ID with the same action, key and body
   * that was inserted within the last minute is taken for that of the call.
   */
  async insert(tasks: f.Some<t.Task>, options: CallOptions = {}): Promise<string[]> {
    const request = { tasks: f.listOf(tasks).map(m.fromTask) };
    await this.#call("TaskService/InsertTasks", request, options);
    return request.tasks.map((task) => task.id as string);
  }

  /**
   * Inserts those of the tasks whose IDs are free, all or none, and says which were there: those
   * stay as they are.
   */
  async ensure(tasks: f.Some<t.Task>, options: CallOptions = {}): Promise<t.Ensured> {
    const request = { tasks: f.listOf(tasks).map(m.fromTask) };
    const answer = await this.#call("TaskService/EnsureTasks", request, options);
    return {
      ids: request.tasks.map((task) => task.id as string),
      existing: (answer.existing ?? []) as string[],
    };
  }

  /**
   * Inserts tasks in place of those with the same IDs that are not in progress. It is not repeated,
   * since a repetition would replace the tasks once more.
   */
  async replace(tasks: f.Some<t.Task>, options: CallOptions = {}): Promise<void> {
    const request = { tasks: f.listOf(tasks).map(m.fromTask) };
    await this.#connection.call("TaskService/ReplaceTasks", request, options);
  }

  /**
   * Inserts a task that starts when the calls for its ID have been quiet for a while.
   *
   * The task of the latest call stands for those before it that have not started: it starts quiet
   * after this call, but at most atMost after the first of them. If a task of the ID is in
   * progress, it runs afterwards, under the ID with a "+" behind it.
   */
  async debounce(
    task: t.Task, quiet: f.Duration, atMost: f.Duration, options: CallOptions = {},
  ): Promise<void> {
    await this.#call("TaskService/Debounce", m.fromDebounced({ task, quiet, atMost }), options);
  }

  /** Makes stored tasks wait for others, all or none. */
  async addDependencies(
    dependencies: f.Some<t.Dependency>, options: CallOptions = {},
  ): Promise<void> {
    await this.#call("TaskService/AddDependencies",
      { dependencies: f.listOf(dependencies).map(m.fromDependency) },
      { ...options, wait: changing });
  }

  /** Aborts tasks and what depends on them; status says why, for people. */
  async abort(
    ids: f.Some<string>, status = "", { dryRun = false, ...options }: ChangeOptions = {},
  ): Promise<t.Affected> {
    const answer = await this.#call("TaskService/AbortTasks",
      { ids: f.namesOf(ids), status: f.told(status, "status"), dry_run: dryRun },
      { ...options, wait: changing });
    return m.toAffected(answer.aborted);
  }

  /**
   * Ends external tasks, each for itself, and says of each why it was not, or null. They have the
   * action "stint.External". The actor is who answers, for people.
   */
  async answer(
    actor: string, answers: f.Some<t.Answer>, options: CallOptions = {},
  ): Promise<(StintError | null)[]> {
    const answer = await this.#call("TaskService/AnswerTasks",
      { actor, answers: f.listOf(answers).map(m.fromAnswer) }, options);
    return verdicts(answer);
  }

  /** Opens finished tasks again, with what was aborted because of them. */
  async retry(
    ids: f.Some<string>, { dryRun = false, ...options }: ChangeOptions = {},
  ): Promise<t.Affected> {
    const answer = await this.#call("TaskService/RetryTasks",
      { ids: f.namesOf(ids), dry_run: dryRun }, { ...options, wait: changing });
    return m.toAffected(answer.retried);
  }

  /**
   * Changes when tasks that wait start, their priority, key, or limit of tries; their dependencies
   * stay. A task that is in progress or has finished is refused with TaskStarted, and nothing is
   * changed. The result has the tasks that were not so already.
   */
  async change(
    ids: f.Some<string>, to: t.TaskChanges, { dryRun = false, ...options }: ChangeOptions = {},
  ): Promise<t.Affected> {
    const answer = await this.#call("TaskService/ChangeTasks",
      { ids: f.namesOf(ids), to: m.fromTaskChanges(to), dry_run: dryRun },
      { ...options, wait: changing });
    return m.toAffected(answer.changed);
  }

  /** Deletes tasks, and dependents that waited for nothing else. */
  async delete(
    ids: f.Some<string>, { dryRun = false, ...options }: ChangeOptions = {},
  ): Promise<t.Affected> {
    const request = { ids: f.namesOf(ids), dry_run: dryRun };
    const answer = await this.#call(
      "TaskService/DeleteTasks", request, { ...options, wait: changing });
    return m.toAffected(answer.deleted);
  }

  /**
   * Does several verbs in one commit, or none of them.
   *
   * A transaction that inserts or returns a task is repeated after a lost answer. Others are not.
   */
  async transact(parts: t.Transaction, options: CallOptions = {}): Promise<t.Transacted> {
    const request = m.fromTransaction(parts);
    const ids = (request.insert ?? []).map((task: f.Message) => task.id as string);
    // Others are with it, and a frozen network is noticed sooner.
    const many = request.depend || request.retry || request.abort || request.delete;
    const attempt = this.#connection.attempts(
      "TaskService/Transact", request, many ? { ...options, wait: changing } : options);
    const alone = ids.length === 0 && !request.return;
    const answer = await (alone ? attempt(false) : repeat(attempt, options.signal));
    return { ...m.toTransacted(answer), ids };
  }

  /** Returns what the store knows about tasks, in the order of the IDs. */
  async get(ids: f.Some<string>, options: CallOptions = {}): Promise<t.TaskInfo[]> {
    const answer = await this.#call("TaskService/GetTasks", { ids: f.namesOf(ids) }, options);
    return (answer.tasks ?? []).map(m.toTaskInfo);
  }

  /**
   * Yields the tasks that pass, without bodies and results. It asks for a page at a time, so tasks
   * that change meanwhile may be yielded or not.
   */
  async *list(filter: t.Filter = {}, options: CallOptions = {}): AsyncGenerator<t.TaskInfo, void> {
    let left = filter.limit ?? Infinity;
    if (!(left >= 0)) throw new InvalidArgument("limit must not be negative");
    const request = m.fromFilter({ ...filter, limit: null });
    while (left > 0) {
      request.limit = Math.min(page, left);
      const answer = await this.#call("TaskService/ListTasks", request, options);
      const found = (answer.tasks ?? []).map(m.toTaskInfo);
      yield* found;
      left -= found.length;
      request.after = answer.next;
      if (!request.after) return;
    }
  }

  /** Says why a task does not run, or because of which others it was aborted or skipped. */
  async explain(id: string, options: CallOptions = {}): Promise<t.Explanation> {
    return m.toExplanation(await this.#call("TaskService/ExplainTask", { id }, options));
  }

  /** Returns the ended tries of a task that the service keeps, and its recorded steps. */
  async history(id: string, options: CallOptions = {}): Promise<t.History> {
    return m.toHistory(await this.#call("TaskService/GetHistory", { id }, options));
  }

  /** Returns the network around a task. */
  async graph(id: string, options: CallOptions = {}): Promise<t.Graph> {
    return m.toGraph(await this.#call("TaskService/GetGraph", { id }, options));
  }

  /** Counts tasks by action and state. */
  async stats(options: CallOptions = {}): Promise<t.Stats> {
    return m.toStats(await this.#call("TaskService/GetStats", {}, options));
  }

  /**
   * Returns what has happened in each minute of the last day, the oldest first, with the tasks of
   * an action, by default of all actions together. It is refused to callers who may not see all of
   * these tasks.
   */
  async minutes(action = "", options: CallOptions = {}): Promise<t.Minute[]> {
    const answer = await this.#call("TaskService/GetMinutes", { action }, options);
    return (answer.minutes ?? []).map(m.toMinute);
  }

  /** Names the slowest tasks, those that fail, and those that failed: at most limit each. */
  async problems(limit = 100, options: CallOptions = {}): Promise<t.Problems> {
    return m.toProblems(await this.#call("TaskService/ListProblems", { limit }, options));
  }

  /** Returns the live actors that show themselves by a stream. */
  async actors(options: CallOptions = {}): Promise<t.ActorInfo[]> {
    const answer = await this.#call("TaskService/ListActors", {}, options);
    return (answer.actors ?? []).map(m.toActorInfo);
  }

  // The verbs that limit and pause actions. Each may be repeated.

  /**
   * Sets the limits of an action, in the place of those that it has. Default: none. It may wait for
   * long, until tasks that were fetched before count.
   */
  async setLimits(
    action: string, limits: t.Limits = {}, options: CallOptions = {},
  ): Promise<void> {
    await this.#call("TaskService/SetLimits", { action, limits: m.fromLimits(limits) },
      { ...options, wait: changing });
  }

  /** Returns the limits, pauses and weights of actions. Default: of all that have some. */
  async listLimits(
    actions: f.Some<string> = [], options: CallOptions = {},
  ): Promise<t.ActionLimits[]> {
    const answer = await this.#call(
      "TaskService/ListLimits", { actions: f.namesOf(actions) }, options);
    return (answer.limits ?? []).map(m.toActionLimits);
  }

  /** Stops the fetches of tasks with these actions; their owners go on. */
  async pause(actions: f.Some<string>, options: CallOptions = {}): Promise<void> {
    await this.#call("TaskService/Pause", { actions: f.namesOf(actions) }, options);
  }

  /** Ends the pauses of actions. */
  async resume(actions: f.Some<string>, options: CallOptions = {}): Promise<void> {
    await this.#call("TaskService/Resume", { actions: f.namesOf(actions) }, options);
  }

  /** Stops the fetches of tasks with these keys of an action. */
  async pauseKeys(
    action: string, keys: f.Some<string>, options: CallOptions = {},
  ): Promise<void> {
    await this.#call("TaskService/PauseKeys", { action, keys: f.namesOf(keys) }, options);
  }

  /** Ends the pauses of keys of an action. */
  async resumeKeys(
    action: string, keys: f.Some<string>, options: CallOptions = {},
  ): Promise<void> {
    await this.#call("TaskService/ResumeKeys", { action, keys: f.namesOf(keys) }, options);
  }

  /** Sets by which weights the keys of an action take turns, where they do. */
  async setWeights(
    action: string, weights: Iterable<[key: string, weight: number]> | Record<string, number>,
    options: CallOptions = {},
  ): Promise<void> {
    const pairs = Symbol.iterator in weights
      ? [...(weights as Iterable<[string, number]>)] : Object.entries(weights);
    await this.#call("TaskService/SetWeights",
      { action, weights: pairs.map(([key, weight]) => ({ key, weight })) }, options);
  }

  // The verbs for schedules. Each may be repeated, but for triggerSchedule.

  /**
   * Adds schedules, or changes those with the same names, all or none. One that keeps its times
   * keeps its next occurrence, too, and one that is paused stays so.
   */
  async putSchedules(schedules: f.Some<t.Schedule>, options: CallOptions = {}): Promise<void> {
    await this.#call(
      "TaskService/PutSchedules", { schedules: f.listOf(schedules).map(m.fromSchedule) }, options);
  }

  /** Adds those of the schedules whose names no schedule has; the others stay as they are. */
  async ensureSchedules(schedules: f.Some<t.Schedule>, options: CallOptions = {}): Promise<void> {
    await this.#call("TaskService/EnsureSchedules",
      { schedules: f.listOf(schedules).map(m.fromSchedule) }, options);
  }

  /** Returns schedules in the order of their names. Default: all. */
  async listSchedules(
    names: f.Some<string> = [], options: CallOptions = {},
  ): Promise<t.ScheduleInfo[]> {
    const answer = await this.#call(
      "TaskService/ListSchedules", { names: f.namesOf(names) }, options);
    return (answer.schedules ?? []).map(m.toScheduleInfo);
  }

  /** Keeps schedules from occurring, all or none. */
  async pauseSchedules(names: f.Some<string>, options: CallOptions = {}): Promise<void> {
    await this.#call("TaskService/PauseSchedules", { names: f.namesOf(names) }, options);
  }

  /** Ends pauses. What schedules would have been due for meanwhile is left out. */
  async resumeSchedules(names: f.Some<string>, options: CallOptions = {}): Promise<void> {
    await this.#call("TaskService/ResumeSchedules", { names: f.namesOf(names) }, options);
  }

  /** Deletes schedules, all or none. Tasks that were inserted stay. */
  async deleteSchedules(names: f.Some<string>, options: CallOptions = {}): Promise<void> {
    await this.#call("TaskService/DeleteSchedules", { names: f.namesOf(names) }, options);
  }

  /**
   * Inserts the tasks of a schedule now, also if it is paused. It returns what their IDs begin
   * with; a task without an ID has that as its own. It is not repeated, since a repetition would
   * insert the tasks once more.
   */
  async triggerSchedule(name: string, options: CallOptions = {}): Promise<string> {
    const answer = await this.#connection.call("TaskService/TriggerSchedule", { name }, options);
    return answer.id ?? "";
  }

  /**
   * Waits until all tasks have finished, and returns them in the order of the IDs.
   *
   * It throws TimeoutError if they have not within timeout; with 0 it looks once. Default: it waits
   * for ever. The tasks must have been inserted with postResult.
   */
  async wait(
    ids: f.Some<string>, options: CallOptions & { timeout?: f.Duration } = {},
  ): Promise<t.TaskInfo[]> {
    const { signal, timeout = Infinity } = options;
    const names = f.namesOf(ids); // an iterator yields them once
    const until = monotonic() + f.toWait("timeout", timeout);
    for (;;) {
      const wait = Math.max(0, Math.min(until - monotonic(), poll));
      const answer = await this.#call("TaskService/WaitForTasks",
        { ids: names, wait: f.fromDuration(wait, "wait") ?? "0s" }, { signal, wait });
      if (answer.finished) return (answer.tasks ?? []).map(m.toTaskInfo);
      if (wait === 0) throw new TimeoutError("the tasks have not finished"); // the last look
    }
  }

  /**
   * Yields pages of the tasks that have ended since a cursor, in the order of their ends.
   *
   * Keep the next of a page when you have done with it, and pass it as after the next time: so you
   * get each end at least once. The default is before all ends that are still in the store, "now"
   * behind them. If nothing ends, a page without tasks comes every twenty seconds, with a newer
   * cursor; after timeout without any the last one. Default: it goes on for ever. If tasks have
   * been pruned that ended behind the cursor, it throws EndsPruned: begin anew.
   */
  async *ends(
    actions: f.Some<string> = [],
    options: CallOptions & { after?: string; timeout?: f.Duration } = {},
  ): AsyncGenerator<t.EndPage, void> {
    const { signal, timeout = Infinity } = options;
    const names = f.namesOf(actions);
    const until = monotonic() + f.toWait("timeout", timeout);
    for (let from = options.after ?? ""; ;) {
      const wait = Math.max(0, Math.min(until - monotonic(), poll));
      const page = m.toEndPage(await this.#call("TaskService/GetEnds",
        { actions: names, from, wait: f.fromDuration(wait, "wait") ?? "0s" }, { signal, wait }));
      from = page.next;
      yield page;
      if (wait === 0 && page.tasks.length === 0) return;
    }
  }

  // The verbs of those who perform tasks.

  /**
   * Owns tasks that are ready, and waits for some for at most wait if there are none.
   *
   * A repetition after a lost answer asks for the same fetch, so the caller learns of every task
   * that it was given. If the call fails all the same, the client goes on in the background, for a
   * minute, to give back what may have been fetched: until then, or until the lease expires, the
   * tasks are nobody's.
   */
  async own(
    actor: string, actions: f.Some<string>, options: OwnOptions = {},
  ): Promise<t.OwnedTask[]> {
    const names = f.namesOf(actions);
    const until = monotonic() + f.toWait("wait", options.wait ?? 0);
    for (;;) {
      const wait = Math.max(0, Math.min(poll, until - monotonic()));
      const owned = await this.#own(actor, names, { ...options, wait });
      if (owned.length > 0 || monotonic() >= until) return owned;
    }
  }

  /** Asks for one fetch, until it is known what was fetched. */
  async #own(
    actor: string, actions: string[], options: OwnOptions & { wait: number },
  ): Promise<t.OwnedTask[]> {
    const { maxTasks = 1, lease = 30, wait, signal, fetch } = options;
    const request: f.Message = {
      actor, session: this.#session, max_tasks: maxTasks, actions,
      lease: f.fromDuration(lease, "lease"), wait: f.fromDuration(wait, "wait"),
    };
    let unseen = false; // an answer that may have had tasks
    const attempt = async (again: boolean) => {
      try {
        return await this.#connection.call("WorkerService/OwnTasks",
          again ? { ...request, repeated: true } : request, { signal, wait, fetch });
      } catch (error) {
        if (error instanceof Unavailable) {
          unseen ||= error.ambiguous;
        } else {
          unseen ||= !nothingHandedOut(error); // also if the call is aborted
        }
        throw error;
      }
    };
    for (;;) {
      request.claim = String(randomBits(64));
      let owned: t.OwnedTask[] = [];
      try {
        const answer = await repeat(attempt, signal);
        owned = (answer.tasks ?? []).map(m.toOwnedTask);
        return owned;
      } catch (error) {
        if (!(error instanceof ClaimSpent)) throw error;
        unseen = false; // what was fetched was given back
      } finally {
        // An attempt that was given up may still fetch.
        if (unseen && owned.length === 0) this.#releaseLater(actor, request.claim);
      }
    }
  }

  /** Gives back in the background what was or will be fetched under a claim. */
  #releaseLater(actor: string, claim: string): void {
    const releasing = repeat(() => this.#release(actor, claim), undefined, releaseFor, true)
      .catch((error) => console.warn("stint: could not give back tasks that may have been " +
        `fetched; their leases expire: ${error}`))
      .finally(() => this.#releasing.delete(releasing));
    this.#releasing.add(releasing);
  }

  async #release(actor: string, claim: string, options: CallOptions = {}): Promise<void> {
    await this.#connection.call("WorkerService/ReleaseClaim", { actor, claim }, options);
  }

  /**
   * Gives back, with their tries refunded, the tasks that were fetched under a claim. It is for
   * callers that make the claims of OwnTasks themselves; own has released its own.
   */
  async releaseClaim(
    actor: string, claim: bigint | string, options: CallOptions = {},
  ): Promise<void> {
    await repeat(() => this.#release(actor, String(claim), options), options.signal);
  }

  /** Extends leases, and says which of the tasks the actor still owns. */
  async extend(
    actor: string, tasks: f.Some<t.Performance>,
    options: CallOptions & { lease?: f.Duration } = {},
  ): Promise<boolean[]> {
    const all = f.listOf(tasks);
    return repeat(() => this.extendOnce(actor, all, options), options.signal);
  }

  /** Is one attempt of extend, which may take so many seconds. */
  async extendOnce(
    actor: string, tasks: f.Some<t.Performance>,
    options: CallOptions & { lease?: f.Duration; timeout?: f.Duration } = {},
  ): Promise<boolean[]> {
    const { lease = 30, timeout, signal } = options;
    const answer = await this.#connection.call("WorkerService/ExtendTasksOwnership", {
      actor, tasks: f.listOf(tasks).map(f.fromPerformance),
      lease: f.fromDuration(lease, "lease"), session: this.#session,
    }, { timeout, signal });
    return answer.kept ?? [];
  }

  /**
   * Returns tasks, each for itself, and says of each why it was not returned, or null. With
   * promptly, returns that would have to wait for others are refused with Busy.
   */
  async returnTasks(
    returns: f.Some<t.Return>, options: CallOptions & { promptly?: boolean } = {},
  ): Promise<(StintError | null)[]> {
    const { promptly = false, signal } = options;
    const request = { returns: f.listOf(returns).map(m.fromReturn), promptly };
    return verdicts(await this.#call("WorkerService/ReturnTasks", request, { signal }));
  }

  /**
   * Records a text for people, and the progress of a task, from 0 to 1. What cannot be stored of
   * the text is replaced or cut.
   */
  async setStatus(
    task: t.Performance, status: string, progress = 0, options: CallOptions = {},
  ): Promise<void> {
    await this.#call("WorkerService/SetStatus",
      { ...f.fromPerformance(task), status: f.told(status, "status"), progress }, options);
  }

  /**
   * Draws a number for an owned task that is greater than those of its earlier fetches. Other
   * systems can refuse by it what a late owner writes.
   */
  async fence(task: t.Performance, options: CallOptions = {}): Promise<number> {
    const answer = await this.#call("WorkerService/DrawFence", f.fromPerformance(task), options);
    return Number(answer.fence);
  }

  /** Returns how the predecessors of an owned task ended. */
  async inputs(task: t.Performance, options: CallOptions = {}): Promise<t.Input[]> {
    const found: t.Input[] = [];
    for (let after = ""; ; ) { // a page after the other, however large they are
      const answer = await this.#call("WorkerService/GetInputs",
        { ...f.fromPerformance(task), paged: true, after }, options);
      found.push(...(answer.inputs ?? []).map(m.toInput));
      after = answer.next ?? "";
      if (!after) return found;
    }
  }

  /**
   * Records what a step of an owned task returned, and returns what is recorded then. If a step
   * with the name is recorded already, that stays as it is.
   */
  async recordStep(
    task: t.Performance, name: string, result: f.Content, options: CallOptions = {},
  ): Promise<Uint8Array> {
    const answer = await this.#call("WorkerService/RecordStep", {
      ...f.fromPerformance(task), ...f.encode(stepFields, { name, result }),
    }, options);
    return f.decode(stepFields, answer).result ?? new Uint8Array();
  }

  /** Returns what the recorded steps of an owned task returned, by their names. */
  async steps(
    task: t.Performance, options: CallOptions = {},
  ): Promise<Map<string, Uint8Array>> {
    const found = await this.recordedSteps(task, options);
    return new Map(found.map((each) => [each.name, each.result ?? new Uint8Array()]));
  }

  /** Returns the recorded steps of an owned task, with how long ago each was recorded. */
  async recordedSteps(task: t.Performance, options: CallOptions = {}): Promise<m.Recorded[]> {
    const answer = await this.#call("WorkerService/ListSteps", f.fromPerformance(task), options);
    return (answer.steps ?? []).map(m.toRecorded);
  }

  /**
   * Shows to the service by a stream that an actor of this process lives. It is for Worker, and
   * returns null where there are no streams.
   */
  attend(actor: string, actions: string[], watcher: Watcher): Promise<Presence | null> {
    return show(this.#connection, { session: this.#session, actor, actions }, watcher);
  }
}

function verdicts(answer: f.Message): (StintError | null)[] {
  return (answer.verdicts ?? []).map((each: f.Message) =>
    each.error === undefined ? null : newError("", each.message ?? "", each.error));
}
