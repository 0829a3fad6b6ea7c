package service

import (
	"maps"
	"slices"

	"github.com/stint-tasks/stint/api/stintv1"
	"github.com/stint-tasks/stint/api/stintv1/stintv1connect"
	"github.com/stint-tasks/stint/service/access"
)

// newPolicies returns the policies of all procedures.
func newPolicies() map[string]policy {
	all := changePolicies()
	maps.Copy(all, lookPolicies())
	maps.Copy(all, workerPolicies())
	maps.Copy(all, limitPolicies())
	maps.Copy(all, schedulePolicies())
	maps.Copy(all, clusterPolicies())
	return all
}

// byReadable is the policy of procedures that show one task.
func byReadable[M interface{ GetId() string }]() func(a *asking, request any) error {
	return on(func(a *asking, r M) error {
		return a.mayChange(access.Read, []string{r.GetId()})
	})
}

// controlling is the policy of procedures that change tasks of others, and say which.
func controlling[Q interface{ GetIds() []string }, R any](
	affectedIn func(response R) *stintv1.Affected,
) policy {
	return policy{
		may:  on(func(a *asking, r Q) error { return a.mayControl(r.GetIds()) }),
		trim: trimming(func(a *asking, r R) { a.hideOthers(affectedIn(r)) }),
	}
}

// byToken is the policy of procedures whose calls prove by a token that the caller owns a task.
func byToken(a *asking, _ any) error { return a.has(access.Own) }

// byAll is the policy of procedures that are about all tasks.
func byAll(verb access.Verb) func(a *asking, request any) error {
	return func(a *asking, _ any) error {
		if !a.principal.MayAll(verb) {
			return a.mayNot("%s all tasks", verb)
		}
		return nil
	}
}

// byReader is the policy of procedures that show what trim leaves to those who may see something.
func byReader(a *asking, _ any) error { return a.has(access.Read) }

// byAnyone is the policy of procedures that show nothing of tasks.
func byAnyone(*asking, any) error { return nil }

// changePolicies are those of the verbs that change tasks.
func changePolicies() map[string]policy {
	return map[string]policy{
		stintv1connect.TaskServiceInsertTasksProcedure: {
			may: on(func(a *asking, r *stintv1.InsertTasksRequest) error {
				return a.mayInsert(r.GetTasks())
			}),
		},
		stintv1connect.TaskServiceInsertTasksFromProcedure: {may: on((*asking).mayInsertNext)},
		stintv1connect.TaskServiceEnsureTasksProcedure: {
			may: on(func(a *asking, r *stintv1.EnsureTasksRequest) error {
				return a.mayEnsure(r.GetTasks())
			}),
		},
		stintv1connect.TaskServiceReplaceTasksProcedure: {
			may: on(func(a *asking, r *stintv1.ReplaceTasksRequest) error {
				return a.mayReplace(r.GetTasks())
			}),
		},
		stintv1connect.TaskServiceDebounceProcedure: {may: on((*asking).mayDebounce)},
		stintv1connect.TaskServiceAddDependenciesProcedure: {
			may: on(func(a *asking, r *stintv1.AddDependenciesRequest) error {
				return a.mayDepend(r.GetDependencies())
			}),
		},
		stintv1connect.TaskServiceAbortTasksProcedure: controlling[*stintv1.AbortTasksRequest](
			(*stintv1.AbortTasksResponse).GetAborted),
		stintv1connect.TaskServiceAnswerTasksProcedure: {
			may: on((*asking).mayAnswer),
		},
		stintv1connect.TaskServiceRetryTasksProcedure: controlling[*stintv1.RetryTasksRequest](
			(*stintv1.RetryTasksResponse).GetRetried),
		stintv1connect.TaskServiceChangeTasksProcedure: controlling[*stintv1.ChangeTasksRequest](
			(*stintv1.ChangeTasksResponse).GetChanged),
		stintv1connect.TaskServiceDeleteTasksProcedure: controlling[*stintv1.DeleteTasksRequest](
			(*stintv1.DeleteTasksResponse).GetDeleted),
		stintv1connect.TaskServiceTransactProcedure: {
			may: on((*asking).mayTransact),
			trim: trimming(func(a *asking, r *stintv1.TransactResponse) {
				a.hideOthers(r.GetChanged(), r.GetRetried(), r.GetAborted(), r.GetDeleted())
			}),
		},
		stintv1connect.TaskServicePruneTasksProcedure: {may: byAll(access.Control)},
	}
}

