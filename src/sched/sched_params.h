/*
 * Every constant that tunes the scheduler, caps, cost estimates and shares, in one place. A name
 * ends in its unit: _NS nanoseconds; names without a unit are counts, parts or percentages, as
 * said.
 *
 * Each constant says why it has its value. [H200] marks one that was measured or follows from a
 * measurement on an H200 with driver 580 (docs/measurements.md). All others are not measured by
 * themselves: they were chosen, and hold up in the tests in virtual time and the tables there.
 *
 * Bounds that only guard against damaged shared memory are here as well, marked "bound".
 */
#ifndef VGPU_SCHED_SCHED_PARAMS_H
#define VGPU_SCHED_SCHED_PARAMS_H

/* The arena's lock and file */

/* A holder has the lock for some hundred instructions. One that keeps it longer is dead or
 * stopped, and loses it. */
#define ARENA_LOCK_STALE_NS 20000000ULL
#define ARENA_LOCK_BOUND_NS 100000000ULL /* no call waits longer for the lock */
#define ARENA_LOCK_NAP_NS   1000000ULL   /* a waiter's sleep, should a wake-up be lost */
/* A process that replaces the file needs a few system calls: others retry so often, so far apart.
 */
#define ARENA_FILE_TRIES  100
#define ARENA_FILE_NAP_NS 1000000ULL

/* Policies: lengths of turns */

/* [H200] A switch between processes takes 0.145 ms: 16 ms keep that below 1 percent. */
#define POLICY_QUANTUM_NS 16000000ULL
#define POLICY_CYCLE_NS   64000000ULL /* each of many tenants gets a turn within this */
#define POLICY_MIN_NS     1000000ULL  /* bounds of a turn, whatever the policy or setting */
#define POLICY_MAX_NS     20000000ULL
/* A turn that a tenant of a higher priority may want to end. */
#define POLICY_LOW_PRIORITY_TURN_NS 2000000ULL
/* mlfq: the turn at level 0; each of the levels below doubles it. */
#define POLICY_LEVEL_BASE_NS 2500000ULL
#define POLICY_LEVELS        4u
/* The next turn of a tenant that has waited so long goes first, and is short. With priorities that
 * is rare enough to stay out of the 99th percentile of the tenant that goes before. With mlfq,
 * where waiting is the rule for some tenants, it happens sooner. */
#define POLICY_STARVED_NS   1000000000ULL
#define POLICY_AGED_NS      400000000ULL
#define POLICY_AGED_TURN_NS 3000000ULL

/* Policies: interactive tenants, which yield most turns early to wait for results */

#define POLICY_INTERACTIVE_LEVELS 2u         /* levels of tenants that yield every other turn */
#define POLICY_SHORT_TURN_NS      3500000ULL /* of the others, beside an interactive tenant */
/* Work of this length, waited for, is worth a turn: a switch costs a tenth of it. */
#define POLICY_BURST_NS 1500000ULL

/* Policies: virtual time, by which fair shares are kept */

#define POLICY_CREDIT_NS   10000000ULL  /* for the time in which a tenant did not wait */
#define POLICY_LAG_MOST_NS 200000000ULL /* that a tenant catches up after turns that were short */
#define POLICY_DEBT_NS     500000000ULL /* use beyond a share that is remembered */
#define POLICY_EQUAL_NS    2000000ULL   /* virtual times no further apart are equal */

/* Policies: ends of turns */

/* A turn that an urgent tenant cuts short lasts so long at least. A tenant that its cap holds back
 * makes up for a later cut by the cap's burst. */
#define POLICY_CUT_NS        1000000ULL
#define POLICY_CUT_CAPPED_NS 4000000ULL
/* How far launches run ahead while nobody waits: a newcomer waits for all of it. */
#define POLICY_AHEAD_NS              10000000ULL
#define POLICY_AHEAD_LOW_PRIORITY_NS 400000ULL
/* How long a holder without work keeps the device: after a burst or at its turn's end; else
 * at least and at most, for a switch back and forth costs more than a short gap. */