// lookPolicies are those of the verbs that look at tasks.
func lookPolicies() map[string]policy {
	return map[string]policy{
		stintv1connect.TaskServiceGetTasksProcedure: {
			may: on((*asking).mayGet),
			trim: trimming(func(a *asking, r *stintv1.GetTasksResponse) {
				a.hideBodies(r.GetTasks())
			}),
		},
		stintv1connect.TaskServiceWaitForTasksProcedure: {
			may: on(func(a *asking, r *stintv1.WaitForTasksRequest) error {
				return a.mayChange(access.Read, r.GetIds())
			}),
			trim: trimming(func(a *asking, r *stintv1.WaitForTasksResponse) {
				a.hideBodies(r.GetTasks())
			}),
		},
		stintv1connect.TaskServiceGetServiceInfoProcedure: {may: byAnyone},
		stintv1connect.TaskServiceCheckStoreProcedure:     {may: byAll(access.Read)},
		stintv1connect.TaskServiceListTasksProcedure:      {may: on((*asking).mayList)},
		stintv1connect.TaskServiceExplainTaskProcedure: {
			may: byReadable[*stintv1.ExplainTaskRequest](), trim: trimming((*asking).trimExplained),
		},
		stintv1connect.TaskServiceGetHistoryProcedure: {
			may: byReadable[*stintv1.GetHistoryRequest](),
		},
		stintv1connect.TaskServiceListChangesProcedure: {may: on((*asking).mayListChanges)},
		stintv1connect.TaskServiceGetEndsProcedure: {
			may: on((*asking).mayFollow),
			trim: trimming(func(a *asking, r *stintv1.GetEndsResponse) {
				a.hideBodies(r.GetTasks())
			}),
		},
		stintv1connect.TaskServiceGetGraphProcedure: {
			may:  byReadable[*stintv1.GetGraphRequest](),
			trim: trimming((*asking).trimGraph),
		},
		stintv1connect.TaskServiceGetStatsProcedure: {
			may:  byReader,
			trim: trimming((*asking).trimStats),
		},
		stintv1connect.TaskServiceGetMinutesProcedure: {may: on((*asking).mayGetMinutes)},
		stintv1connect.TaskServiceListProblemsProcedure: {
			may: on((*asking).mayListProblems), trim: trimming((*asking).trimProblems),
		},
		stintv1connect.TaskServiceListActorsProcedure: {
			may: byReader,
			trim: trimming(func(a *asking, r *stintv1.ListActorsResponse) {
				r.Actors = slices.DeleteFunc(r.GetActors(), func(actor *stintv1.ActorInfo) bool {
					return !a.principal.MayList(access.Read, actor.GetActions(), "")
				})
				for _, actor := range r.GetActors() {
					if a.restricted() { // it may own tasks with other actions than these
						actor.Tasks = 0
					}
				}
			}),
		},
	}
}

// limitPolicies are those of the verbs that limit and pause actions.
func limitPolicies() map[string]policy {
	return map[string]policy{
		stintv1connect.TaskServiceSetLimitsProcedure: {
			may: on(func(a *asking, r *stintv1.SetLimitsRequest) error {
				if r.GetLimits().GetFairGroup() != "" && !a.principal.MayAll(access.Control) {
					return a.mayNot("%s all tasks, which a group of fair actions takes",
						access.Control)
				}
				return a.mayLimit(r.GetAction())
			}),
		},
		stintv1connect.TaskServiceListLimitsProcedure: {
			may: byReader,
			trim: trimming(func(a *asking, r *stintv1.ListLimitsResponse) {
				r.Limits = slices.DeleteFunc(r.GetLimits(), func(l *stintv1.ActionLimits) bool {
					return !a.principal.MayList(access.Read, []string{l.GetAction()}, "")
				})
			}),
		},
		stintv1connect.TaskServicePauseProcedure: {
			may: on(func(a *asking, r *stintv1.PauseRequest) error {
				return a.mayLimit(r.GetActions()...)
			}),
		},
		stintv1connect.TaskServiceResumeProcedure: {
			may: on(func(a *asking, r *stintv1.ResumeRequest) error {
				return a.mayLimit(r.GetActions()...)
			}),
		},
		stintv1connect.TaskServicePauseKeysProcedure: {
			may: on(func(a *asking, r *stintv1.PauseKeysRequest) error {
				return a.mayLimit(r.GetAction())
			}),
		},
		stintv1connect.TaskServiceResumeKeysProcedure: {
			may: on(func(a *asking, r *stintv1.ResumeKeysRequest) error {
				return a.mayLimit(r.GetAction())
			}),
		},
		stintv1connect.TaskServiceSetWeightsProcedure: {
			may: on(func(a *asking, r *stintv1.SetWeightsRequest) error {
				return a.mayLimit(r.GetAction())
			}),
		},
	}
}

// schedulePolicies are those of the verbs for schedules: whoever may insert the tasks of a schedule
// may do everything with it.
func schedulePolicies() map[string]policy {
	return map[string]policy{
		stintv1connect.TaskServicePutSchedulesProcedure: {
			may: on(func(a *asking, r *stintv1.PutSchedulesRequest) error {
				return a.mayPut(r.GetSchedules(), true)
			}),
		},
		stintv1connect.TaskServiceEnsureSchedulesProcedure: {
			may: on(func(a *asking, r *stintv1.EnsureSchedulesRequest) error {
				return a.mayPut(r.GetSchedules(), false)
			}),
		},
		stintv1connect.TaskServiceListSchedulesProcedure: {
			may: byReader, trim: trimming((*asking).trimSchedules),
		},
		stintv1connect.TaskServicePauseSchedulesProcedure: {
			may: on(func(a *asking, r *stintv1.PauseSchedulesRequest) error {
				return a.mayRunAll(r.GetNames())
			}),
		},
		stintv1connect.TaskServiceResumeSchedulesProcedure: {
			may: on(func(a *asking, r *stintv1.ResumeSchedulesRequest) error {
				return a.mayRunAll(r.GetNames())
			}),
		},
		stintv1connect.TaskServiceDeleteSchedulesProcedure: {
			may: on(func(a *asking, r *stintv1.DeleteSchedulesRequest) error {
				return a.mayRunAll(r.GetNames())
			}),
		},
		stintv1connect.TaskServiceTriggerScheduleProcedure: {
			may: on(func(a *asking, r *stintv1.TriggerScheduleRequest) error {
				return a.mayRunAll([]string{r.GetName()})
			}),
		},
	}
}

// clusterPolicies are those of the verbs for tasks of several shards.
func clusterPolicies() map[string]policy {
	return map[string]policy{
		stintv1connect.ClusterServiceInsertShardTasksProcedure: {
			may: on((*asking).mayInsertSharded),
		},
		stintv1connect.ClusterServiceGetShardTasksProcedure: {
			may: on((*asking).mayGetSharded),
			trim: trimming(func(a *asking, r *stintv1.GetShardTasksResponse) {
				a.hideBodies(r.GetTasks())
			}),
		},
	}
}

// workerPolicies are those of the verbs of workerService.
func workerPolicies() map[string]policy {
	return map[string]policy{
		stintv1connect.WorkerServiceOwnTasksProcedure: {
			may: on(func(a *asking, r *stintv1.OwnTasksRequest) error {
				a.promptly = true
				return a.mayOwn(r.GetActor(), r.GetActions())
			}),
			trim: trimming(func(a *asking, r *stintv1.OwnTasksResponse) {
				a.trimVerdicts(r.GetVerdicts())
			}),
		},
		stintv1connect.WorkerServiceReleaseClaimProcedure: {
			may: on(func(a *asking, r *stintv1.ReleaseClaimRequest) error {
				return a.mayOwn(r.GetActor(), nil)
			}),
		},
		stintv1connect.WorkerServiceExtendTasksOwnershipProcedure: {
			may: on(func(a *asking, r *stintv1.ExtendTasksOwnershipRequest) error {
				return a.mayOwn(r.GetActor(), nil)
			}),
		},
		stintv1connect.WorkerServiceReturnTasksProcedure: {
			may: on(func(a *asking, r *stintv1.ReturnTasksRequest) error {
				a.promptly = r.GetPromptly()
				return a.has(access.Own)
			}),
			trim: trimming(func(a *asking, r *stintv1.ReturnTasksResponse) {
				a.trimVerdicts(r.GetVerdicts())
			}),
		},
		stintv1connect.WorkerServiceSetStatusProcedure:  {may: byToken},
		stintv1connect.WorkerServiceDrawFenceProcedure:  {may: byToken},
		stintv1connect.WorkerServiceGetInputsProcedure:  {may: byToken},
		stintv1connect.WorkerServiceRecordStepProcedure: {may: byToken},
		stintv1connect.WorkerServiceListStepsProcedure:  {may: byToken},
		stintv1connect.WorkerServiceAttendProcedure: {
			may: on(func(a *asking, r *stintv1.AttendRequest) error {
				if r.GetHello() == nil {
					return a.has(access.Own)
				}
				return a.mayOwn(r.GetHello().GetActor(), r.GetHello().GetActions())
			}),
		},
	}
}