#define POLICY_QUICK_NS      20000ULL
#define POLICY_GRACE_NS      50000ULL
#define POLICY_GRACE_MOST_NS 250000ULL
#define POLICY_AWAY_MOST_NS  100000000000ULL /* bound: that a tenant may stay away from turns */

/* Gangs: instances on several devices, whose turns are slots of the clock */

#define POLICY_SLOT_NS       10000000ULL
#define POLICY_SLOTS_MOST    8u         /* in a row, of the tenant with the most weight */
#define POLICY_GANG_GRACE_NS 1000000ULL /* as POLICY_GRACE_NS; work may wait for another device */
#define POLICY_GANG_AHEAD_NS 2000000ULL /* as POLICY_AHEAD_NS */
#define GANG_DRAIN_NS        4000000ULL /* that work may run beyond its slot on another device */
#define GANG_IDLE_NS         1000000ULL /* of the slot's owner, before others have the rest */

/* The scheduler */

#define SCHED_TIDY_NS     50000000ULL  /* between two looks for dead and inactive processes */
#define SCHED_INACTIVE_NS 200000000ULL /* without a launch, a process is no longer active */
/* A tenant whose turn does not end runs unscheduled so long, doubled each time in a row. */
#define SCHED_UNSCHEDULED_NS        1000000000ULL
#define SCHED_UNSCHEDULED_DOUBLINGS 6u
/* Estimate of what still runs of the time before the device was contended. */
#define SCHED_UNTIMED_NS   5000000ULL
#define SCHED_HELD_MOST_NS 2000000000ULL /* bound: no turn is longer */
#define SCHED_ESTIMATE_MOST_NS                                                                     \
    1000000000ULL /* bound: an estimate puts off a turn's end by so much */

/* The client: launches of a process */

/* What a launch counts for while nothing is known of its cost. Many are queued before the first has
 * ended, and what a program queues at a semaphore runs in one go. */
#define SCHED_UNKNOWN_NS 500000ULL
/* [H200] Launches at the semaphore that threads do not wait for: the driver makes threads wait at
 * 1024. From the second number on, a thread is about to wait. */
#define SCHED_QUEUED_MOST        800u
#define SCHED_QUEUED_NEARLY_MOST (SCHED_QUEUED_MOST * 7 / 8)
#define SCHED_NAP_NS             50000ULL /* of a thread whose launch is too far ahead */
/* A program launches more slowly than the device runs: in one turn the device was idle for longer
 * than the first, and launches were never further ahead than the second. */
#define SCHED_LAUNCH_IDLE_NS  30000ULL
#define SCHED_LAUNCH_AHEAD_NS 50000ULL
/* [H200] A light program, in a window: so many launches, one wait in so many launches at most, so
 * many percent of the device. It runs outside of turns: training got 0.96 of its speed alone and
 * matrix products 0.98; in turns they got 0.87 and 0.96. */
#define SCHED_WINDOW_NS        100000000ULL
#define SCHED_LOW_USE_LAUNCHES 200u
#define SCHED_LOW_USE_WAITS    20u
#define SCHED_LOW_USE_PERCENT  15u
/* A launch is held back for its fences no longer than the first: the stream may wait for this very
 * thread. Then launches are not held back for the second. */
#define SCHED_PACED_MOST_NS 100000000ULL
#define SCHED_UNPACED_NS    10000000000ULL
#define SCHED_PROBE_NS      50000000ULL  /* for fences that tell whether unscheduled work is over */
#define SCHED_PAUSED_NS     100000000ULL /* a process that its cap held back lately is capped */
#define SCHED_COUNT_MOST    1000000ULL   /* bound: turns between two readings */

/* The helper: when a turn is over */

#define SCHED_QUIET_NS 1000000ULL   /* unfenced work is done so long after its estimated end */
#define SCHED_BOUND_NS 100000000ULL /* a turn is over so long after its estimated end */
/* The same, while work runs of a time in which nobody measured. */
#define SCHED_UNTIMED_BOUND_NS 15000000ULL
/* A tenant with more launches in its turn than this, or with untimed work, drains; it gets no turn
 * for the second, and so often at most. */
#define SCHED_LAUNCHES_MUCH 64u
#define SCHED_DRAIN_NS      1000000000ULL
#define SCHED_OVERRUNS_MOST 12u
/* No process waits longer for a grant, whatever the arena says. One that drains waits longer. */
#define SCHED_RESCUE_NS       2000000000ULL
#define SCHED_RESCUE_DRAIN_NS 10000000000ULL
/* When the helper looks again: it spins so close to the expected end, where a look costs
 * less than being late; else it sleeps in steps; if another tenant is due, it sleeps longer. */
#define SCHED_NEAR_NS      60000ULL
#define SCHED_STEP_NS      30000ULL
#define SCHED_STEP_MOST_NS 500000ULL
#define SCHED_NOT_NEXT_NS  2000000ULL

/* Preemption from outside */

/* [H200] Switching a tenant's channels takes about a millisecond, so turns are longer than the
 * policy's by a quarter, at most the first, and are not cut below the second. */
#define PREEMPT_TURN_NS  25000000ULL
#define PREEMPT_LEAST_NS 5000000ULL
/* A tenant is kept off so long at most: a little more than POLICY_STARVED_NS. */
#define PREEMPT_OFF_MOST_NS           1200000000ULL
#define PREEMPT_UNSCHEDULED_DOUBLINGS 5u
#define PREEMPT_GRANTED_NS            20000000ULL   /* a granted tenant reports within this */
#define PREEMPT_BEYOND_NS             10000000ULL   /* a turn's end, for switching off */
#define PREEMPT_AGAIN_NS              1000000ULL    /* until the arena's lock is tried again */
#define PREEMPT_SOON_NS               20000ULL      /* the least time between two steps */
#define PREEMPT_SPAN_NS               1000000000ULL /* bound: since a turn began */

/* The throttle: a cap from outside */

/* [H200] A kernel that never ends starts after this part of the call that switches it on, and stops
 * after this part of the one that switches it off. */
#define THROTTLE_GOES  .85
#define THROTTLE_STOPS .73
#define THROTTLE_LOST  .45 /* [H200] of a probe, which stops work and starts it again */
/* Estimates of what these calls take, until the first is timed. */
#define THROTTLE_GOES_FIRST_NS  400000.
#define THROTTLE_STOPS_FIRST_NS 650000.
#define THROTTLE_PROBE_FIRST_NS 800000.
#define THROTTLE_COST_MOST_NS   20000000. /* bound: a call that took longer was disturbed */
#define THROTTLE_BURST_NS       25000000ULL
#define THROTTLE_SLACK_NS       40000000ULL /* to notice an excess, and to switch */
/* Chance takes a tenant at its cap so many standard deviations beyond it once in hours. */
#define THROTTLE_DOUBT 4.5
/* Period of switching, and bounds of its two parts. */
#define THROTTLE_PERIOD_NS    25000000.
#define THROTTLE_ON_LEAST_NS  2000000.
#define THROTTLE_OFF_LEAST_NS 1000000.
/* On-time between probes, on average, of a tenant that is far from its cap, uses its cap, is close
 * to the burst, is held. */
#define THROTTLE_IDLE_PROBE_NS  8000000.
#define THROTTLE_PROBE_NS       4000000.
#define THROTTLE_CLOSE_PROBE_NS 1500000.
#define THROTTLE_HELD_PROBE_NS  3000000.
/* Probes take no more than one part in so many of the time; the interval has a limit. */
#define THROTTLE_PROBE_PART       20
#define THROTTLE_CLOSE_PROBE_PART 8
#define THROTTLE_PROBE_MOST_NS    50000000.
/* The quick estimate is over so many probes, the slow one over this on-time; so far apart (and so
 * many standard deviations) they contradict each other; charges by estimate are settled over the
 * last. */
#define THROTTLE_QUICK_PROBES 12
#define THROTTLE_SLOW_NS      3000000000.
#define THROTTLE_FAR          .35
#define THROTTLE_FAR_DOUBT    4.5
#define THROTTLE_SETTLE_NS    4000000000.

/* The bucket: a cap in the process */

#define BUCKET_BURST_NS    5000000ULL /* idle time that is credit, and makes up for late wake-ups */
#define BUCKET_SLACK_NS    100000ULL  /* debt that nobody waits for: a sleep takes about as long */
#define BUCKET_DEBT_MAX_NS 50000000000ULL /* debt beyond it is forgiven */
#define BUCKET_INSANE_NS   60000000000ULL /* bound: more than the debt, for clocks read apart */

/* Costs of launches */

#define COST_MIN_NS        500   /* of any launch */
#define COST_CELLS_LOG     13    /* the table has 2 to this cells of 32 bytes */
#define COST_CELL_PROBES   32u   /* cells that a key may be in */
#define COST_FIRST_SAMPLES 4u    /* so many launches are measured at once */
#define COST_WILD          20.0f /* a sample of so many times the usual is not believed at once */
#define COST_SAMPLE_MAX_NS 3600000000000ULL /* bound: of a sample */
#define COST_CALM_SAMPLES  1000u /* too short for the pace, in a row: the pace is lowered */
/*
 * The pace of a cell: one launch in PERIOD is measured, the mean is over about WINDOW launches, and
 * a sample of at least FROM_NS sets the pace. Long launches vary more, and a measurement costs them
 * less. X(pace, period, window, from_ns)
 */
#define COST_PACE_LIST(X)                                                                          \
    X(PACE_STEADY, 64, 512, 0)                                                                     \
    X(PACE_SPREAD, 16, 512, 0)                                                                     \
    X(PACE_LONG, 4, 64, 1e6f)                                                                      \
    X(PACE_VERY_LONG, 1, 16, 5e6f)

/* Caps in the process: holds and waits (hook/work/cap.c, hook/work/compute.c) */

/* Device time that work of unknown cost holds. It is paid after the second, however low the cap. */
#define CAP_HOLD_NS      100000000ULL
#define CAP_HOLD_PAID_NS 1000000000ULL
#define CAP_STUCK_MOST   10 /* holds that were paid before the work ended: then no more are made */
/* Bound: a launch of unknown cost is charged the age of a similar one that still runs. */
#define CAP_OWED_MOST_NS 100000000ULL
#define CAP_LONG_NS      1000000ULL /* from this estimate on a charge counts as unsure */
#define CAP_LATE_NS      1000000ULL /* between charge and launch: the launch is charged as late */
#define CAP_NAP_FENCE_NS 50000ULL   /* a sleep that is worth telling other tenants of */
#define CAP_NAP_LEAST_NS 100000ULL
#define CAP_NAP_PART     4           /* of the time waited so far, until the next look */
#define CAP_HELD_LONG_NS 20000000ULL /* so are longer waits: holds of others end any time */
/* A launch spins while the hold of its own process is younger than this. While others have turns, a
 * process that sleeps through its own turn waits for the next one. */
#define CAP_SPIN_NS      200000ULL
#define CAP_SPIN_TURN_NS 20000000ULL
/* A sample is asked for again when it has taken so much of its time more, at most the second. */
#define CAP_POLL_PART    16
#define CAP_POLL_MOST_NS 500000ULL

#define COMPUTE_NAP_MOST_NS 2000000ULL /* a wait for the cap looks again after this */
#define COMPUTE_UNKNOWN_NS  20000ULL   /* the charge of a launch of unknown cost */
/* A graph's launch returns so long after the device has begun with it. */
#define COMPUTE_GRAPH_WAITED_NS 4000ULL
#define COMPUTE_HARVEST_NS      100000ULL /* between two looks at samples */
#define COMPUTE_KNOWN_PART      8   /* of a survey's launches, to see whether known costs change */
#define COMPUTE_SURVEY          32u /* launches of which one stands for all if nothing is limited */
#define COMPUTE_REFRESH_NS      50000000ULL /* between two looks at the settings */

/* Semaphores (hook/work/semaphore.c) */

#define SEMAPHORE_SHORT_WAIT_NS  500000ULL /* a shorter wait replaces a fence, on one stream */
#define SEMAPHORE_AHEAD_STEP_NS  5000000ULL
#define SEMAPHORE_AHEAD_BOUND_NS (SCHED_RESCUE_NS + SCHED_RESCUE_NS / 4)
#define SEMAPHORE_TIMER_SLACK_NS 1000UL       /* of the helper thread's sleeps */
#define SEMAPHORE_KEEP_OPEN_NS   100000000ULL /* between two openings while a process stays away */

/* Samples: times of launches (sample.c, survey.c) */

#define SAMPLE_POOLS_MAX     16    /* contexts with samples */
#define SAMPLE_SAMPLES_MAX   32    /* of a context, under way at a time */
#define SAMPLE_HARVEST_MOST  8     /* in one call */
#define SAMPLE_CALIBRATIONS  8     /* pairs of events without work between, for their own cost */
#define SAMPLE_BIAS_FIRST_NS 1280  /* [H200] the cost of such a pair */
#define SAMPLE_BIAS_MOST_NS  20000 /* bound */
/* [H200] The part of a pair's cost that a kernel on an idle stream hides, and the cost of a launch
 * in pairs. Kernels of 20, 200 and 2000 us come out as 19.9, 199.9 and 2001 us. */
#define SAMPLE_IDLE_PART    0.4
#define SAMPLE_LAUNCH_SHARE 1.6
#define SAMPLE_GAP_PART     20 /* a gap longer than this part of the pair makes a sample doubtful */
#define SAMPLE_CLOCKS_PART  100  /* the device's clock and the CPU's differ by this part at most, */
#define SAMPLE_CLOCKS_NS    2000 /* and by this time */
/* A longer gap means that the thread was held up, or that a module was loaded. */
#define SAMPLE_GAP_MOST_NS 50000
#define SURVEY_STREAMS     64u /* streams with the same place share what may be measured */
#define SURVEY_PERIOD_NS   1000000000ULL
#define SURVEY_WINDOW      16u /* measurements behind an average, about */

/* Shares of a guarded instance (guard/sched) */

#define SHARE_REFRESH_NS    50000000ULL /* between two looks at the settings */
#define SHARE_RETRY_NS      10000000ULL /* after a switch that failed */
#define SHARE_ENDING_NS     5000000ULL  /* more than the driver's default time slice */
#define SHARE_STEP_MOST_NS  50000000ULL /* bounds of a step */
#define SHARE_STEP_LEAST_NS 20000ULL
#define SHARE_ROUNDS        4u /* of one step: a turn ends, and the next one is granted at once */
#define SHARE_END_TRIES     5u
/* Between probes of a tenant that is alone (every LONE_STOPS-th is for display), has just been
 * switched on, has the device while others wait, has it while nobody waits. */
#define SHARE_LONE_NS      50000000ULL
#define SHARE_LONE_STOPS   10u
#define SHARE_FRESH_NS     700000ULL
#define SHARE_HOLDS_NS     2000000ULL
#define SHARE_UNCLAIMED_NS 20000000ULL
/* The same of an idle tenant; one that has been idle for LATE_NS, for VERY_LATE_NS. */
#define SHARE_ASIDE_NS           1600000ULL
#define SHARE_ASIDE_LATE_NS      4000000ULL
#define SHARE_ASIDE_VERY_LATE_NS 8000000ULL
#define SHARE_LATE_NS            1000000000ULL
#define SHARE_VERY_LATE_NS       10000000000ULL
#define SHARE_SOON_NS            300000ULL   /* to confirm a probe that found nothing */
#define SHARE_STEP_NS            1000000ULL  /* without a probe, to notice newcomers */
#define SHARE_SLACK_NS           1000        /* a probe so close is not worth another step */
#define SHARE_PROBE_FIRST_NS     800000ULL   /* estimate of a probe's duration, until the first */
#define SHARE_PROBE_MOST_NS      10000000ULL /* bound: a probe that took longer was disturbed */
/* Probes are so many times their own duration apart: of a tenant that always works, and of one that
 * was idle within the last. */
#define SHARE_COSTLY        30u
#define SHARE_COSTLY_IDLER  6u
#define SHARE_LATELY_NS     500000000ULL
#define SHARE_TIME_SLICE_NS 3000000ULL /* work that waits for another's time slice is not seen */

/* Usage counters: tenths of a second that a report of the driver's may be late. */
#define USAGE_LATE_SPANS 600

#endif
